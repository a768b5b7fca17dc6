"""Finds the trained module inside a compiled, parallel or exported one."""

from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.nn.parallel import DataParallel, DistributedDataParallel

from rue.core.errors import ModelError


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
