"""Solvers that store the whole matrix (Cholesky for speed, eigenvalues to see the spectrum), and checks of solves."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Facts, Inverse, Reach, Solution, TrainedObjective, TrainingSet
from rue.core.errors import NotConvergedError, NotPositiveDefiniteError, SettingError
from rue.core.memory import free_bytes
from rue.core.reach import RootReach, solved_reach
from rue.core.stored import storable

CHECKED_ROWS = 8  # about so many rows are checked; a factorisation that is right for them is right for the rest
TOLERANCE = 1e-6
ROUNDING = 10.0  # allowed rounding of a product, in units of norm times machine epsilon
REFINED = 3  # at most so many steps of iterative refinement


def checked(
    product: Callable[[Tensor], Tensor], wanted: Tensor, solve: Callable[[Tensor], Tensor], norm: float
) -> Solution:
    """Solve and check a few rows by multiplying them back; refine an inexact answer, and raise if it stays inexact.

    No solve can be more exact than the rounding of a product with a matrix of this norm, so that much is allowed.
    """
    solved = solve(wanted)
    step = max(1, len(wanted) // CHECKED_ROWS)
    floor = ROUNDING * norm * torch.finfo(torch.float64).eps

    def worst() -> float:
        rounding = floor * torch.linalg.vector_norm(solved[::step], dim=-1) / TOLERANCE
        return float(relative_residual(product(solved[::step]), wanted[::step], rounding).max())

    residual = worst()
    for _ in range(REFINED):
        if residual <= TOLERANCE:
            break
        solved = solved + solve(wanted - product(solved))
        residual = worst()
    if not residual <= TOLERANCE:
        raise NotConvergedError(
            f"a solve left a relative residual of {residual:.1e}, above {TOLERANCE:.0e}: the curvature is close to "
            "singular; take out columns that repeat others, give the l2 of training if it had one, or a larger damping"
        )
    return Solution(solved, residual)


def relative_residual(product: Tensor, wanted: Tensor, rounding: Tensor | float = 0.0) -> Tensor:
    """‖H̃x − v‖ / (‖v‖ + rounding) for every row; zero for a right-hand side of zero."""
    norm = torch.linalg.vector_norm(wanted, dim=-1) + rounding
    return torch.linalg.vector_norm(product - wanted, dim=-1) / torch.where(norm > 0, norm, torch.ones_like(norm))


@dataclass(frozen=True)
class Cholesky:
    """H̃ = D CCᵀ D in d³/3 operations. D scales CCᵀ to a diagonal of ones, so units of parameters do not matter."""

    notices_singular: ClassVar[bool] = True

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:  # noqa: ARG002  every solver has this signature
        """The core itself: this solver needs no other coordinates."""
        return core

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor the damped matrix."""
        matrix = damped_matrix(curvature, damping)
        scale = matrix.diagonal().sqrt()
        factor, failed = torch.linalg.cholesky_ex(matrix / torch.outer(scale, scale))
        flat = float(factor.diagonal().square().min()) <= curvature.size * torch.finfo(torch.float64).eps
        if int(failed) or flat or not bool(torch.isfinite(factor).all()):
            raise NotPositiveDefiniteError(
                f"the curvature of {curvature.size} parameters with damping {damping:.3g} is singular or points "
                "downwards; give the l2 of training, a damping, or curvature=GaussNewton()"
            )
        return CholeskyInverse(matrix, scale, factor)


