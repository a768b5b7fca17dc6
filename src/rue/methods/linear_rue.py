"""RUE in closed form: no members, no sampling error."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.auditing.meaning import NOT_THE_ERROR, Meaning, ScoreMeaning
from rue.auditing.trained import Solved
from rue.calibrate.left_out.sources import rested_tangent
from rue.core.concepts import CurvatureRule, Damping, Facts, Inputs, Inverse, Objective, Resampler, Solver, TrainingSet
from rue.core.curvature import GaussNewton
from rue.core.derivatives import followed, jacobian, outputs
from rue.core.errors import SettingError
from rue.core.influence import Meat, influence, pull_root, pull_root_fits
from rue.core.model import Model
from rue.core.reach import condensed
from rue.core.resample import Multinomial, spread
from rue.core.solve.choice import Inverted
from rue.core.stored import storable
from rue.methods.diagonal_spread import BlockSpread, DiagonalSpread, coarse_spread, refuse_what_needs_rows
from rue.methods.fitting import Fitting, fitting

MEANING = Meaning(
    made="The training rows are re-weighted as a bootstrap would; the parameters follow to first order, and with them "
    "the predictions, in closed form.",
    score=ScoreMeaning(
        "The standard deviation of the prediction over the training sets that might have been: with other training "
        "rows it would change by about so much.",
        NOT_THE_ERROR,
    ),
)


@dataclass(frozen=True)
class LinearRUE:
    """The limit of `RUE` for many members and a linearised network (Claim 1, at finite n).

    For a linear model without penalty this is White's HC0 sandwich variance of a prediction; `meat="HC3"`
    takes leave-one-out residuals instead. `score` is the standard deviation.
    """

    curvature: CurvatureRule = field(default_factory=GaussNewton)
    damping: Damping | None = None
    solver: Solver | None = None
    resampler: Resampler = field(default_factory=Multinomial)
    meat: Meat = "HC0"
    meaning: ClassVar[Meaning] = MEANING

    def __post_init__(self) -> None:
        if self.meat not in ("HC0", "HC3"):
            raise SettingError(f'meat must be "HC0" or "HC3" (leave-one-out residuals), got {self.meat!r}')

    def fit(self, model: Model, data: Any) -> Auditor:
        """Solve once for the spread of the resampled gradients; too large for memory, solve for each audited input.

        Where the penalty is unknown, the spread is that of the model's tangent (its linearisation in the parameters),
        refitted with the penalty that has the least left-out loss.
        """
        with fitting(self, model, data, project=True, diagonal=True) as fit:
            if fit.model.family.diagonal or fit.model.family.blocks:
                return fit.auditor(*self._diagonal(fit))
            rest, inverted, facts = self._rest(fit)
            if not pull_root_fits(rest, fit.data):
                streamed = StreamedSpread(rest, fit.data, self.resampler, inverted.inverse, self.meat)
                return fit.auditor(streamed, {**facts, "streamed": True}, solved=Solved(inverted, rest))
            root = pull_root(rest, fit.data, self.resampler, inverted.inverse, self.meat)
            steps, residual = inverted.inverse.solve(root)
            return fit.auditor(LinearSpread(steps), facts, solved=Solved(inverted, rest, residual))

    def _diagonal(self, fit: Fitting) -> tuple[DiagonalSpread | BlockSpread, Facts]:
        """The spread of parameters that count as independent; no influence of single rows is kept."""
        refuse_what_needs_rows(fit.model, self.meat, self.damping is not None)
        inverted = fit.invert(self.curvature, self.damping, self.solver)
        return coarse_spread(fit.model, fit.data, self.resampler, inverted.inverse), inverted.describe()

    def _rest(self, fit: Fitting) -> tuple[Objective, Inverted, Facts]:
        """The objective with zero gradient on these rows: the model's if its penalty is known, else a tangent's."""
        family = fit.model.family
        chosen = self.damping is not None or not isinstance(self.curvature, GaussNewton)
        if not (fit.model.objective.stated or chosen or family.coupled) and family.joint and family.stationary:
            tangent = rested_tangent(fit.model, fit.data)
            if tangent is not None:
                return (
                    tangent.model,
                    tangent.inverted,
                    {**tangent.inverted.describe(), "tangent_penalty": tangent.model.strength},
                )
        inverted = fit.invert(self.curvature, self.damping, self.solver)
        return fit.model, inverted, inverted.describe()


@storable
@dataclass(frozen=True)
class LinearSpread:
    """Rows F (r, d) with FᵀF the covariance of the parameters; a prediction's is (FJᵀ)ᵀ(FJᵀ)."""

    steps: Tensor = field(repr=False)

    def of_sums(self) -> "LinearSpread":
        """From a root that is no longer one of single rows."""
        return LinearSpread(condensed(self.steps))

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Push the parameters' covariance through the Jacobian."""
        rows = followed(model, inputs)
        moved = rows.values.double() @ self.steps.T  # (c, f, r)
        return Assessment(outputs(model, inputs), rows.blocks(moved @ moved.mT)[:])


@storable
@dataclass(frozen=True)
class StreamedSpread:
    """The same spread, from influences computed anew for each batch of inputs: nothing of size n×d is held."""

    objective: Objective = field(repr=False)  # at rest on the training rows
    data: TrainingSet = field(repr=False)
    resampler: Resampler
    inverse: Inverse = field(repr=False)
    meat: Meat

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Spread of the influences."""
        pulls, residual = influence(self.objective, self.data, self.inverse, jacobian(model, inputs), self.meat)
        moved = spread(self.resampler, pulls)  # (c, k, u)
        return Assessment(outputs(model, inputs), torch.einsum("ciu,cju->cij", moved, moved), residual=residual)
