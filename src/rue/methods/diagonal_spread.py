"""The spread of a model whose parameters count as independent, as in the eigenbases of EK-FAC."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.auditing.assessment import Assessment
from rue.core.concepts import Inputs, Inverse, Resampler
from rue.core.derivatives import jacobian, outputs
from rue.core.errors import SettingError
from rue.core.influence import Meat, pull_variance
from rue.core.model import Model
from rue.data.rows import Rows


@dataclass(frozen=True)
class DiagonalSpread:
    """The variance of every parameter (d,); the covariance of a prediction is J diag(variance) Jᵀ."""

    variance: Tensor = field(repr=False)

    @classmethod
    def of(cls, model: Model, data: Rows, resampler: Resampler, inverse: Inverse) -> "DiagonalSpread":
        """m / c², from the variances m of the resampled gradient and the damped curvature c."""
        step = pull_variance(model, data, resampler).sqrt()
        return cls(inverse.solve(step.unsqueeze(0)).vectors[0].square())

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Push the parameters' variances through the Jacobian."""
        rows = jacobian(model, inputs).double()  # (c, k, d)
        return Assessment(outputs(model, inputs), torch.einsum("cid,cjd->cij", rows * self.variance, rows))


def refuse_what_needs_rows(model: Model, meat: Meat, damped: bool) -> None:
    """Raise for settings that leave rows out: these would be far off in such coordinates."""
    if meat != "HC0":
        raise SettingError(f'meat="{meat}" leaves rows out, for which EKFAC() is too coarse; use solver=Sketch()')
    if not (model.objective.stated or damped):
        raise SettingError(
            "without a penalty one is chosen by rows that are left out, for which EKFAC() is too coarse; give "
            "rue.wrap the l2 of training, give a damping, or use solver=Sketch()"
        )
