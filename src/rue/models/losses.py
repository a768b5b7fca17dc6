"""The loss of one example, by name or as a callable; a new named loss is one more entry in `LOSSES`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rue.errors import ModelError


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
    if isinstance(loss, torch.nn.MSELoss) or loss in (torch.nn.MSELoss, torch.nn.functional.mse_loss):
        raise ModelError(
            'MSELoss has no ½: it is 2·½(y − f)². Say loss="squared_error", which has it, with half of your l2; if '
            'you averaged, also reduction="mean", and with k outputs k times that l2: MSELoss averages over them too'
        )
    if isinstance(loss, type):
        raise ModelError(f'loss is the class {loss.__name__}; give an object of it: {loss.__name__}(reduction="none")')
    if not callable(loss):
        raise ModelError(f"loss must be a name or a callable, got {type(loss).__name__}")
    return Loss(getattr(loss, "__name__", type(loss).__name__), loss)
