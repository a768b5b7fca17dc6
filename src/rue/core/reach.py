"""Reach: what inverse curvature and resampling make of new inputs' gradients, by products with matrices made once.

What limits the audit of one row is reading matrices, so that every inverse says how few it can do with.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.core.concepts import Reach, Reached, Solution, Solving
from rue.core.one_step import leverage
from rue.core.span import Span
from rue.core.stored import storable


@storable
@dataclass(frozen=True)
class SolvedReach:
    """By a solve for every row."""

    inverse: Solving = field(repr=False)
    root: Tensor = field(repr=False)  # F (r, d) with FᵀF = C

    def __call__(self, jacobian: Tensor) -> Reached:
        """Both covariances, and the residual of the solve."""
        rows = jacobian.double()
        own, residual = leverage(rows, self.inverse)
        moved = rows @ self.root.T
        return Reached(rows, own, moved @ moved.mT, residual)

    def steps(self, vectors: Tensor) -> Tensor:
        """The steps themselves."""
        return vectors


@storable
@dataclass(frozen=True)
class RootReach:
    """By one matrix V with H̃⁻¹ = VᵀV and C = VᵀΛV."""

    root: Tensor = field(repr=False)  # V (d, d)
    shares: Tensor = field(repr=False)  # Λ (d,)
    residual: float  # of the root

    @classmethod
    def of(cls, root: Solution, steps: Tensor) -> "RootReach":
        """From rows W with WᵀW = H̃⁻¹ and rows F (r, d) with FᵀF = C."""
        inner = condensed(torch.linalg.solve(root.vectors, steps, left=False))
        shares, turn = torch.linalg.eigh(inner.T @ inner)
        return cls(turn.T @ root.vectors, shares.clamp_min(0), root.residual)

    def __call__(self, jacobian: Tensor) -> Reached:
        """Both covariances, and the residual of the root."""
        rows = jacobian.double()
        moved = rows @ self.root.T
        return Reached(rows, moved @ moved.mT, (moved * self.shares) @ moved.mT, self.residual)

    def steps(self, vectors: Tensor) -> Tensor:
        """The steps themselves."""
        return vectors


@storable
@dataclass(frozen=True)
class SpanReach:
    """By the axes of a span: leverages are exact to one part in a thousand."""

    span: Span = field(repr=False)
    root: Tensor = field(repr=False)  # F (at most q, q), along the axes, as exact as these
    residual: float  # of the solves that it was compared with

    @classmethod
    def of(cls, span: Span, steps: Tensor, residual: float) -> "SpanReach | None":
        """From rows F (r, d) with FᵀF = C; None where too many of these lie beside the axes."""
        wide = span.widened(steps)
        return None if wide is None else cls(wide, condensed(wide.steps(steps)).to(wide.axes), residual)

    def __call__(self, jacobian: Tensor) -> Reached:
        """Both covariances."""
        seen = self.span(jacobian)
        inside, moved = seen.inside.double(), (seen.inside @ self.root.T).double()
        own = (inside * self.span.shares) @ inside.mT + seen.beside
        return Reached(seen.inside, own, moved @ moved.mT, self.residual)

    def steps(self, vectors: Tensor) -> Tensor:
        """The steps along the axes."""
        return self.span.steps(vectors).to(self.span.axes)


def solved_reach(inverse: Solving, steps: Tensor) -> Reach:
    """The reach of an inverse that is best solved with."""
    return SolvedReach(inverse, condensed(steps))


def condensed(root: Tensor) -> Tensor:
    """Rows (at most d, d) with the same product FᵀF as the rows F (r, d) of a root.

    >>> condensed(torch.tensor([[3.0], [4.0]])).abs().tolist()
    [[5.0]]
    """
    return root if len(root) <= root.shape[1] else torch.linalg.qr(root, mode="r").R
