"""Reach: JH̃⁻¹Jᵀ at new inputs, by one product with a root of the inverse that is made and checked once."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.core.concepts import Inverse
from rue.core.one_step import leverage


@dataclass(frozen=True)
class Reach:
    """Leverages at new inputs. Inverses without a root solve for every row instead.

    A solve of one row reads the factored matrix three times, and the product with the root reads it once.
    """

    inverse: Inverse = field(repr=False)
    root: Tensor | None = field(repr=False)  # rows W (r, d) with WᵀW = H̃⁻¹
    residual: float  # of the root, where there is one

    @classmethod
    def of(cls, inverse: Inverse) -> "Reach":
        """Ask the inverse for its root."""
        found = inverse.root()
        return cls(inverse, None, 0.0) if found is None else cls(inverse, found.vectors, found.residual)

    def __call__(self, jacobian: Tensor) -> tuple[Tensor, float]:
        """JH̃⁻¹Jᵀ for every row, (c, k, d) -> (c, k, k) in float64, and the residual of the root or of the solve."""
        if self.root is None:
            return leverage(jacobian, self.inverse)
        moved = jacobian.double() @ self.root.T
        return moved @ moved.mT, self.residual


def condensed(root: Tensor) -> Tensor:
    """Rows (at most d, d) with the same product FᵀF as the rows F (r, d) of a root.

    >>> condensed(torch.tensor([[3.0], [4.0]])).abs().tolist()
    [[5.0]]
    """
    return root if len(root) <= root.shape[1] else torch.linalg.qr(root, mode="r").R
