"""Kernels of PyTorch that have second derivatives, switched on while a module is differentiated."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from rue.core.process import Sides

_sides = Sides()  # torch's switches belong to the whole process


def kernels(module: nn.Module) -> AbstractContextManager[None]:
    """Plain kernels while gradients are on, since fused attention and recurrent ones lack second derivatives.

    Without gradients the module computes as its user's does. Threads that need other switches wait for each other;
    modules whose layers have no fused kernels need no switch.
    """
    if not any(_may_fuse(part) for part in module.modules()):
        return nullcontext()
    if not torch.is_grad_enabled():
        return _sides.on("own", nullcontext)
    recurrent = any(isinstance(part, nn.RNNBase) for part in module.modules())
    return _sides.on("no recurrent kernels" if recurrent else "no fused attention", partial(_plain, recurrent))


def _may_fuse(part: nn.Module) -> bool:
    """Whether a layer has fused kernels, or is not torch's own, so that its forward pass may call attention."""
    fused = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Transformer, nn.TransformerEncoderLayer)
    return isinstance(part, fused) or not type(part).__module__.startswith("torch.nn.modules")


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
