"""The audit of a classifier that calibrates itself: probabilities averaged over training sets, by leave-one-out."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rue.auditor import Auditor
from rue.calibrate.left_out_terms import without_own
from rue.calibrate.shrinkage import Shrinkage, fit_shrinkage
from rue.classify import wrong
from rue.concepts import Assessment, CurvatureRule, Damping, Decision, Inputs, Inverse, Model, Resampler, Solver
from rue.curvature import GaussNewton
from rue.derivatives import jacobian, jacobian_batches, outputs, weighted_gradients
from rue.errors import ModelError, RueWarning
from rue.influence import pull_root
from rue.left_out import LeftOut, left_out, leverage
from rue.methods.fitting import Fitting, fitting
from rue.randomness import generator
from rue.resample import Multinomial
from rue.solve.choice import Inverted
from rue.trees import leaves

ROWS = 2_500  # training rows that the weights are fitted on, at most,
CELLS = 4_000_000  # and entries of their covariances, at least of
FEWEST = 200  # rows
CROWDED = 0.3  # effective parameters per row and free logit above which leave-one-out is not to be relied on


@dataclass(frozen=True)
class ClassifierRUE:
    """`score` is the probability that the decision is wrong, averaged over the training sets that might have been.

    Margins between logits are shrunk by a temperature, by their resampling variance and by what the data leave open
    (JH⁻¹Jᵀ); the three weights make the labels of left-out training rows most likely. No row is held out.
    """

    curvature: CurvatureRule = field(default_factory=GaussNewton)
    damping: Damping | None = None
    solver: Solver | None = None
    resampler: Resampler = field(default_factory=Multinomial)
    seed: int = 0

    def fit(self, model: Model, data: Any) -> Auditor:
        """Leave every row out once, by influence, and weigh what shrinks its margins."""
        with fitting(self, model, data, project=True) as fit:
            decision = classifier(fit.model, "ClassifierRUE")
            inverted = fit.invert(self.curvature, self.damping, self.solver)
            left = left_out(fit.model, fit.data, inverted.inverse)
            root = pull_root(fit.model, fit.data, self.resampler, inverted.inverse)
            steps, residual = inverted.inverse.solve(root)
            shrinkage = self._shrinkage(fit, decision, inverted, left, steps)
            facts = {
                **inverted.describe(),
                "residual": residual,
                "effective_parameters": left.effective,
                "temperature": shrinkage.unit**0.5,
                "weights": {"resampling": shrinkage.resampling, "scarcity": shrinkage.scarcity},
                "left_out_nll": shrinkage.nll,
            }
            _warn_crowded(fit, left)
            spread = ShrunkMargins(decision, inverted.inverse, steps, shrinkage)
            return fit.auditor(spread, facts, inverted=inverted)

    def _shrinkage(
        self, fit: Fitting, decision: Decision, inverted: Inverted, left: LeftOut, steps: Tensor
    ) -> Shrinkage:
        usable = torch.nonzero(fit.data.weight > 0).flatten()
        count = min(ROWS, max(FEWEST, CELLS // left.prediction.shape[1] ** 2))
        drawn = torch.randperm(len(usable), generator=generator(self.seed))[:count]
        rows = usable[drawn].sort().values
        resampling, targets = _without_own_unit(fit, inverted.inverse, left, steps, rows, self.resampler)
        at = rows.to(left.prediction.device)
        weight = fit.data.weight[rows]
        return fit_shrinkage(decision, left.prediction[at], resampling, left.reach[at], targets, weight)


@dataclass(frozen=True)
class ShrunkMargins:
    """Averaged probabilities at new inputs."""

    decision: Decision
    inverse: Inverse = field(repr=False)
    steps: Tensor = field(repr=False)  # (r, d), the root of the parameters' covariance
    shrinkage: Shrinkage

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Two covariances of the logits, and the probabilities under both."""
        rows = jacobian(model, inputs).double()
        logits = outputs(model, inputs).double()
        moved = rows @ self.steps.T
        covariance = moved @ moved.mT
        scarcity, residual = leverage(rows, self.inverse)
        shares = self.shrinkage.probability(self.decision, logits, covariance, scarcity)
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
    fit: Fitting, inverse: Inverse, left: LeftOut, steps: Tensor, rows: Tensor, resampler: Resampler
) -> tuple[Tensor, Tensor]:
    """The resampling covariance (s, k, k) of training rows (s,) without their own unit, and their targets."""
    toward = weighted_gradients(fit.model, fit.data, torch.ones(1, fit.data.n, dtype=torch.float64))
    pull = inverse.solve(toward).vectors[0]
    resampling, targets = [], []
    for batch, own_rows in jacobian_batches(fit.model, fit.data):
        part = rows[(rows >= batch.rows.start) & (rows < batch.rows.stop)].to(own_rows.device)
        chosen = own_rows[part - batch.rows.start].double()
        moved = chosen @ steps.T
        resampling.append(without_own(moved @ moved.mT, chosen @ pull, left, part, resampler, fit.data.units))
        labels = leaves(batch.targets)[0]  # where classes are weighted, the weights come after them
        targets.append(labels[part - batch.rows.start])
    return torch.cat(resampling), torch.cat(targets)


def _warn_crowded(fit: Fitting, left: LeftOut) -> None:
    """Say where there are too many effective parameters for the rows."""
    free = max(1, left.fitted.shape[1] - (fit.model.family.decision == "largest"))
    share = left.effective / (fit.data.units * free)
    if share > CROWDED:
        said = (
            f"{left.effective:.0f} effective parameters for {fit.data.units} rows of {free} free logits are a share of "
            f"{share:.2f}, above {CROWDED}: probabilities by leave-one-out are then rough; check them on held-out rows"
        )
        fit.said.append(said)
        warnings.warn(said, RueWarning, stacklevel=4)
