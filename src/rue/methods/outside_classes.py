"""The audit of classes from a model that is seen from outside: by its predictions, beside witnesses."""

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

SHARES = 21  # of the witnesses' opinion that are tried, from none to all


def seen_from_outside(
    fit: Fitting, decision: Decision, evidence: Evidence, seen: Resampled | None, seed: int
) -> ShrunkMargins:
    """The model as sure as the witnesses are of rows like those of training, and their opinion beside its own.

    It has learnt the training rows by heart, and is surer of them than of any others: both are asked about rows that
    are put together of two neighbours.
    """
    if evidence.source == "refits":
        return _refitted(fit, decision, evidence, seen)
    assert evidence.honest is not None
    second = SecondOpinion.of(decision, evidence.honest, evidence.prediction, fit.data)
    inputs = crossed(fit.model, fit.data, seed)
    logits, said = outputs(fit.model, inputs).double(), evidence.honest(inputs)
    alike = torch.full((len(logits),), 1 / len(logits), dtype=torch.float64)
    wanted, entropy = second.wanted(decision, said, alike)
    unit, limit = best_temperature(decision, logits, wanted, alike)
    nll = tempered_nll(decision, logits, wanted, alike, unit)
    shrinkage = Shrinkage(unit, 0.0, 0.0, nll, limit)
    return ShrunkMargins(decision, OutsideMoves(seen), shrinkage, second.beside(shrinkage, entropy))


def _refitted(fit: Fitting, decision: Decision, evidence: Evidence, seen: Resampled | None) -> ShrunkMargins:
    """Temperature and share under which labels are most likely that neither copies nor witnesses have seen."""
    targets = targets_of(fit.data)
    weight = evidence.weight / evidence.weight.sum()
    unit, limit = best_temperature(decision, evidence.prediction, targets, weight)
    shrinkage = Shrinkage(
        unit, 0.0, 0.0, tempered_nll(decision, evidence.prediction, targets, weight, unit), limit=limit
    )
    moves = OutsideMoves(seen)
    if evidence.honest is None or evidence.beside is None:
        return ShrunkMargins(decision, moves, shrinkage)
    second = SecondOpinion.of(decision, evidence.honest, evidence.beside, fit.data)
    own = shrinkage.probability(decision, evidence.prediction, None, None)
    said = second.tempered(decision, evidence.beside)

    def likelihood(share: float) -> float:
        mixed = replace(second, share=share).mixed(own, said)
        return float(weight @ log_likelihood(decision, mixed, targets))

    best = max(torch.linspace(0, 1, SHARES).tolist(), key=likelihood)
    return ShrunkMargins(decision, moves, shrinkage, replace(second, share=best))
