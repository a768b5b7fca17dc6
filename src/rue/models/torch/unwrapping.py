"""The trained module inside what tools put around it or its parts: compilers, several devices, exported programs."""

import copy
import inspect
import sys
from contextlib import AbstractContextManager, nullcontext
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.nn.parallel import DataParallel, DistributedDataParallel

from rue.core.errors import ModelError
from rue.core.process import Sides

COMPILED = "_torchdynamo_orig_callable"  # attribute of compiled functions: what they were made of
SHARDED = {"FullyShardedDataParallel", "FSDPModule"}  # compared by name: their import would load all of distributed


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
    if isinstance(model, nn.Module) and _is_compiled(model):
        return unwrap(model._modules["_orig_mod"])
    if isinstance(model, nn.Module):
        _refuse_sharded(model)
    return model


def without_devices(module: nn.Module, memo: dict[int, Any]) -> None:
    """Put copies of what runs on several devices into the memo of a copy that is to be made, to run on one."""
    for part in reversed(list(module.modules())):  # the innermost first
        if isinstance(part, DataParallel | DistributedDataParallel):
            memo[id(part)] = _OnOne(copy.deepcopy(part.module, memo)).train(part.training)


def run_eagerly(copied: nn.Module, memo: dict[int, Any]) -> None:
    """Run the compiled parts and methods of a private copy without the compiler; `memo` is that of the copy."""
    for part in copied.modules():
        if _is_compiled(part):
            vars(part)["forward"] = part._modules["_orig_mod"]
        compiled = {name: value for name, value in vars(part).items() if hasattr(value, COMPILED)}
        for name, value in compiled.items():
            method = inspect.unwrap(getattr(value, COMPILED))
            if isinstance(method, MethodType) and id(method.__self__) in memo:  # a copy leaves it with the original
                vars(part)[name] = MethodType(method.__func__, memo[id(method.__self__)])


def eager(module: nn.Module) -> AbstractContextManager[None]:
    """Without the compiler, for functions that a forward pass calls: what it has compiled hides the layers."""
    own = any(not type(part).__module__.startswith("torch.") for part in module.modules())
    if not own or "torch._dynamo" not in sys.modules:  # nothing has been compiled
        return nullcontext()
    return _compiler.on("eager", lambda: torch.compiler.set_stance("force_eager"))


class _OnOne(nn.Module):
    """Stands where copies for several devices stood; parameters keep their names."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Calls the module itself."""
        return self.module(*inputs, **named)


def _is_compiled(module: nn.Module) -> bool:
    """Whether `torch.compile` made it. The class is compared by name, because its import would load the compiler."""
    return type(module).__name__ == "OptimizedModule" and "_orig_mod" in module._modules


def _exported(program: ExportedProgram) -> nn.Module:
    if not program.range_constraints:
        raise ModelError(
            "the program was exported for batches of one size only, and an audit looks at single rows; export it with "
            "dynamic_shapes, the first axis being torch.export.Dim('batch')"
        )
    module: nn.Module = program.module()
    return module


def _refuse_sharded(module: nn.Module) -> None:
    kinds = {kind.__name__ for part in module.modules() for kind in type(part).__mro__}
    if kinds & SHARDED or any(type(parameter).__name__ == "DTensor" for parameter in module.parameters()):
        raise ModelError(
            "the parameters of this module are divided among processes (FSDP, DTensor), so that they cannot be varied "
            "here; gather them in a plain module of the same class and give that one: plain.load_state_dict("
            "get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))), both names from "
            "torch.distributed.checkpoint.state_dict"
        )


_compiler = Sides()  # its stance belongs to the whole process
