"""The calibrated audit at new inputs: what was learnt from left-out rows, and the weighed terms."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from rue.auditing.assessment import Assessment, CalibratedParts
from rue.calibrate.error_model import ErrorModel, error_covariance
from rue.calibrate.left_out import Evidence
from rue.calibrate.left_out.evidence import AtRest, Honest
from rue.calibrate.left_out.witness import Witness
from rue.calibrate.left_out_terms import Compared, LeftOutTerms, disagreement, outer
from rue.calibrate.scarcity import Support
from rue.calibrate.smoother import Metric, smooth
from rue.core.arrays import Array
from rue.core.concepts import Inputs, Objective, Reach, Reached
from rue.core.derivatives import jacobian, outputs
from rue.core.model import Model
from rue.core.solve.choice import Inverted
from rue.core.stored import storable
from rue.data.features import Standardiser, coordinates

TERMS = ("noise", "resampling", "neighbours", "error model", "scarcity", "disagreement")
# The terms that are weighed. Where the left-out predictions come from an honest model, the terms of the tangent did
# not help to predict errors (two halves of 14 tables, see docs/practice.md); the disagreement has weight one there.
AT_REST, LINEAR, ELSEWHERE = (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5), (0, 3)


@storable
@dataclass(frozen=True)
class CalibrationFacts:
    """What does not depend on the damping: left-out residuals, and the models of noise and errors fitted to them."""

    evidence: Evidence = field(repr=False)
    rest: AtRest = field(repr=False)
    root: Tensor = field(repr=False)  # (r, d), of the covariance of the resampled gradient
    toward: Tensor = field(repr=False)  # (d,), the sum of all gradients of the loss
    weight: Array = field(repr=False)  # (n,), of the rows of the evidence, as all that follows
    noise: Array = field(repr=False)  # (k, k), covariance of the left-out residuals
    overall: Array = field(repr=False)  # (k,), their variance, or that of the model's own residuals where it is larger
    points: Array = field(repr=False)  # (n, p), standardised inputs
    standardise: Standardiser = field(repr=False)
    errors: ErrorModel = field(repr=False)
    witness: Witness | None = field(repr=False)  # a kernel model, for comparison with a linear model

    @property
    def weighed(self) -> tuple[int, ...]:
        """The places in `TERMS` of the terms whose weights are fitted to the left-out residuals."""
        if self.evidence.honest is not None:
            return ELSEWHERE
        return AT_REST if self.witness is None else LINEAR

    @property
    def apart(self) -> Tensor:
        """Squared distances (n, k) of left-out predictions to the witness's."""
        left_out = self.evidence.prediction
        return (left_out - (left_out if self.witness is None else self.witness.prediction)).square().cpu()

    @property
    def other(self) -> Honest | None:
        """The model that the prediction is compared with, if there is one."""
        return self.evidence.honest if self.witness is None else self.witness.says

    @property
    def objective(self) -> Objective:
        """The objective whose gradient is zero on the training rows: that of the model, or of its tangent."""
        return self.rest.objective

    @property
    def variance(self) -> float:
        """The noise variance, averaged over outputs."""
        return float(np.trace(self.noise)) / len(self.noise)


@storable
@dataclass(frozen=True)
class View:
    """The training rows under one damping, and the terms at some of them."""

    inverted: Inverted
    compared: Compared
    metric: Metric
    steps: Tensor = field(repr=False)  # (r, d), the root of the parameters' covariance
    rows: Tensor = field(repr=False)  # (s,), among those of the evidence
    terms: LeftOutTerms
    residual: float  # of the solves


