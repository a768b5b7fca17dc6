"""What was trained: one adapter file for each library."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rue.concepts import Model
from rue.errors import ModelError
from rue.models.module import Penalty, wrap_module


def wrap(
    model: Any,
    *,
    loss: str | Callable[..., Tensor] | None = None,
    l2: float | Mapping[str, float] | None = None,
    penalty: Penalty | None = None,
    reduction: Literal["sum", "mean"] = "sum",
    select: str | Sequence[str] | None = None,
) -> Model:
    """Say what was trained: the model, the loss of one example, and the penalty.

    `loss` is "squared_error" (½r²) or a callable `(outputs, targets) -> (n,)`. `l2` is the coefficient
    of ½‖θ‖² in the objective that was trained: a number, or one per parameter-name glob. `penalty` is any
    other term, a callable of the named parameters. `reduction` says whether that objective summed or
    averaged the example losses. `select` takes parameter-name globs and leaves the rest fixed.

    >>> import torch
    >>> model = wrap(torch.nn.Linear(3, 1), loss="squared_error", l2={"weight": 0.5})
    >>> model.theta.shape
    torch.Size([4])
    """
    if isinstance(model, nn.Module):
        with torch.inference_mode(False):
            return wrap_module(model, loss, l2, penalty, reduction, select)
    raise ModelError(f"cannot wrap {type(model).__name__}; give a torch.nn.Module")
