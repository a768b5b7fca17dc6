"""RUE in closed form: no members, no sampling error."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rue.auditor import Auditor
from rue.concepts import (
    Assessment,
    CurvatureRule,
    Damping,
    Inputs,
    Inverse,
    Model,
    Resampler,
    Solver,
    TrainingSet,
)
from rue.curvature import GaussNewton
from rue.derivatives import jacobian, outputs
from rue.errors import SettingError
from rue.influence import Meat, influence, pull_root, pull_root_fits
from rue.methods.fitting import fitting
from rue.resample import Multinomial, spread


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

    def __post_init__(self) -> None:
        if self.meat not in ("HC0", "HC3"):
            raise SettingError(f'meat must be "HC0" or "HC3" (leave-one-out residuals), got {self.meat!r}')

    def fit(self, model: Model, data: Any) -> Auditor:
        """Solve once for the spread of the resampled gradients; where they do not fit, solve for each audited input."""
        with fitting(self, model, data, project=True) as fit:
            inverted = fit.invert(self.curvature, self.damping, self.solver)
            if not pull_root_fits(fit.model, fit.data):
                streamed = StreamedSpread(fit.data, self.resampler, inverted.inverse, self.meat)
                return fit.auditor(streamed, {**inverted.describe(), "streamed": True}, inverted=inverted)
            root = pull_root(fit.model, fit.data, self.resampler, inverted.inverse, self.meat)
            steps, residual = inverted.inverse.solve(root)
            facts = {**inverted.describe(), "residual": residual}
            return fit.auditor(LinearSpread(steps), facts, inverted=inverted)


@dataclass(frozen=True)
class LinearSpread:
    """Rows F (r, d) with FᵀF the covariance of the parameters; a prediction's is (FJᵀ)ᵀ(FJᵀ)."""

    steps: Tensor = field(repr=False)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Push the parameters' covariance through the Jacobian."""
        moved = jacobian(model, inputs).double() @ self.steps.T  # (c, k, r)
        return Assessment(outputs(model, inputs), torch.einsum("cir,cjr->cij", moved, moved))


@dataclass(frozen=True)
class StreamedSpread:
    """The same from the influence of every unit, read anew for each batch of inputs: nothing of size n×d is held."""

    data: TrainingSet = field(repr=False)
    resampler: Resampler
    inverse: Inverse = field(repr=False)
    meat: Meat

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Spread of the influences."""
        pulls, residual = influence(model, self.data, self.inverse, jacobian(model, inputs), self.meat)
        moved = spread(self.resampler, pulls)  # (c, k, u)
        return Assessment(outputs(model, inputs), torch.einsum("ciu,cju->cij", moved, moved), residual=residual)
