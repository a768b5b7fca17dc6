"""Checks that a solve worked."""

from collections.abc import Callable

import torch
from torch import Tensor

from rue.core.concepts import Solution
from rue.core.errors import NotConvergedError

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
            "singular; give the l2 of training or a larger damping"
        )
    return Solution(solved, residual)


def relative_residual(product: Tensor, wanted: Tensor, rounding: Tensor | float = 0.0) -> Tensor:
    """‖H̃x − v‖ / (‖v‖ + rounding) for every row; zero for a right-hand side of zero."""
    norm = torch.linalg.vector_norm(wanted, dim=-1) + rounding
    return torch.linalg.vector_norm(product - wanted, dim=-1) / torch.where(norm > 0, norm, torch.ones_like(norm))
