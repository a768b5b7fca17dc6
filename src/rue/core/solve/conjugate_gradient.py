"""Conjugate gradients for many right-hand sides at once, without storing the matrix."""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Facts, Inverse, Reach, Solution, TrainedObjective, TrainingSet
from rue.core.errors import NotConvergedError, NotPositiveDefiniteError, SettingError
from rue.core.reach import solved_reach
from rue.core.solve.dense import relative_residual
from rue.core.solve.nystrom import nystrom
from rue.core.stored import storable

RANK = 100  # of the Nyström preconditioner unless another is asked for: 20 to 56 steps where none takes over 100


class Preconditioner(Protocol):
    """A symmetric, positive definite guess of the inverse; the better it is, the fewer steps there are."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Apply to every row of (r, d)."""
        ...

    def describe(self) -> Facts:
        """Entries for an audit's facts."""
        ...


class Preconditioning(Protocol):
    """Settings of a preconditioner, such as `EigenBases()`."""

    def at(self, curvature: Curvature, damping: float) -> Preconditioner:
        """Make it for a damped curvature."""
        ...


@storable
@dataclass(frozen=True)
class ConjugateGradient:
    """Stops each right-hand side separately; raises if it does not converge or meets negative curvature.

    `tolerance` is the largest allowed relative residual: by default 1e-6, and 1e-4 for a float32 model, whose products
    are no more accurate. `rank` is the rank of the Nyström preconditioner (100 by default), 0 for none; in its place
    `preconditioner` may be another, such as `EigenBases()`. No preconditioner changes the answer.
    """

    notices_singular: ClassVar[bool] = False
    tolerance: float | None = None
    max_steps: int = 1000
    rank: int | None = None
    seed: int = 0
    preconditioner: Preconditioning | None = None

    def __post_init__(self) -> None:
        rank = RANK if self.rank is None else self.rank
        if (self.tolerance is not None and not 0 < self.tolerance < 1) or self.max_steps < 1 or rank < 0:
            raise SettingError(
                f"ConjugateGradient got tolerance={self.tolerance}, max_steps={self.max_steps} and rank={rank}, "
                "expected 0 < tolerance < 1, max_steps of at least 1 and rank of at least 0"
            )
        given = self.preconditioner
        usable = hasattr(given, "at") and not isinstance(given, type)
        if given is not None and (self.rank is not None or not usable):
            raise SettingError(
                f"ConjugateGradient got preconditioner={given!r} and rank={self.rank}, expected an "
                "object such as EigenBases(), without the rank of another preconditioner"
            )

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:  # noqa: ARG002  every solver has this signature
        """The core itself: this solver needs no other coordinates."""
        return core

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Build the preconditioner."""
        tolerance = self.tolerance or (1e-4 if curvature.dtype == torch.float32 else 1e-6)
        return ConjugateGradientInverse(
            curvature, damping, self._preconditioner(curvature, damping), tolerance, self.max_steps
        )

    def _preconditioner(self, curvature: Curvature, damping: float) -> Preconditioner:
        if self.preconditioner is not None:
            return self.preconditioner.at(curvature, damping)
        rank = RANK if self.rank is None else self.rank
        return nystrom(curvature, damping, min(rank, curvature.size // 2), self.seed)


@storable
@dataclass(frozen=True)
class ConjugateGradientInverse:
    """A curvature, its damping and a preconditioner, ready to solve."""

    curvature: Curvature = field(repr=False)
    damping: float
    precondition: Preconditioner = field(repr=False)
    tolerance: float
    max_steps: int
    iterative: ClassVar[bool] = True

    def solve(self, vectors: Tensor) -> Solution:
        """Solve for every row of (r, d)."""
        wanted = vectors.double()
        state = _start(wanted, self.precondition)
        for _ in range(self.max_steps):
            open_rows = relative_residual(wanted - state.residual, wanted) > 0.5 * self.tolerance
            if not bool(open_rows.any()):
                break
            self._step(state, open_rows.nonzero().squeeze(-1))
        # computed anew, because the residual that the recursion carries along drifts by rounding
        residual = float(relative_residual(self._product(state.solved), wanted).max())
        if not residual <= self.tolerance:
            raise NotConvergedError(
                f"residual {residual:.1e} is above {self.tolerance:.1e} after at most "
                f"{self.max_steps} steps; raise max_steps, tolerance or damping, or give the model in float64"
            )
        return Solution(state.solved, residual)

    def reach(self, steps: Tensor) -> Reach:
        """By a solve for every row."""
        return solved_reach(self, steps)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Solve for noise whose covariance is the curvature: the answer has the inverse as its covariance."""
        return self.solve(curved_noise(self.curvature, self.damping, count, generator)).vectors

    def describe(self) -> Facts:
        """The solver's settings."""
        return {"solver": "ConjugateGradient", "tolerance": self.tolerance, **self.precondition.describe()}

    def _product(self, vectors: Tensor) -> Tensor:
        return self.curvature.product(vectors) + self.damping * vectors

    def _step(self, state: "_State", rows: Tensor) -> None:
        """One step of the recursion for the rows that have not converged."""
        direction = state.direction[rows]
        image = self._product(direction)
        bend = (direction * image).sum(-1)
        if bool((bend <= 0).any()):
            raise NotPositiveDefiniteError(
                f"negative curvature {float(bend.min()):.3g} met with damping {self.damping:.3g}; use "
                "curvature=GaussNewton(), or damping=SmallestEigenvalue()"
            )
        length = (state.slope[rows] / bend).unsqueeze(-1)
        state.solved[rows] += length * direction
        state.residual[rows] -= length * image
        conditioned = self.precondition(state.residual[rows])
        slope = (state.residual[rows] * conditioned).sum(-1)
        state.direction[rows] = conditioned + (slope / state.slope[rows]).unsqueeze(-1) * direction
        state.slope[rows] = slope


@dataclass
class _State:
    """The state of the recursion for each row, changed in place."""

    solved: Tensor
    residual: Tensor
    direction: Tensor
    slope: Tensor


def _start(wanted: Tensor, precondition: Preconditioner) -> _State:
    conditioned = precondition(wanted)
    return _State(torch.zeros_like(wanted), wanted.clone(), conditioned.clone(), (wanted * conditioned).sum(-1))


def curved_noise(curvature: Curvature, damping: float, count: int, generator: torch.Generator) -> Tensor:
    """Draws (count, d) whose covariance is the damped curvature."""
    blocks, diagonal = curvature.root(), curvature.penalty_diagonal()
    if blocks is None or diagonal is None:
        raise SettingError(
            "sampling without a dense matrix needs GaussNewton() and a diagonal penalty; use those, or Cholesky()"
        )
    noise = torch.randn(count, len(diagonal), generator=generator, dtype=torch.float64).to(diagonal.device)
    pulled = noise * (diagonal + damping).sqrt()
    for block in blocks:
        pulled += torch.randn(count, len(block), generator=generator, dtype=torch.float64).to(block) @ block
    return pulled
