"""The loss of one example, by name or as a callable; a new named loss is one more entry in `LOSSES`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rue.errors import ModelError, ShapeError


@dataclass(frozen=True)
class Loss:
    """One value per example from outputs (n, k); `gaussian` where residuals are the predictive noise."""

    name: str
    value: Callable[[Tensor, Any], Tensor]
    gaussian: bool = False
    matches_outputs: bool = False  # targets have the outputs' own shape (n, k)


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """½‖y − f‖² for each row: (n, k), (n, k) -> (n,).

    >>> squared_error(torch.tensor([[1.0], [3.0]]), torch.tensor([[0.0], [1.0]]))
    tensor([0.5000, 2.0000])
    """
    return 0.5 * (targets - outputs).square().sum(-1)


LOSSES = {"squared_error": Loss("squared_error", squared_error, gaussian=True, matches_outputs=True)}


def as_loss(loss: str | Callable[..., Tensor] | None) -> Loss:
    """Find a loss by its name, or take a callable for what it is."""
    if loss is None:
        raise ModelError(
            'a module does not know the loss it was trained with; say loss="squared_error" or give '
            "a callable (outputs, targets) -> (n,), one value per example"
        )
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ModelError(f"unknown loss {loss!r}; known: {', '.join(sorted(LOSSES))}, or give a callable")
        return LOSSES[loss]
    if isinstance(loss, torch.nn.MSELoss) or loss is torch.nn.functional.mse_loss:
        raise ModelError(
            'MSELoss has no ½ and averages: it is 2·mean(½(y − f)²). Say loss="squared_error" (which is '
            '½(y − f)²) with half of your l2, and reduction="mean" if you averaged; the audit is the same'
        )
    if not callable(loss):
        raise ModelError(f"loss must be a name or a callable, got {type(loss).__name__}")
    return Loss(getattr(loss, "__name__", type(loss).__name__), loss)


def check_losses(losses: Any, n: int) -> Tensor:
    """Insist on one finite value per example."""
    if not isinstance(losses, Tensor):
        raise ShapeError(f"loss returned {type(losses).__name__}, expected a tensor of one value per example ({n},)")
    if tuple(losses.shape) != (n,):
        raise ShapeError(
            f"loss returned {tuple(losses.shape)}, expected one value per example ({n},); "
            'use reduction="none" and sum over outputs, and give targets the shape the loss wants'
        )
    if not bool(torch.isfinite(losses).all()):
        bad = int((~torch.isfinite(losses)).sum())
        raise ModelError(f"the loss of {bad} of {n} examples is not finite; check outputs and targets")
    return losses
