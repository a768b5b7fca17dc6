"""Calls a trained module with its inputs, with kernels that have the derivatives, and picks the audited output."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from rue.core.concepts import Inputs
from rue.core.errors import ModelError
from rue.core.process import Sides


def arguments(module: nn.Module, inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments of `forward`: from a tuple or a dict where it takes them, else one argument."""
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    parameters = list(inspect.signature(module.forward).parameters.values())
    if isinstance(inputs, tuple | list):  # a collate_fn turns tuples into lists
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        required = [p for p in positional if p.default is p.empty]
        fits = len(required) <= len(inputs) <= len(positional)
        if fits or any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return tuple(inputs), {}
    if isinstance(inputs, dict):
        names = {p.name for p in parameters}
        unknown = sorted(map(str, inputs.keys() - names))
        if not unknown or any(p.kind is p.VAR_KEYWORD for p in parameters):
            return (), inputs
        if len(unknown) < len(inputs):
            raise ModelError(
                f"the inputs have {', '.join(unknown)}, which the module's forward does not take; it takes "
                f"{', '.join(p.name for p in parameters)}: leave the others out"
            )
    return (inputs,), {}


def audited_output(returned: Any) -> Tensor:
    """The tensor that a module returned, or the `logits` of the object that it returned."""
    logits = returned.get("logits") if isinstance(returned, Mapping) else getattr(returned, "logits", returned)
    if isinstance(logits, Tensor):
        return logits
    kind = type(returned).__name__
    parts = ""
    if isinstance(returned, Mapping):
        parts = f" with {', '.join(map(str, returned))}"
    elif isinstance(returned, tuple | list):
        parts = f" of {len(returned)}"
    raise ModelError(
        f"the module returned {kind}{parts}, expected one tensor or an object with logits; wrap it in a module whose "
        "forward picks the tensor to audit, as `return self.net(x)[0]` (with transformers, return_dict=True will do)"
    )


_sides = Sides()  # torch's switches belong to the whole process


def kernels(module: nn.Module, twice: bool = True) -> AbstractContextManager[None]:
    """Plain kernels while gradients are on, since fused attention and recurrent ones lack second derivatives.

    Where derivatives are not taken `twice`, fused attention stays. Without gradients the module computes as its
    user's does. Threads that need other switches wait for each other; modules whose layers have no fused kernels
    need no switch.
    """
    if not any(_may_fuse(part) for part in module.modules()):
        return nullcontext()
    if not torch.is_grad_enabled():
        return _sides.on("own", nullcontext)
    recurrent = any(isinstance(part, nn.RNNBase) for part in module.modules())
    if not twice and not recurrent:
        return _sides.on("no fast path", _slow_path)
    return _sides.on("no recurrent kernels" if recurrent else "no fused attention", partial(_plain, recurrent))


def _may_fuse(part: nn.Module) -> bool:
    """Whether a layer has fused kernels, or is not torch's own, so that its forward pass may call attention."""
    fused = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Transformer, nn.TransformerEncoderLayer)
    return isinstance(part, fused) or not type(part).__module__.startswith("torch.nn.modules")


@contextmanager
def _slow_path() -> Iterator[None]:
    """Without torch's path for layers of attention that nobody differentiates."""
    before = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _plain(recurrent: bool) -> Iterator[None]:
    backends = torch.backends
    before = backends.mha.get_fastpath_enabled(), backends.cudnn.enabled, backends.mkldnn.enabled
    with sdpa_kernel(SDPBackend.MATH):
        try:
            backends.mha.set_fastpath_enabled(False)
            if recurrent:
                backends.cudnn.enabled = False
                backends.mkldnn.enabled = False  # type: ignore[assignment]  # torch types its flag as a property
            yield
        finally:
            backends.mha.set_fastpath_enabled(before[0])
            backends.cudnn.enabled, backends.mkldnn.enabled = before[1:]
