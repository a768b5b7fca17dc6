"""The audit of a classifier that calibrates itself: probabilities averaged over training sets, by leave-one-out."""

from dataclasses import dataclass, field
from math import exp
from typing import Any

import torch
from torch import Tensor

from rue.auditor import Auditor
from rue.calibrate.left_out_terms import without_own
from rue.calibrate.shrinkage import Shrinkage, best_temperature, fit_shrinkage, tempered_nll
from rue.classify import probability, wrong
from rue.concepts import Assessment, CurvatureRule, Damping, Decision, Inputs, Inverse, Model, Resampler, Solver
from rue.curvature import GaussNewton
from rue.data import Rows
from rue.derivatives import jacobian, jacobian_batches, outputs, weighted_gradients
from rue.errors import ModelError
from rue.influence import pull_root
from rue.left_out import Evidence, EvidenceRule, Mixture, leverage
from rue.left_out.evidence import Honest
from rue.left_out.witness import joined
from rue.methods.fitting import Fitting, fitting
from rue.randomness import generator
from rue.resample import Multinomial
from rue.trees import leaves

ROWS = 2_500  # training rows that the weights are fitted on, at most,
CELLS = 4_000_000  # and entries of their covariances, at least of
FEWEST = 200  # rows
BEHIND = 0.05  # nats a row by which left-out rows may speak for another model: the model's own share falls by e


