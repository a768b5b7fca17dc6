"""The evidence that a solve worked."""

from collections.abc import Callable

import torch
from torch import Tensor

from rue.core.concepts import Solution
from rue.core.errors import NotConvergedError

CHECKED_ROWS = 8  # a factorisation that is good for these is good for the rest
TOLERANCE = 1e-6


ROUNDING = 10.0  # units of it, in a product of a row
REFINED = 3  # times that a solve is repeated for what it left


def checked(
    product: Callable[[Tensor], Tensor], wanted: Tensor, solve: Callable[[Tensor], Tensor], norm: float
) -> Solution:
    """Multiply a few solved rows back; solve again for what is left where they do not fit, or refuse the answer.

    No solve can do better than the rounding of a product with a matrix of this norm: that much is allowed.
    """
    solved = solve(wanted)
    step = max(1, len(wanted) // CHECKED_ROWS)
    floor = ROUNDING * norm * torch.finfo(torch.float64).eps

    def worst() -> float:
        rounding = floor * torch.linalg.vector_norm(solved[::step], dim=-1) / TOLERANCE
        return float(relative_residual(product(solved[::step]), wanted[::step], rounding).max())

    found = worst()
    for _ in range(REFINED):
        if found <= TOLERANCE:
            break
        solved = solved + solve(wanted - product(solved))
        found = worst()
    if not found <= TOLERANCE:
        raise NotConvergedError(
            f"a solve left a relative residual of {found:.1e}, above {TOLERANCE:.0e}: the curvature is close to "
            "singular; give the l2 of training or a larger damping"
        )
    return Solution(solved, found)


def relative_residual(product: Tensor, wanted: Tensor, rounding: Tensor | float = 0.0) -> Tensor:
    """‖H̃x − v‖ / (‖v‖ + rounding) for every row; zero for a right-hand side of zero."""
    norm = torch.linalg.vector_norm(wanted, dim=-1) + rounding
    return torch.linalg.vector_norm(product - wanted, dim=-1) / torch.where(norm > 0, norm, torch.ones_like(norm))
