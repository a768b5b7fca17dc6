"""Recurrent layers as loops of linear layers: torch's own kernels show nothing of what happens between steps."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]

State = tuple[Tensor, ...]

LAYERS = {torch.lstm: "lstm", torch.gru: "gru", torch.rnn_tanh: "tanh", torch.rnn_relu: "relu"}
CELLS = {torch.lstm_cell: "lstm", torch.gru_cell: "gru", torch.rnn_tanh_cell: "tanh", torch.rnn_relu_cell: "relu"}


class Stepwise(TorchFunctionMode):
    """Recurrent layers by torch's kernels, and step by step where these cannot be vectorised over rows."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:
        """Call the function, or else do the same step by step."""
        if function not in LAYERS and function not in CELLS:
            return function(*arguments, **(named or {}))
        try:
            return function(*arguments, **(named or {}))
        except RuntimeError:
            outcome = unrolled(function, functional.linear, arguments)
            if outcome is None:
                raise
            return outcome


def stepwise(module: nn.Module) -> AbstractContextManager[Any]:
    """Where gradients are on, let the recurrent layers of a module be vectorised."""
    recurrent = any(isinstance(part, nn.RNNBase | nn.RNNCellBase) for part in module.modules())
    return Stepwise() if recurrent and torch.is_grad_enabled() else nullcontext()


def unrolled(function: Any, linear: Linear, arguments: tuple[Any, ...]) -> Any:
    """What the function returns, step by step; None for packed sequences, whose rows have no axis, and projections."""
    if function in CELLS:
        entering, state, *weights = arguments
        held = state if CELLS[function] == "lstm" else (state,)
        entered = linear(entering, weights[0], weights[2] if len(weights) > 2 else None)
        moved = _step(CELLS[function], linear, entered, tuple(held), weights[1::2])
        return moved if CELLS[function] == "lstm" else moved[0]
    kind = LAYERS[function]
    if len(arguments) != 9 or isinstance(arguments[3], Tensor | list | tuple):
        return None
    entering, state, weights, biased, layers, _, _, both_ways, batch_first = arguments
    held = tuple(state) if kind == "lstm" else (state,)
    steps = entering if batch_first else entering.transpose(0, 1)  # (c, steps, features)
    count, ways = 4 if biased else 2, 2 if both_ways else 1
    if len(weights) != count * ways * layers:
        return None
    ends: list[State] = []
    for layer in range(layers):
        sides = []
        for way in range(ways):
            at = layer * ways + way
            own = weights[count * at : count * (at + 1)]
            start = tuple(part[at] for part in held)
            out, end = _along(kind, linear, steps.flip(1) if way else steps, start, own)
            sides.append(out.flip(1) if way else out)
            ends.append(end)
        steps = torch.cat(sides, -1)
    last = tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
    return (steps if batch_first else steps.transpose(0, 1), *last)


def _along(kind: str, linear: Linear, steps: Tensor, state: State, weights: list[Tensor]) -> tuple[Tensor, State]:
    """All steps of one layer in one direction: outputs (c, steps, hidden) and the last state."""
    entered = linear(steps, weights[0], weights[2] if len(weights) == 4 else None)
    outputs = []
    for step in entered.unbind(1):
        state = _step(kind, linear, step, state, weights[1::2])
        outputs.append(state[0])
    return torch.stack(outputs, 1), state


def _step(kind: str, linear: Linear, entered: Tensor, state: State, weights: list[Tensor]) -> State:
    """The next state, from what entered and the weights of the last state."""
    before = linear(state[0], weights[0], weights[1] if len(weights) > 1 else None)
    if kind == "lstm":
        keep, forget, new, out = (entered + before).chunk(4, -1)
        cell = forget.sigmoid() * state[1] + keep.sigmoid() * new.tanh()
        return out.sigmoid() * cell.tanh(), cell
    if kind == "gru":
        (reset, update, new), (reset_, update_, new_) = entered.chunk(3, -1), before.chunk(3, -1)
        mixed = (update + update_).sigmoid()
        proposed = (new + (reset + reset_).sigmoid() * new_).tanh()
        return (proposed + mixed * (state[0] - proposed),)
    return ((entered + before).tanh() if kind == "tanh" else (entered + before).relu(),)