@storable
@dataclass(frozen=True)
class CalibratedSpread:
    """The weighed terms at new inputs."""

    reach: Reach = field(repr=False)  # without damping: the scarcity term, and the covariance of `std`
    damped: Reach | None = field(repr=False)  # of the view, for similarity and resampling; None if it is the same
    view: View = field(repr=False)  # its metric in the coordinates of the reach that measures similarity
    known: CalibrationFacts = field(repr=False)
    support: Support = field(repr=False)
    power: int
    weights: Array = field(repr=False)  # (t,)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """All terms, and the guard for inputs unlike the training rows."""
        rows = jacobian(model, inputs)
        predicted = outputs(model, inputs)
        reached = self.reach(rows)
        damped = reached if self.damped is None else self.damped(rows)
        own = reached.leverage
        points = coordinates(inputs)
        smoothed, unlike = self._compare(damped, self.known.standardise(points))
        expected = self.known.errors(self.known.standardise(points), predicted.double().cpu().numpy())
        terms = [
            torch.as_tensor(self.known.noise).to(own).expand_as(own),
            damped.resampling,
            smoothed,
            error_covariance(torch.as_tensor(expected).to(own), torch.as_tensor(self.known.noise).to(own)),
            self.known.variance * own,
            self._disagreement(predicted, inputs, own, unlike),
        ]
        weighed = [float(weight) * term for weight, term in zip(self.weights, terms, strict=True)]
        believed = torch.stack(weighed).sum(0)
        guard = torch.diag_embed(self._guard(believed, own, unlike))
        total = believed + guard
        return Assessment(
            predicted,
            reached.resampling,
            total - weighed[1],
            score=total.diagonal(dim1=1, dim2=2).sum(1).sqrt(),
            residual=reached.residual,
            calibrated=CalibratedParts(
                total, weighed[4] + guard, (unlike | self.support.beyond(mean_diagonal(own))).double()
            ),
        )

    def _compare(self, damped: Reached, points: Array) -> tuple[Tensor, Tensor]:
        """The smoother (c, k, k), and which inputs are unlike the training rows (c,)."""
        smoothing = bool(self.weights[TERMS.index("neighbours")])
        squares = outer(self.view.compared.slope).flatten(1)
        smoothed, unlike = [], []
        for part in torch.arange(len(damped.rows), device=damped.rows.device).split(self.view.metric.chunk()):
            kappa = self.view.metric.similarity(damped.rows[part], damped.leverage[part])
            if smoothing:
                smoothed.append(smooth(kappa, squares, self.view.metric.weight, (self.power,))[0])
            unlike.append(self.support.unlike(kappa, points[part.cpu().numpy()]))
        like = damped.leverage
        return torch.cat(smoothed).view_as(like) if smoothing else torch.zeros_like(like), torch.cat(unlike)

    def _disagreement(self, predicted: Tensor, inputs: Inputs, own: Tensor, unlike: Tensor) -> Tensor:
        """The disagreement with the other model, as a covariance (c, k, k)."""
        other = self.known.other if self.weights[TERMS.index("disagreement")] else None
        if other is None:
            return torch.zeros_like(own)
        strange = unlike | self.support.beyond(mean_diagonal(own))
        apart = disagreement(predicted.double() - other(inputs), self.known.overall, strange)
        if self.known.witness is None:
            return apart
        return error_covariance(apart.diagonal(dim1=1, dim2=2), torch.as_tensor(self.known.noise).to(own))

    def _guard(self, total: Tensor, own: Tensor, unlike: Tensor) -> Tensor:
        """Variance (c, k) to add where local terms cannot be believed.

        Beyond the training rows' leverage the variance is at least that of all residuals, with its scarcity;
        between training rows but unlike them, at least half-way there on a logarithmic scale.
        """
        reach = mean_diagonal(own)
        variance = total.diagonal(dim1=1, dim2=2)
        usual = self.view.metric.weight.mean()  # a new row weighs as much: the scale of weights must not matter
        grown = 1 + usual * reach if self.known.evidence.honest is None else torch.ones_like(reach)
        overall = torch.as_tensor(self.known.overall).to(own) * grown[:, None]
        lacking = (torch.maximum(variance, overall) - variance).clamp_min(0)
        halfway = torch.sqrt(variance * torch.maximum(variance, overall)) - variance
        beyond = self.support.beyond(reach)[:, None]
        return torch.where(beyond, lacking, torch.where(unlike[:, None], halfway, torch.zeros_like(lacking)))


def mean_diagonal(matrices: Tensor) -> Tensor:
    """The mean of each matrix's diagonal: (c,) from (c, k, k)."""
    return matrices.diagonal(dim1=1, dim2=2).mean(1)
