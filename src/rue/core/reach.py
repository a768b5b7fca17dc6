"""Reach: what inverse curvature and resampling make of new inputs' gradients, by products with roots made once."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.core.concepts import Inverse
from rue.core.one_step import leverage


@dataclass(frozen=True)
class Reach:
    """JH̃⁻¹Jᵀ and JCJᵀ at new inputs, C being the covariance of the parameters under resampling.

    Where the inverse has a root, one matrix V serves both, with H̃⁻¹ = VᵀV and C = VᵀΛV. What limits the audit of one
    row is reading matrices: a solve reads three, and the root of C is one more.
    """

    inverse: Inverse = field(repr=False)
    root: Tensor = field(repr=False)  # V (d, d); where the inverse has no root, rows F (r, d) with FᵀF = C
    shares: Tensor | None = field(repr=False)  # Λ (d,); None where the inverse has no root
    residual: float = 0.0  # of the root

    @classmethod
    def of(cls, inverse: Inverse, steps: Tensor) -> "Reach":
        """From an inverse and rows F (r, d) with FᵀF = C."""
        found = inverse.root()
        if found is None:
            return cls(inverse, condensed(steps), None)
        inner = condensed(torch.linalg.solve(found.vectors, steps, left=False))
        shares, turn = torch.linalg.eigh(inner.T @ inner)
        return cls(inverse, turn.T @ found.vectors, shares.clamp_min(0), found.residual)

    def __call__(self, jacobian: Tensor) -> tuple[Tensor, Tensor, float]:
        """JH̃⁻¹Jᵀ and JCJᵀ for every row, (c, k, d) -> (c, k, k) in float64, and the residual of root or solve."""
        rows = jacobian.double()
        moved = rows @ self.root.T
        if self.shares is not None:
            return moved @ moved.mT, (moved * self.shares) @ moved.mT, self.residual
        own, residual = leverage(rows, self.inverse)
        return own, moved @ moved.mT, residual


def condensed(root: Tensor) -> Tensor:
    """Rows (at most d, d) with the same product FᵀF as the rows F (r, d) of a root.

    >>> condensed(torch.tensor([[3.0], [4.0]])).abs().tolist()
    [[5.0]]
    """
    return root if len(root) <= root.shape[1] else torch.linalg.qr(root, mode="r").R
