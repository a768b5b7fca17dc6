"""The pseudo-inverse: it leaves out flat directions, such as raising all softmax logits of a classifier equally."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Facts, Inverse, Reach, Solution, TrainedObjective, TrainingSet
from rue.core.errors import NotPositiveDefiniteError
from rue.core.reach import solved_reach
from rue.core.solve.dense import checked, damped_matrix
from rue.core.stored import storable

FLAT = 1e-11  # times the largest eigenvalue, for a matrix scaled to a diagonal of ones: below it a direction is flat


@dataclass(frozen=True)
class PseudoInverse:
    """Drops up to `most` flat directions: exact for quantities they do not change, such as differences of logits."""

    notices_singular: ClassVar[bool] = True
    most: int | None = None

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:  # noqa: ARG002  every solver has this signature
        """The core itself: this solver needs no other coordinates."""
        return core

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Scale the matrix to a diagonal of ones and keep the eigendirections that are not flat."""
        matrix = damped_matrix(curvature, damping)
        scale = matrix.diagonal().clamp_min(0).sqrt()
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        values, vectors = torch.linalg.eigh(matrix / torch.outer(scale, scale))
        steep = values > FLAT * values[-1]
        dropped = int((~steep).sum())
        if float(values[0]) < -FLAT * float(values[-1]) or (self.most is not None and dropped > self.most):
            raise NotPositiveDefiniteError(
                f"{dropped} of {len(values)} directions are flat or point downwards, more than can be left out; give "
                "the l2 of training, or a damping"
            )
        return PseudoInverseAt(matrix, scale, values[steep], vectors[:, steep])


@storable
@dataclass(frozen=True)
class PseudoInverseAt:
    """Eigenvalues and eigenvectors of the directions that are not flat, ready to solve."""

    matrix: Tensor = field(repr=False)
    scale: Tensor = field(repr=False)  # (d,)
    values: Tensor = field(repr=False)  # (f,)
    vectors: Tensor = field(repr=False)  # (d, f)
    iterative: ClassVar[bool] = False

    def solve(self, vectors: Tensor) -> Solution:
        """Solve for every row of (r, d), without its part along flat directions."""
        steep = (vectors.double() / self.scale) @ self.vectors @ self.vectors.T
        solution = checked(
            lambda rows: (rows / self.scale) @ self.matrix / self.scale,
            steep,
            lambda rows: ((rows @ self.vectors) / self.values) @ self.vectors.T,
            float(self.values[-1]),
        )
        return Solution(solution.vectors / self.scale, solution.residual)

    def reach(self, steps: Tensor) -> Reach:
        """By a solve for every row."""
        return solved_reach(self, steps)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws that do not move along flat directions."""
        noise = torch.randn(count, len(self.values), generator=generator, dtype=torch.float64).to(self.values.device)
        return (noise / self.values.sqrt()) @ self.vectors.T / self.scale

    def describe(self) -> Facts:
        """How many directions were left out."""
        return {"solver": "PseudoInverse", "flat_directions": len(self.scale) - len(self.values)}
