"""The audit of a classifier by its predictions alone, compared with witnesses: other models of the same rows."""

from dataclasses import replace

import torch

from rue.calibrate.left_out import Evidence
from rue.calibrate.shrinkage import Shrinkage, best_temperature, tempered_nll
from rue.core.classify import log_likelihood
from rue.core.concepts import Decision
from rue.core.derivatives import outputs
from rue.methods.crossed import crossed
from rue.methods.fitting import Fitting
from rue.methods.margins import OutsideMoves, ShrunkMargins
from rue.methods.resampled import Resampled
from rue.methods.second_opinion import SecondOpinion, targets_of

SHARES = 21  # so many shares of the witnesses' opinion are tried, from none to all


def margins_from_outside(
    fit: Fitting, decision: Decision, evidence: Evidence, moves: Resampled | None, seed: int
) -> ShrunkMargins:
    """Make the model as confident as the witnesses are, and mix their probabilities with its own.

    The model may have memorised the training rows and be too confident there. Both are therefore compared on new rows,
    each put together from two neighbouring training rows.
    """
    if evidence.source == "refits":
        return _refitted(fit, decision, evidence, moves)
    assert evidence.honest is not None
    second = SecondOpinion.of(decision, evidence.honest, evidence.prediction, evidence.rows, fit.data.units)
    inputs = crossed(fit.model, evidence.rows, seed)
    logits, honest = outputs(fit.model, inputs).double(), evidence.honest(inputs)
    alike = torch.full((len(logits),), 1 / len(logits), dtype=torch.float64)
    wanted, entropy = second.wanted(decision, honest, alike)
    unit, limit = best_temperature(decision, logits, wanted, alike)
    nll = tempered_nll(decision, logits, wanted, alike, unit)
    shrinkage = Shrinkage(unit, 0.0, 0.0, nll, limit)
    return ShrunkMargins(decision, OutsideMoves(moves), shrinkage, second.beside(shrinkage, entropy))


def _refitted(fit: Fitting, decision: Decision, evidence: Evidence, resampled: Resampled | None) -> ShrunkMargins:
    """The temperature and share that make the labels most likely, from copies and witnesses that left the row out."""
    targets = targets_of(evidence.rows)
    weight = evidence.weight / evidence.weight.sum()
    unit, limit = best_temperature(decision, evidence.prediction, targets, weight)
    shrinkage = Shrinkage(
        unit, 0.0, 0.0, tempered_nll(decision, evidence.prediction, targets, weight, unit), limit=limit
    )
    moves = OutsideMoves(resampled)
    if evidence.honest is None or evidence.beside is None:
        return ShrunkMargins(decision, moves, shrinkage)
    second = SecondOpinion.of(decision, evidence.honest, evidence.beside, evidence.rows, fit.data.units)
    own = shrinkage.probability(decision, evidence.prediction, None, None)
    theirs = second.tempered(decision, evidence.beside)

    def likelihood(share: float) -> float:
        mixed = replace(second, share=share).mixed(own, theirs)
        return float(weight @ log_likelihood(decision, mixed, targets))

    best = max(torch.linspace(0, 1, SHARES).tolist(), key=likelihood)
    return ShrunkMargins(decision, moves, shrinkage, replace(second, share=best))