@storable
@dataclass(frozen=True)
class CholeskyInverse:
    """A Cholesky factor, ready to solve."""

    matrix: Tensor = field(repr=False)
    scale: Tensor = field(repr=False)  # (d,)
    factor: Tensor = field(repr=False)
    iterative: ClassVar[bool] = False

    def solve(self, vectors: Tensor) -> Solution:
        """Solve for every row of (r, d)."""
        wanted = vectors.double() / self.scale
        solution = checked(
            lambda rows: (rows / self.scale) @ self.matrix / self.scale,
            wanted,
            lambda rows: torch.cholesky_solve(rows.T, self.factor).T,
            float(len(self.factor)),  # the trace bounds the norm, and the diagonal is ones
        )
        return Solution(solution.vectors / self.scale, solution.residual)

    def reach(self, steps: Tensor) -> Reach:
        """By its root where that is as exact as a solve."""
        root = self._root()
        return solved_reach(self, steps) if root is None else RootReach.of(root, steps)

    def _root(self) -> Solution | None:
        """The inverse of the factor, C⁻¹D⁻¹; None where multiplying back shows that it is less exact than a solve."""
        size = len(self.factor)
        eye = torch.eye(size, dtype=torch.float64, device=self.factor.device)
        inverted = torch.linalg.solve_triangular(self.factor, eye, upper=False)
        some = eye[:: max(1, size // CHECKED_ROWS)]
        solved = (some @ inverted.T) @ inverted
        product = (solved / self.scale) @ self.matrix / self.scale
        residual = float(relative_residual(product, some).max())
        return Solution(inverted / self.scale, residual) if residual <= TOLERANCE else None

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """D⁻¹C⁻ᵀz has covariance (D CCᵀ D)⁻¹."""
        noise = torch.randn(len(self.factor), count, generator=generator, dtype=torch.float64).to(self.factor.device)
        return torch.linalg.solve_triangular(self.factor.T, noise, upper=True).T / self.scale

    def describe(self) -> Facts:
        """The solver's name."""
        return {"solver": "Cholesky"}


@dataclass(frozen=True)
class Eigen:
    """H̃ = VΛVᵀ: about ten times the work of Cholesky, but it gives the whole spectrum."""

    notices_singular: ClassVar[bool] = True

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:  # noqa: ARG002  every solver has this signature
        """The core itself: this solver needs no other coordinates."""
        return core

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor the damped matrix."""
        matrix = damped_matrix(curvature, damping)
        values, vectors = torch.linalg.eigh(matrix)
        if float(values[0]) <= curvature.size * torch.finfo(torch.float64).eps * float(values.abs().max()):
            negative = int((values < 0).sum())
            raise NotPositiveDefiniteError(
                f"with damping {damping:.3g} the smallest eigenvalue is {float(values[0]):.3g} and {negative} of "
                f"{curvature.size} are negative; give the l2 of training, a damping, or curvature=GaussNewton()"
            )
        return EigenInverse(matrix, values, vectors, damping)


@storable
@dataclass(frozen=True)
class EigenInverse:
    """Eigenvalues and eigenvectors, ready to solve."""

    matrix: Tensor = field(repr=False)
    values: Tensor = field(repr=False)  # (d,), damping included
    vectors: Tensor = field(repr=False)
    damping: float
    iterative: ClassVar[bool] = False

    def solve(self, vectors: Tensor) -> Solution:
        """Solve for every row of (r, d)."""
        return checked(
            lambda rows: rows @ self.matrix,
            vectors.double(),
            lambda rows: ((rows @ self.vectors) / self.values) @ self.vectors.T,
            float(self.values[-1]),
        )

    def reach(self, steps: Tensor) -> Reach:
        """By a solve for every row: who wants the spectrum asks for few."""
        return solved_reach(self, steps)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """VΛ^(−½)z has covariance VΛ⁻¹Vᵀ."""
        noise = torch.randn(count, len(self.values), generator=generator, dtype=torch.float64).to(self.values.device)
        return (noise / self.values.sqrt()) @ self.vectors.T

    def describe(self) -> Facts:
        """The spectrum before damping."""
        spectrum = (self.values - self.damping).cpu()
        return {
            "solver": "Eigen",
            "spectrum": tuple(spectrum.tolist()),
            "negative_directions": int((spectrum < 0).sum()),
        }


def damped_matrix(curvature: Curvature, damping: float) -> Tensor:
    """H̃ (d, d); raises if it does not fit in memory."""
    needed = 3 * 8 * curvature.size**2
    free = free_bytes(curvature.device)
    if needed > free:
        raise SettingError(
            f"{curvature.size} parameters would need {needed / 2**30:.1f} GiB as dense matrices, and "
            f"{free / 2**30:.1f} are free; use "
            "solver=Dual() with GaussNewton(), solver=ConjugateGradient(), or select= fewer parameters"
        )
    matrix = curvature.dense().clone()
    matrix.diagonal().add_(damping)
    return matrix
