"""LiSSA: a series for the inverse, each step with a few rows drawn anew. A baseline, slow to converge."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Facts, Inverse, Reach, Solution, TrainedObjective, TrainingSet
from rue.core.drawn_rows import DrawnRows
from rue.core.errors import NotConvergedError, SettingError
from rue.core.progress import track
from rue.core.reach import solved_reach
from rue.core.resample import generator
from rue.core.solve.conjugate_gradient import curved_noise
from rue.core.solve.damping import largest_eigenvalue
from rue.core.solve.dense import relative_residual
from rue.core.stored import storable

ABOVE = 1.1  # times the largest eigenvalue found: power iterations find it from below
TRIED = 8  # draws of rows whose largest eigenvalue is looked at
LOOKED = 50  # steps between two looks at the residual
LOST = 1e6  # a residual that no later step makes good


@storable
@dataclass(frozen=True)
class LiSSA:
    """x ← x + (v − H̃ⱼx)/scale, H̃ⱼ from `rows` drawn in every step (Agarwal et al., 2017; Koh and Liang, 2017).

    The mean of `repeats` such series is the answer, if its relative residual with *all* rows is within `tolerance`; if
    not, it raises. `rows=None` takes all in every step: then it converges like a plain series, for certain. `scale`
    must exceed the largest eigenvalue; by default it is found by power iterations. `ConjugateGradient` needs far fewer
    products: this is here to be compared with.
    """

    notices_singular: ClassVar[bool] = False
    steps: int = 5000
    rows: int | None = 64
    repeats: int = 1
    scale: float | None = None
    tolerance: float = 1e-2
    seed: int = 0

    def __post_init__(self) -> None:
        counts = {"steps": self.steps, "rows": self.rows or 1, "repeats": self.repeats}
        if min(counts.values()) < 1 or self.rows == 0 or not 0 < self.tolerance < 1:
            raise SettingError(
                f"LiSSA got steps={self.steps}, rows={self.rows}, repeats={self.repeats} and tolerance="
                f"{self.tolerance}, expected at least 1 of each, or rows=None for all, and 0 < tolerance < 1"
            )
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise SettingError(f"scale must be above the largest eigenvalue, or None to find that, got {self.scale}")

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:  # noqa: ARG002  every solver has this signature
        """The core itself: this solver needs no other coordinates."""
        return core

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Find the scale."""
        if self.rows is not None and curvature.model.family.coupled:
            raise SettingError(
                "the loss of a row depends on all others, so that none can be drawn; use LiSSA(rows=None)"
            )
        draws = self._draws(curvature)
        scale = self.scale
        if scale is None:
            seen = (next(draws) for _ in range(1 if self.rows is None else TRIED))
            scale = ABOVE * max(largest_eigenvalue(part) for part in seen) + damping
        return LiSSAInverse(self, curvature, damping, scale)

    def _draws(self, curvature: Curvature) -> Iterator[Curvature]:
        """The curvature of rows drawn anew each time, weighed so that it is that of all on average."""
        if self.rows is None or self.rows >= curvature.data.n:
            while True:
                yield curvature
        drawn, n = generator(self.seed), curvature.data.n
        while True:
            rows = torch.randperm(n, generator=drawn)[: self.rows].sort().values
            weight = curvature.data.weight[rows] * (n / self.rows)
            yield curvature.on(DrawnRows(curvature.data, rows, weight))


@storable
@dataclass(frozen=True)
class LiSSAInverse:
    """A curvature, its damping and a scale, ready to solve."""

    settings: LiSSA
    curvature: Curvature = field(repr=False)
    damping: float
    scale: float
    iterative: ClassVar[bool] = True

    def solve(self, vectors: Tensor) -> Solution:
        """Solve for every row of (r, d); the same draws serve every right-hand side."""
        wanted = vectors.double()
        draws = self.settings._draws(self.curvature)
        series = [self._series(wanted, draws) for _ in range(self.settings.repeats)]
        solved = torch.stack(series).mean(0)
        residual = self._residual(solved, wanted)
        if not residual <= self.settings.tolerance:
            raise NotConvergedError(
                f"LiSSA left a residual of {residual:.1e} after at most {self.settings.steps} steps with scale "
                f"{self.scale:.3g}, above {self.settings.tolerance:.1e}; raise steps, repeats, rows or tolerance, or a "
                "scale it diverges with, or use ConjugateGradient()"
            )
        return Solution(solved, residual)

    def reach(self, steps: Tensor) -> Reach:
        """By a solve for every row."""
        return solved_reach(self, steps)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Solve for noise whose covariance is the curvature: the answer has the inverse as its covariance."""
        return self.solve(curved_noise(self.curvature, self.damping, count, generator)).vectors

    def describe(self) -> Facts:
        """The solver's settings."""
        return {"solver": "LiSSA", "tolerance": self.settings.tolerance, "scale": self.scale}

    def _series(self, wanted: Tensor, draws: Iterator[Curvature]) -> Tensor:
        solved = wanted / self.scale
        for step in track("LiSSA", range(1, self.settings.steps + 1), total=self.settings.steps):
            image = next(draws).product(solved) + self.damping * solved
            solved = solved + (wanted - image) / self.scale
            if step % LOOKED == 0 and not self.settings.tolerance / 2 < self._residual(solved, wanted) < LOST:
                break
        return solved

    def _residual(self, solved: Tensor, wanted: Tensor) -> float:
        image = self.curvature.product(solved) + self.damping * solved
        return float(relative_residual(image, wanted).max())
