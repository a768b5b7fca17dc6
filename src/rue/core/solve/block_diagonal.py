"""Block by block: every layer's own part of the curvature is factored, and what connects two layers is dropped."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Facts, Inverse, Reach, Solution, TrainedObjective, TrainingSet
from rue.core.errors import NotPositiveDefiniteError, SettingError
from rue.core.memory import free_bytes
from rue.core.progress import track
from rue.core.reach import solved_reach
from rue.core.solve.dense import checked
from rue.core.stored import storable

LARGEST = 20_000  # parameters of a layer: a matrix of three gigabytes, factored in minutes on two cores


@dataclass(frozen=True)
class Blocks:
    """The curvature of every layer for itself, for `LinearRUE` of torch modules whose layers are of moderate size.

    A layer is a module's own parameters, its weights and its bias. What connects two layers is dropped from the
    curvature and from the covariance of the resampled gradient. This is coarser than a `Sketch`: it is here to be
    compared with.
    """

    notices_singular: ClassVar[bool] = True

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:  # noqa: ARG002  every solver has this signature
        """The core, whose layers count as independent of each other."""
        if core.by_layer is None or core.family.coupled:
            raise SettingError(
                "Blocks() are the layers of a torch module whose rows do not depend on each other, and this model has "
                "none; leave solver= away, or use Projection()"
            )
        return core.by_layer()

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor the damped matrix of every layer."""
        sizes = curvature.model.family.blocks
        root, penalty = curvature.root(), curvature.penalty_diagonal()
        if root is None or penalty is None:
            raise SettingError("Blocks() need curvature=GaussNewton() and a penalty that couples no parameters")
        _refuse_large(sizes, free_bytes(curvature.device))
        matrices = [torch.diag(part + damping) for part in penalty.split(sizes)]
        for rows in track("layers", root):
            for matrix, part in zip(matrices, rows.split(sizes, -1), strict=True):
                matrix.addmm_(part.T, part)
        return BlockInverse(tuple(_Block.of(matrix, damping) for matrix in matrices))


@storable
@dataclass(frozen=True)
class BlockInverse:
    """A factor for every block of consecutive parameters."""

    blocks: "tuple[_Block, ...]" = field(repr=False)
    iterative: ClassVar[bool] = False

    def solve(self, vectors: Tensor) -> Solution:
        """Solve every block of columns of (r, d) for itself."""
        solutions = [block.solve(part) for block, part in self._parts(vectors.double())]
        return Solution(torch.cat([one.vectors for one in solutions], -1), max(one.residual for one in solutions))

    def reach(self, steps: Tensor) -> Reach:
        """By a solve for every row."""
        return solved_reach(self, steps)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Independent draws for every block."""
        noise = torch.randn(count, sum(self._sizes), generator=generator, dtype=torch.float64)
        noise = noise.to(self.blocks[0].matrix.device)
        return torch.cat([block.turned(part) for block, part in self._parts(noise)], -1)

    def describe(self) -> Facts:
        """The solver's name and the number of parameters in every block."""
        return {"solver": "Blocks", "blocks": self._sizes}

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(len(block.matrix) for block in self.blocks)

    def _parts(self, rows: Tensor) -> "Iterator[tuple[_Block, Tensor]]":
        return zip(self.blocks, rows.split(self._sizes, -1), strict=True)


@storable
@dataclass(frozen=True)
class _Block:
    """A matrix and its Cholesky factor."""

    matrix: Tensor
    factor: Tensor

    @classmethod
    def of(cls, matrix: Tensor, damping: float) -> "_Block":
        factor, failed = torch.linalg.cholesky_ex(matrix)
        scale = matrix.diagonal().clamp_min(torch.finfo(torch.float64).tiny)
        flat = float((factor.diagonal().square() / scale).min()) <= len(matrix) * torch.finfo(torch.float64).eps
        if int(failed) or flat or not bool(torch.isfinite(factor).all()):
            raise NotPositiveDefiniteError(
                f"the curvature of a layer of {len(matrix)} parameters with damping {damping:.3g} is singular; give "
                "the l2 of training, or a damping"
            )
        return cls(matrix, factor)

    def solve(self, wanted: Tensor) -> Solution:
        return checked(
            lambda rows: rows @ self.matrix,
            wanted,
            lambda rows: torch.cholesky_solve(rows.T, self.factor).T,
            float(self.matrix.trace()),
        )

    def turned(self, noise: Tensor) -> Tensor:
        """C⁻ᵀz, whose covariance is (CCᵀ)⁻¹."""
        return torch.linalg.solve_triangular(self.factor.T, noise.T, upper=True).T


def _refuse_large(sizes: tuple[int, ...], free: int) -> None:
    """Raise where a layer is too large to be factored, or all matrices and factors together for the memory."""
    needed = 2 * 8 * sum(size**2 for size in sizes)
    if max(sizes) <= LARGEST and needed <= free:
        return
    raise SettingError(
        f"the largest of {len(sizes)} layers has {max(sizes):,} parameters and all of them need "
        f"{needed / 2**30:.1f} GiB as matrices, where {LARGEST:,} and {free / 2**30:.1f} GiB are possible; use "
        "Sketch(), EKFAC(), or select= smaller layers"
    )
