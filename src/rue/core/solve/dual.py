"""The dual form: factors an n·k × n·k matrix instead of a d×d one, exact for any number of parameters."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Facts, Inverse, Reach, Solution, TrainedObjective, TrainingSet
from rue.core.errors import NotPositiveDefiniteError, SettingError
from rue.core.memory import free_bytes
from rue.core.one_step import leverage
from rue.core.reach import SpanReach, solved_reach
from rue.core.solve.dense import CHECKED_ROWS, checked
from rue.core.span import leading, span
from rue.core.stored import storable, storable_rows

SHARE = 0.25  # part of the free memory for the rows of S; if they need more, they are computed again for every solve
BLOCKS = 4  # of rows in that part: two are multiplied, and one of them is copied to be divided and one to be joined
CLOSE = 2e-3  # relative error of leverages along the axes of a span, twice what leaving axes out can cause


@dataclass(frozen=True)
class Dual:
    """(SᵀS + D)⁻¹ = D⁻¹ − D⁻¹Sᵀ(I + SD⁻¹Sᵀ)⁻¹SD⁻¹, with S (n·k, d) and D the penalty and damping."""

    notices_singular: ClassVar[bool] = True

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:  # noqa: ARG002  every solver has this signature
        """The core itself: this solver needs no other coordinates."""
        return core

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor I + SD⁻¹Sᵀ."""
        rows = partial(_rows, curvature)
        diagonal = curvature.penalty_diagonal()
        if diagonal is None:
            raise SettingError(
                "Dual needs a penalty whose curvature is diagonal; use Cholesky() or ConjugateGradient()"
            )
        diagonal = diagonal + damping
        if float(diagonal.min()) <= 0:
            raise NotPositiveDefiniteError(
                "Dual needs a penalty or a damping on every parameter; give the l2 of training, or damping=Fixed(...)"
            )
        read = _reader(rows, curvature)
        gram = _gram(read, diagonal, curvature.rank)
        gram.diagonal().add_(1.0)
        return DualInverse(read, diagonal, torch.linalg.cholesky(gram), curvature.dtype)


@storable_rows
@dataclass(frozen=True)
class DualInverse:
    """The factored dual matrix, ready to solve."""

    rows: Callable[[], Iterator[Tensor]] = field(repr=False)
    diagonal: Tensor = field(repr=False)  # (d,)
    factor: Tensor = field(repr=False)  # (n·k, n·k)
    dtype: torch.dtype = field(repr=False)  # of the derivatives
    iterative: ClassVar[bool] = False

    def solve(self, vectors: Tensor) -> Solution:
        """Solve for every row of (r, d)."""
        return checked(self._product, vectors.double(), self._solved, self._norm)

    @property
    def _norm(self) -> float:
        """An upper bound of ‖SᵀS + D‖: the largest entry of D times the trace of I + SD⁻¹Sᵀ."""
        return float(self.diagonal.max() * self.factor.square().sum())

    def reach(self, steps: Tensor) -> Reach:
        """Along the axes of S where they fit in memory and leverages of some rows are as a solve has them."""
        found = leading(self.factor)
        room = SHARE * free_bytes(self.diagonal.device)
        if found is None or found.vectors.shape[1] * len(self.diagonal) * 8 > room:
            return solved_reach(self, steps)
        some = next(iter(self.rows()))
        some = some[:: max(1, len(some) // CHECKED_ROWS), None]
        exact, residual = leverage(some, self)
        for dtype in dict.fromkeys((self.dtype, torch.float64)):  # half as long to read, where that is exact enough
            reach = SpanReach.of(span(self.rows, self.diagonal, found, dtype), steps, residual)
            if reach is not None and torch.allclose(reach(some).leverage, exact, rtol=CLOSE):
                return reach
        return solved_reach(self, steps)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Solve for noise of covariance SᵀS + D: the answer has covariance (SᵀS + D)⁻¹."""
        draw = torch.randn(count, len(self.factor) + len(self.diagonal), generator=generator, dtype=torch.float64)
        along, across = draw.to(self.diagonal.device).split([len(self.factor), len(self.diagonal)], dim=1)
        return self.solve(self._pull(along) + across * self.diagonal.sqrt()).vectors

    def describe(self) -> Facts:
        """The solver's name and the size of its matrix."""
        return {"solver": "Dual", "dual_size": len(self.factor)}

    def _solved(self, vectors: Tensor) -> Tensor:
        scaled = vectors / self.diagonal
        along = torch.cat([scaled @ block.T for block in self.rows()], dim=1)  # (r, n·k)
        inner = torch.cholesky_solve(along.T, self.factor).T
        return scaled - self._pull(inner) / self.diagonal

    def _pull(self, weights: Tensor) -> Tensor:
        """Weights (r, n·k) times S."""
        pulled, start = (
            torch.zeros(len(weights), len(self.diagonal), dtype=torch.float64, device=self.diagonal.device),
            0,
        )
        for block in self.rows():
            pulled.addmm_(weights[:, start : start + len(block)], block)
            start += len(block)
        return pulled

    def _product(self, vectors: Tensor) -> Tensor:
        along = torch.cat([vectors @ block.T for block in self.rows()], dim=1)
        return self._pull(along) + vectors * self.diagonal


def _rows(curvature: Curvature) -> Iterator[Tensor]:
    blocks = curvature.root()
    if blocks is None:
        raise SettingError("Dual needs a curvature that is a sum of squares; use curvature=GaussNewton()")
    return blocks


def _reader(rows: Callable[[], Iterator[Tensor]], curvature: Curvature) -> Callable[[], Iterator[Tensor]]:
    """Keep the rows if they fit in memory, else compute them again for every solve, in blocks as large as fit."""
    room = int(SHARE * free_bytes(curvature.device))
    if curvature.rank * curvature.size * 8 > room:
        return partial(_gathered, rows, room // BLOCKS)
    return partial(iter, (torch.cat(list(rows())),))


@storable
def _gathered(rows: Callable[[], Iterator[Tensor]], limit: int) -> Iterator[Tensor]:
    """Join small blocks of rows into few large ones, because every pair of blocks is a matrix product."""
    held: list[Tensor] = []
    for block in rows():
        if held and sum(part.nbytes for part in held) + block.nbytes > limit:
            yield torch.cat(held)
            held = []
        held.append(block)
    yield torch.cat(held)


def _gram(rows: Callable[[], Iterator[Tensor]], diagonal: Tensor, size: int) -> Tensor:
    """The lower triangle of SD⁻¹Sᵀ, and perhaps more of it, by pairs of blocks."""
    gram = torch.zeros(size, size, dtype=torch.float64, device=diagonal.device)
    top = 0
    for upper in rows():
        bottom, scaled = top + len(upper), upper / diagonal
        gram[top:bottom, top:bottom] = scaled @ upper.T
        for before, lower in _before(rows, top):
            gram[top:bottom, before] = scaled @ lower.T
        top = bottom
    return gram


def _before(rows: Callable[[], Iterator[Tensor]], top: int) -> Iterator[tuple[slice, Tensor]]:
    """The blocks of rows before a row, and which rows they are; what lies behind them is not read."""
    start, blocks = 0, rows()
    while start < top:
        block = next(blocks)
        yield slice(start, start + len(block)), block
        start += len(block)