@dataclass(frozen=True)
class ClassifierRUE:
    """`score` is the probability that the decision is wrong, averaged over the training sets that might have been.

    Margins between logits are shrunk by a temperature, by their resampling variance and by what the data leave open
    (JH⁻¹Jᵀ); the three weights make the labels of left-out training rows most likely. Where the left-out predictions
    are another model's, its probabilities are a second opinion: `probability` is the mean of both, and the model's own
    stay in `audit.own_probability`. No row is held out.
    """

    curvature: CurvatureRule = field(default_factory=GaussNewton)
    damping: Damping | None = None
    solver: Solver | None = None
    resampler: Resampler = field(default_factory=Multinomial)
    seed: int = 0

    def fit(self, model: Model, data: Any, *, left_out: EvidenceRule | None = None) -> Auditor:
        """Leave every row out once and weigh what shrinks its margins; `left_out` says by what, else a rule chooses."""
        with fitting(self, model, data, project=True) as fit:
            decision = classifier(fit.model, "ClassifierRUE")
            evidence, steps, residual, shrinkage = self._weighed(fit, decision, left_out)
            if shrinkage.limit and evidence.honest is None and left_out is None and fit.model.family.stationary:
                evidence, steps, residual, shrinkage = self._weighed(fit, decision, Mixture())
            inverse = evidence.rest.inverted.inverse
            second = None if evidence.honest is None else SecondOpinion.of(decision, evidence, fit.data, shrinkage)
            facts = {
                **evidence.rest.inverted.describe(),
                **evidence.describe(),
                "residual": residual,
                "effective_parameters": evidence.rest.left.effective,
                "temperature": shrinkage.unit**0.5,
                "weights": {"resampling": shrinkage.resampling, "scarcity": shrinkage.scarcity},
                "left_out_nll": shrinkage.nll,
                "second_opinion": 0.0 if second is None else second.share,
            }
            spread = ShrunkMargins(decision, inverse, steps, shrinkage, second)
            return fit.auditor(spread, facts, evidence=evidence)

    def _weighed(
        self, fit: Fitting, decision: Decision, rule: EvidenceRule | None
    ) -> tuple[Evidence, Tensor, float, Shrinkage]:
        """The evidence, the root of the parameters' covariance with its residual, and what shrinks margins."""
        evidence = fit.evidence(rule)
        inverse = evidence.rest.inverted.inverse
        steps, residual = inverse.solve(pull_root(evidence.rest.objective, fit.data, self.resampler, inverse))
        return evidence, steps, residual, self._shrinkage(fit, decision, evidence, steps)

    def _shrinkage(self, fit: Fitting, decision: Decision, evidence: Evidence, steps: Tensor) -> Shrinkage:
        left = evidence.rest.left
        usable = torch.nonzero(fit.data.weight > 0).flatten()
        count = min(ROWS, max(FEWEST, CELLS // left.prediction.shape[1] ** 2))
        drawn = torch.randperm(len(usable), generator=generator(self.seed))[:count]
        rows = usable[drawn].sort().values
        resampling, targets = _without_own_unit(fit, evidence, steps, rows, self.resampler)
        at = rows.to(left.prediction.device)
        weight = fit.data.weight[rows]
        return fit_shrinkage(decision, left.prediction[at], resampling, left.reach[at], targets, weight)


@dataclass(frozen=True)
class SecondOpinion:
    """Probabilities of the honest model, at the temperature its left-out rows ask for, and what they count."""

    honest: Honest = field(repr=False)
    unit: float  # a squared temperature
    share: float  # of the averaged probability; the model's own have the rest

    @classmethod
    def of(cls, decision: Decision, evidence: Evidence, data: Rows, own: Shrinkage) -> "SecondOpinion":
        """Half where left-out rows speak for both alike, all where the model's own are far behind, or say nothing."""
        assert evidence.honest is not None
        targets = leaves(joined([batch.targets for batch in data.batches()]))[0]
        shares = (data.weight / data.weight.sum()).to(evidence.prediction)
        unit, limit = best_temperature(decision, evidence.prediction, targets, shares)
        unit = 1.0 if limit else unit
        behind = max(0.0, own.nll - tempered_nll(decision, evidence.prediction, targets, shares, unit))
        return cls(evidence.honest, unit, 1.0 if own.limit else 1 - 0.5 * exp(-behind / BEHIND))

    def mixed(self, decision: Decision, own: Tensor, inputs: Inputs) -> Tensor:
        """Probabilities (c, classes) between the model's own and its own."""
        said = probability(decision, self.honest(inputs) / self.unit**0.5)
        return (1 - self.share) * own + self.share * said


@dataclass(frozen=True)
class ShrunkMargins:
    """Averaged probabilities at new inputs."""

    decision: Decision
    inverse: Inverse = field(repr=False)
    steps: Tensor = field(repr=False)  # (r, d), the root of the parameters' covariance
    shrinkage: Shrinkage
    second: SecondOpinion | None = None

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Two covariances of the logits, and the probabilities under both."""
        rows = jacobian(model, inputs).double()
        logits = outputs(model, inputs).double()
        moved = rows @ self.steps.T
        covariance = moved @ moved.mT
        scarcity, residual = leverage(rows, self.inverse)
        shares = self.shrinkage.probability(self.decision, logits, covariance, scarcity)
        if self.second is not None:
            shares = self.second.mixed(self.decision, shares, inputs)
        score = wrong(self.decision, shares, logits)
        return Assessment(logits, covariance, score=score, probability=shares, residual=residual)


def classifier(model: Model, who: str) -> Decision:
    """How the model's logits decide; a model without is refused."""
    if model.family.decision is None:
        raise ModelError(
            f'{who} audits classifiers: loss="cross_entropy", "bernoulli" or "ordinal"; for other losses use '
            "CalibratedRUE or LinearRUE"
        )
    return model.family.decision


def _without_own_unit(
    fit: Fitting, evidence: Evidence, steps: Tensor, rows: Tensor, resampler: Resampler
) -> tuple[Tensor, Tensor]:
    """The resampling covariance (s, k, k) of training rows (s,) without their own unit, and their targets."""
    objective, left = evidence.rest.objective, evidence.rest.left
    toward = weighted_gradients(objective, fit.data, torch.ones(1, fit.data.n, dtype=torch.float64))
    pull = evidence.rest.inverted.inverse.solve(toward).vectors[0]
    resampling, targets = [], []
    for batch, own_rows in jacobian_batches(objective, fit.data):
        part = rows[(rows >= batch.rows.start) & (rows < batch.rows.stop)].to(own_rows.device)
        chosen = own_rows[part - batch.rows.start].double()
        moved = chosen @ steps.T
        resampling.append(without_own(moved @ moved.mT, chosen @ pull, left, part, resampler, fit.data.units))
        labels = leaves(batch.targets)[0]  # where classes are weighted, the weights come after them
        targets.append(labels[part - batch.rows.start])
    return torch.cat(resampling), torch.cat(targets)
