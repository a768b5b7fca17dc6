"""The network behind a wrapped model, as a plan for new ones: initial parameters, other layers."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from rue.concepts import Model
from rue.errors import ModelError
from rue.randomness import untouched


def module_of(model: Model) -> nn.Module:
    """A copy of the wrapped module."""
    module = getattr(model, "module", None)
    if not isinstance(module, nn.Module):
        raise ModelError(f"{type(model).__name__} is no torch module, and only those can be trained anew here")
    return copy.deepcopy(module)


def flat(module: nn.Module) -> Tensor:
    """All parameters of a module as one vector (d,), tied ones once."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])


def initialised(module: nn.Module, seed: int) -> nn.Module:
    """The module on the CPU with new initial parameters, drawn as when its layers were made."""
    module = module.cpu()
    with untouched():
        torch.manual_seed(seed)
        for name, part in module.named_modules():
            reset = getattr(part, "reset_parameters", getattr(part, "_reset_parameters", None))
            if callable(reset):
                reset()
            elif next(part.parameters(recurse=False), None) is not None:
                raise ModelError(
                    f"layer {name!r} ({type(part).__name__}) has parameters and no reset_parameters(), so that it "
                    'cannot be trained from new initial ones; give it that method, or refit with start="trained"'
                )
    return module


def with_linear_layers(module: nn.Module, make: Callable[[nn.Linear, bool], nn.Linear]) -> nn.Module:
    """Every `nn.Linear` replaced by what `make(layer, is_last)` makes of it; the last one must give the outputs."""
    names = [name for name, part in module.named_modules() if type(part) is nn.Linear]
    if not names:
        raise ModelError(f"{type(module).__name__} has no nn.Linear layer, and these are what is replaced")
    for name in names:
        layer = make(module.get_submodule(name), name == names[-1])  # type: ignore[arg-type]  # its type was looked at
        if not name:
            return layer
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, layer)
    return module
