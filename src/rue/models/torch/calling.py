"""Finds the trained module inside other modules, calls it with its inputs, and picks the output that is audited."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DataParallel, DistributedDataParallel

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


def unwrap(model: Any) -> Any:
    """The module that was trained; anything else comes back as it is.

    >>> import torch
    >>> unwrap(torch.nn.DataParallel(torch.nn.Linear(2, 1)))
    Linear(in_features=2, out_features=1, bias=True)
    """
    if isinstance(model, ExportedProgram):
        return _exported(model)
    if isinstance(model, torch.jit.ScriptModule):
        raise ModelError(
            "a TorchScript module keeps its parameters to itself, so that they cannot be varied; give the module it "
            "was made from"
        )
    if isinstance(model, DataParallel | DistributedDataParallel):
        return unwrap(model.module)
    if isinstance(model, nn.Module) and is_compiled(model):
        return unwrap(model._modules["_orig_mod"])
    return model


def is_compiled(module: nn.Module) -> bool:
    """Whether `torch.compile` made it. The class is compared by name, because its import would load the compiler."""
    return type(module).__name__ == "OptimizedModule" and "_orig_mod" in module._modules


def run_eagerly(module: nn.Module) -> None:
    """Run the compiled parts of a private copy without the compiler."""
    for part in module.modules():
        if is_compiled(part):
            vars(part)["forward"] = part._modules["_orig_mod"]


def _exported(program: ExportedProgram) -> nn.Module:
    if not program.range_constraints:
        raise ModelError(
            "the program was exported for batches of one size only, and an audit looks at single rows; export it with "
            "dynamic_shapes, the first axis being torch.export.Dim('batch')"
        )
    module: nn.Module = program.module()
    return module


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
