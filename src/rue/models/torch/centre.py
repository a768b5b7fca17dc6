"""The centre that the penalty shrinks towards: the parameters that training started from, or zero."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rue.core.errors import SettingError
from rue.models.torch.parameters import Layout, listed
from rue.models.torch.unwrap import unwrap

EXTRA = "_extra_state"  # the ending of the names of entries in a state dict that are not tensors


def read_centre(centre: object, module: nn.Module, layout: Layout, theta: Tensor) -> Tensor:
    """The centre in the coordinates of theta (d,); parameters it does not name are shrunk towards zero."""
    if centre is None:
        return torch.zeros_like(theta)
    given = _named(centre)
    first = _first_names(module)
    unknown = [name for name in given if name not in first and not name.endswith(EXTRA)]
    if unknown:
        raise SettingError(
            f"centre names {listed(unknown)}, which the module does not have; leave out what it does not have: "
            "{name: value for name, value in centre.items() if name in net.state_dict()}"
        )
    audited = {first[name]: value for name, value in given.items() if first.get(name) in layout.names}
    if not audited:
        raise SettingError(
            f"centre names none of the audited parameters {listed(layout.names)}; give the state dict that the "
            "training started from, or leave centre out"
        )
    trained = layout.split(theta)
    read = {name: _read(name, value, trained[name]) for name, value in audited.items()}
    if all(torch.equal(value, trained[name]) for name, value in read.items()):
        raise SettingError(
            f"centre is equal to the trained parameters in all of {listed(tuple(read))}; a state dict shares its "
            "memory with the network: take copy.deepcopy(net.state_dict()) before training"
        )
    parts = [read.get(name, torch.zeros_like(part)) for name, part in trained.items()]
    return torch.cat([part.reshape(-1) for part in parts])


def _named(centre: object) -> dict[str, Any]:
    centre = unwrap(centre)
    if isinstance(centre, nn.Module):
        parameters = centre.named_parameters(remove_duplicate=False)
        return {name: parameter.detach() for name, parameter in parameters}
    if isinstance(centre, Mapping) and all(isinstance(name, str) for name in centre):
        return dict(centre)
    raise SettingError(
        f"centre must be a state dict (parameters by name) or a torch.nn.Module, got {type(centre).__name__}"
    )


def _first_names(module: nn.Module) -> dict[str, str]:
    """For every name of the module's parameters and buffers, the first name of the same tensor."""
    first = {id(parameter): name for name, parameter in module.named_parameters()}
    named = dict(module.named_parameters(remove_duplicate=False))
    buffers = dict(module.named_buffers(remove_duplicate=False))
    return {**{name: name for name in buffers}, **{name: first[id(parameter)] for name, parameter in named.items()}}


def _read(name: str, value: Any, like: Tensor) -> Tensor:
    try:
        tensor = torch.as_tensor(value).detach().to(like, copy=True)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SettingError(f"centre[{name!r}] is no array of numbers ({error}); give a tensor") from error
    if tensor.shape != like.shape:
        raise SettingError(
            f"centre[{name!r}] has shape {tuple(tensor.shape)}, the parameter {tuple(like.shape)}; leave it out if it "
            "was made anew, it is then shrunk towards zero"
        )
    if not bool(torch.isfinite(tensor).all()):
        raise SettingError(f"centre[{name!r}] has NaN or infinite values; give the parameters training started from")
    return tensor
