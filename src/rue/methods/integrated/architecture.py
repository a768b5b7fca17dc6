"""New networks of the architecture of a wrapped one: with new initial parameters, or with other layers."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rue.core.errors import ModelError
from rue.core.model import Model
from rue.core.resample import untouched
from rue.models.torch.copying import private_copy
from rue.models.torch.module import ModuleCore, plain_module


def wrapped_module(model: Model) -> ModuleCore:
    """The core of a wrapped torch module; any other model is refused."""
    core = plain_module(model)
    if core is None:
        raise ModelError(
            "this model is no torch module, and only those can be trained anew here; audit it with a method that "
            "trains nothing, as rue.audit does"
        )
    return core


def module_of(core: ModuleCore) -> nn.Module:
    """A copy of the wrapped module with its own tensors, which have the values from when it was wrapped."""
    state = {**core.fixed, **core.layout.split(core.theta)}
    copied: nn.Module = private_copy(core.module)
    copies: dict[int, Any] = {}
    for path, part in copied.named_modules():
        for slots, make in ((part._parameters, nn.Parameter), (part._buffers, torch.Tensor.clone)):
            for name, tensor in slots.items():
                if tensor is not None:
                    if id(tensor) not in copies:  # the state has a tied tensor under its first name only
                        copies[id(tensor)] = make(state[f"{path}.{name}".lstrip(".")].detach().clone())
                    slots[name] = copies[id(tensor)]
    return copied


def flat(module: nn.Module) -> Tensor:
    """All parameters of a module as one vector (d,), tied ones once."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])


def initialised(module: nn.Module, seed: int) -> nn.Module:
    """A copy of the module on the CPU with new initial parameters, drawn as when its layers were made."""
    module = copy.deepcopy(module).cpu()
    with untouched(), torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(torch.nan)  # marks the parameters that no reset reaches
        torch.manual_seed(seed)
        for part in _inside_out(module, set()):
            reset = getattr(part, "reset_parameters", getattr(part, "_reset_parameters", None))
            if callable(reset):
                reset()
    for name, parameter in module.named_parameters():
        if bool(parameter.isnan().any()):
            layer, _, parameter_name = name.rpartition(".")
            raise ModelError(
                f"no reset_parameters() sets the parameter {parameter_name!r} of layer {layer!r} "
                f"({type(module.get_submodule(layer)).__name__}), so that it has no new initial values; "
                'give the layer that method, or use RefitBootstrap(start="trained")'
            )
    return module


def with_linear_layers(module: nn.Module, make: Callable[[nn.Linear, bool], nn.Linear]) -> nn.Module:
    """Replace every `nn.Linear` by `make(layer, is_last)`; the last one must give the outputs."""
    layers = {
        name: part
        for name, part in module.named_modules(remove_duplicate=False)
        if type(part) is nn.Linear  # no subclasses: attention and parametrised layers use theirs in other ways
    }
    if not layers:
        raise ModelError(f"{type(module).__name__} has no nn.Linear layer, and these are what is replaced")
    last = list(layers.values())[-1]
    new = {layer: make(layer, layer is last) for layer in dict.fromkeys(layers.values())}  # a shared layer once
    for name, layer in layers.items():
        if not name:
            return new[layer]
        parent, _, attribute = name.rpartition(".")
        setattr(module.get_submodule(parent), attribute, new[layer])
    return module


def _inside_out(module: nn.Module, visited: set[nn.Module]) -> Iterator[nn.Module]:
    """Every part once, after the parts it is made of: the order in which constructors draw."""
    if module in visited:
        return
    visited.add(module)
    for child in module.children():
        yield from _inside_out(child, visited)
    yield module
