"""EK-FAC: every layer in eigenbases of what goes in and what comes back, in which everything counts as diagonal."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from rue.core.chunks import inputs_of
from rue.core.concepts import Curvature, Facts, Inverse, Reach, Solution, TrainedObjective, TrainingSet
from rue.core.errors import SettingError
from rue.core.reach import solved_reach
from rue.core.solve.eigenbases import curved_rows, positive
from rue.core.solve.sketch import in_coordinates
from rue.core.stored import storable


@dataclass(frozen=True)
class EKFAC:
    """Eigenvalue-corrected Kronecker factors (George et al., 2018), for `LinearRUE` of torch modules.

    Matrices of weights are turned into the eigenbases of the second moments of what goes into their layer and of what
    comes back to it; all other parameters stay as they are. In these coordinates the curvature and the covariance of
    the resampled gradient are taken as diagonal: var(x) = Σⱼ (J(x)qⱼ)² mⱼ / (cⱼ + λⱼ + damping)². Nothing connects two
    layers, so that this is coarser than a `Sketch`: it is here to be compared with.
    """

    notices_singular: ClassVar[bool] = True

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:
        """The objective in the eigenbases of its layers."""
        if core.eigenbases is None or core.family.coupled:
            raise SettingError(
                "EKFAC() reads gradients off the layers of a torch module whose rows do not depend on each other, and "
                "this model has none; leave solver= away, or use Projection()"
            )
        if data.units < data.n:
            raise SettingError(
                f"EKFAC() adds up squares row by row, and the {data.n} rows are {data.units} groups; use Sketch()"
            )
        coordinates = core.eigenbases(inputs_of(data), curved_rows(core, data))
        return replace(in_coordinates(core, coordinates, "EKFAC()"), diagonal=True)

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Add up the squares of the curvature's root."""
        root, penalty = curvature.root(), curvature.penalty_diagonal()
        if root is None or penalty is None:
            raise SettingError("EKFAC() adds up squares of gradients; use curvature=GaussNewton(), or Sketch()")
        values = penalty + damping
        for rows in root:
            values += rows.square().sum(0)
        return DiagonalInverse(positive(values, damping))


@storable
@dataclass(frozen=True)
class DiagonalInverse:
    """The damped curvature of coordinates that count as independent."""

    values: Tensor = field(repr=False)  # (d,)
    iterative: ClassVar[bool] = False

    def solve(self, vectors: Tensor) -> Solution:
        """Divide every row of (r, d); exact, so that the residual is zero."""
        return Solution(vectors.double() / self.values, 0.0)

    def reach(self, steps: Tensor) -> Reach:
        """By a solve for every row."""
        return solved_reach(self, steps)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Independent draws for every coordinate."""
        noise = torch.randn(count, len(self.values), generator=generator, dtype=torch.float64)
        return noise.to(self.values.device) / self.values.sqrt()

    def describe(self) -> Facts:
        """The solver's name."""
        return {"solver": "EKFAC"}
