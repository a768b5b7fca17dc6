"""How many rows fit in one forward pass: hidden layers may be thousands of times as large as their inputs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rue.core.nested import leaves

PIECE_BYTES = 2**30  # of what is held at once on a CPU; a GPU halves its batches when its memory runs out
LIVE = 8  # times its largest tensor that a forward pass holds at once, with what fused layers do not show
FEW = (2, 4)  # rows of two forward passes: what grows belongs to the rows


class _Sizes(TorchDispatchMode):
    """Notes the bytes of every tensor that is made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.bytes: list[int] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:
        """Call the function and note what it made."""
        made = function(*arguments, **(named or {}))
        parts = leaves(made) if isinstance(made, tuple | list) else [made]
        self.bytes.append(max((part.nbytes for part in parts if isinstance(part, Tensor)), default=0))
        return made


def row_bytes(call: Any, rows: Any) -> int:
    """Bytes of the largest tensor of one row in a forward pass; `call` takes what `rows` gives for a number of rows."""
    seen = []
    for count in FEW:
        with torch.no_grad(), _Sizes() as sizes:
            call(rows(count))
        seen.append(sizes.bytes)
    grown = [more - less for less, more in zip(*seen, strict=False)]
    return max(0, *grown) // (FEW[1] - FEW[0]) if grown else 0


def made_bytes(call: Callable[[], Tensor]) -> tuple[Tensor, int]:
    """What a call gives, and the bytes of all tensors made on the way: at least those that it holds at once."""
    with _Sizes() as sizes:
        made = call()
    return made, sum(sizes.bytes)


def rows_at_once(row: int, device: torch.device) -> int | None:
    """How many rows to hand to a module without gradients; None where that need not be limited."""
    return None if row == 0 or device.type != "cpu" else max(1, PIECE_BYTES // (LIVE * row))
