"""The spread of a model whose parameters, or blocks of them, count as independent of each other."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.auditing.assessment import Assessment
from rue.core.concepts import Inputs, Inverse, Resampler
from rue.core.derivatives import jacobian, outputs
from rue.core.errors import SettingError
from rue.core.influence import Meat, pull_root, pull_variance
from rue.core.model import Model
from rue.core.stored import storable
from rue.data.rows import Rows


@storable
@dataclass(frozen=True)
class DiagonalSpread:
    """The variance of every parameter (d,); the covariance of a prediction is J diag(variance) Jᵀ."""

    variance: Tensor = field(repr=False)

    @classmethod
    def of(cls, model: Model, data: Rows, resampler: Resampler, inverse: Inverse) -> "DiagonalSpread":
        """m / c², from the variances m of the resampled gradient and the damped curvature c."""
        step = pull_variance(model, data, resampler).sqrt()
        return cls(inverse.solve(step.unsqueeze(0)).vectors[0].square())

    def of_sums(self) -> "DiagonalSpread":
        """Itself: nothing in it is of a single row."""
        return self

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Push the parameters' variances through the Jacobian."""
        rows = jacobian(model, inputs).double()  # (c, k, d)
        return Assessment(outputs(model, inputs), torch.einsum("cid,cjd->cij", rows * self.variance, rows))


@storable
@dataclass(frozen=True)
class BlockSpread:
    """Rows F (r, d) with FᵀF the covariance of the parameters of a block, for every block of consecutive columns."""

    steps: Tensor = field(repr=False)
    blocks: tuple[int, ...]

    @classmethod
    def of(cls, model: Model, data: Rows, resampler: Resampler, inverse: Inverse) -> "BlockSpread":
        """Solve for a root of the covariance of the resampled gradient."""
        return cls(inverse.solve(pull_root(model, data, resampler, inverse)).vectors, model.family.blocks)

    def of_sums(self) -> "BlockSpread":
        """Itself: nothing in it is of a single row."""
        return self

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Add up the covariances that the blocks make."""
        rows = jacobian(model, inputs).double()
        covariance = rows.new_zeros(len(rows), rows.shape[1], rows.shape[1])
        for part, steps in zip(rows.split(self.blocks, -1), self.steps.split(self.blocks, -1), strict=True):
            moved = part @ steps.T  # (c, k, r)
            covariance += moved @ moved.mT
        return Assessment(outputs(model, inputs), covariance)


def coarse_spread(model: Model, data: Rows, resampler: Resampler, inverse: Inverse) -> DiagonalSpread | BlockSpread:
    """The spread by blocks where the family has some, else that of single parameters."""
    return (BlockSpread if model.family.blocks else DiagonalSpread).of(model, data, resampler, inverse)


def refuse_what_needs_rows(model: Model, meat: Meat, damped: bool) -> None:
    """Raise for settings that leave rows out: these would be far off where parameters count as independent."""
    solver = "Blocks()" if model.family.blocks else "EKFAC()"
    if meat != "HC0":
        raise SettingError(f'meat="{meat}" leaves rows out, for which {solver} is too coarse; use solver=Sketch()')
    if not (model.objective.stated or damped):
        raise SettingError(
            f"without a penalty one is chosen by rows that are left out, for which {solver} is too coarse; give "
            "rue.wrap the l2 of training, give a damping, or use solver=Sketch()"
        )
