"""The evidence that a solve worked."""

from collections.abc import Callable

import torch
from torch import Tensor

from rue.concepts import Solution
from rue.errors import NotConvergedError

CHECKED_ROWS = 8  # a factorisation that is good for these is good for the rest
TOLERANCE = 1e-6


REFINED = 3  # times that a solve is repeated for what it left


def checked(product: Callable[[Tensor], Tensor], wanted: Tensor, solve: Callable[[Tensor], Tensor]) -> Solution:
    """Multiply a few solved rows back; solve again for what is left where they do not fit, or refuse the answer."""
    solved = solve(wanted)
    step = max(1, len(wanted) // CHECKED_ROWS)
    worst = float(relative_residual(product(solved[::step]), wanted[::step]).max())
    for _ in range(REFINED):
        if worst <= TOLERANCE:
            break
        solved = solved + solve(wanted - product(solved))
        worst = float(relative_residual(product(solved[::step]), wanted[::step]).max())
    if not worst <= TOLERANCE:
        raise NotConvergedError(
            f"a solve left a relative residual of {worst:.1e}, above {TOLERANCE:.0e}: the curvature is close to "
            "singular; give the l2 of training or a larger damping"
        )
    return Solution(solved, worst)


def relative_residual(product: Tensor, wanted: Tensor) -> Tensor:
    """‖H̃x − v‖ / ‖v‖ for every row; zero for a right-hand side of zero."""
    norm = torch.linalg.vector_norm(wanted, dim=-1)
    return torch.linalg.vector_norm(product - wanted, dim=-1) / torch.where(norm > 0, norm, torch.ones_like(norm))
