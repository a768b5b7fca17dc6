"""The audited parameters of a module as one flat vector, with per-name coefficients and the centre of the penalty."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from rue.core.errors import DeviceError, ModelError, SettingError
from rue.core.stored import storable
from rue.models.torch.blocks import Place
from rue.models.torch.unwrapping import unwrap

EXTRA = "_extra_state"  # the ending of the names of entries in a state dict that are not tensors


@storable
@dataclass(frozen=True)
class Layout:
    """Where each named parameter lies in theta."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    def split(self, theta: Tensor) -> dict[str, Tensor]:
        """Cut theta (d,) into its named parts."""
        parts = theta.split([shape.numel() for shape in self.shapes])
        return {name: part.view(shape) for name, part, shape in zip(self.names, parts, self.shapes, strict=True)}

    def places(self) -> tuple[Place, ...]:
        """Where each parameter lies."""
        starts = accumulate((shape.numel() for shape in self.shapes), initial=0)
        strides = [torch.empty(shape, device="meta").stride() for shape in self.shapes]
        return tuple(
            Place(at, tuple(shape), step) for at, shape, step in zip(starts, self.shapes, strides, strict=False)
        )

    def layers(self) -> tuple[int, ...]:
        """How many consecutive parameters belong to each module that holds some: its weights and its bias."""
        owners = [name.rpartition(".")[0] for name in self.names]
        held = zip(owners, self.shapes, strict=True)
        return tuple(sum(shape.numel() for _, shape in part) for _, part in groupby(held, key=lambda pair: pair[0]))

    def coefficients(self, l2: float | Mapping[str, float] | None) -> Tensor:
        """The coefficient of ½θ² for every entry of theta: (d,) in float64."""
        by_glob = {"*": 0.0 if l2 is None else l2} if not isinstance(l2, Mapping) else l2
        values: dict[str, float] = {}
        for glob, value in by_glob.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < float("inf"):
                raise SettingError(f"l2 must be a finite number of at least 0, got {value!r} for {glob!r}")
            matched = fnmatch.filter(self.names, glob)
            if not matched:
                raise SettingError(
                    f"l2 names {glob!r}, which matches no audited parameter; there are {listed(self.names)}"
                )
            twice = [name for name in matched if name in values]
            if twice:
                raise SettingError(f"l2 gives {twice[0]!r} two coefficients; make the globs disjoint")
            values.update(dict.fromkeys(matched, float(value)))
        return self.spread(values)

    def spread(self, values: Mapping[str, float]) -> Tensor:
        """One number per name, zero where it is missing, for every entry of theta: (d,) in float64."""
        each = [torch.tensor([values.get(name, 0.0)], dtype=torch.float64) for name in self.names]
        sizes = [shape.numel() for shape in self.shapes]
        if len(set(map(float, each))) == 1:
            return each[0].expand(sum(sizes))
        return torch.cat([value.expand(size) for value, size in zip(each, sizes, strict=True)])


def stored(vector: Tensor) -> Tensor:
    """The numbers of a vector (d,) that take memory: one where it is a single number that was expanded."""
    return vector[:1] if vector.stride() == (0,) else vector


def audited(
    module: nn.Module, select: str | Sequence[str] | None, optimized: Sequence[str] | None = None
) -> dict[str, nn.Parameter]:
    """The parameters to audit, tied ones once: those selected, else those that were trained.

    If an optimizer is known, `optimized` has the names of the parameters it trained.
    """
    parameters = dict(module.named_parameters())
    if select is None:
        _refuse_quantised(module)
    if not parameters:
        raise ModelError("the module has no parameters; there is nothing that training data could have moved")
    _check(parameters)
    if select is None:
        held = parameters if optimized is None else {name: p for name, p in parameters.items() if name in optimized}
        return {name: p for name, p in held.items() if p.requires_grad} or held
    globs = [select] if isinstance(select, str) else list(select)
    chosen: dict[str, nn.Parameter] = {}
    every_name = dict(module.named_parameters(remove_duplicate=False))  # a tied weight answers to all its names
    first_name = {id(p): name for name, p in parameters.items()}
    for glob in globs:
        matched = fnmatch.filter(every_name, glob)
        if not matched:
            raise SettingError(f"select={glob!r} matches no parameter; there are {listed(tuple(every_name))}")
        chosen.update({first_name[id(every_name[name])]: every_name[name] for name in matched})
    if not chosen:
        raise SettingError(
            f"select is empty, so there is nothing to audit; there are {listed(tuple(every_name))}, or leave it None"
        )
    untrained = [name for name in chosen if optimized is not None and name not in optimized]
    if untrained:
        raise SettingError(
            f"select names {listed(untrained)}, which the optimizer did not train; leave the optimizer out and say "
            "l2=, or select from what it trained"
        )
    return {name: p for name, p in parameters.items() if name in chosen}


def _refuse_quantised(module: nn.Module) -> None:
    """Refuse layers whose trained weights are packed integers, which are no parameters any more."""
    packed = [name for name, part in module.named_modules() if "quantized" in type(part).__module__.split(".")]
    if packed:
        raise ModelError(
            f"the layer {packed[0]!r} is quantised: its weights are whole numbers without a derivative, so that what "
            "was trained cannot be moved; wrap the module as it was before, name by select= the layers that were "
            "trained afterwards, or wrap an object with a predict method to audit predictions alone"
        )


def _check(parameters: Mapping[str, nn.Parameter]) -> None:
    for name, parameter in parameters.items():
        if is_lazy(parameter):
            raise ModelError(f"parameter {name!r} is not initialised yet; run the module once, train it, then wrap it")
    devices = sorted({str(p.device) for p in parameters.values()})
    if len(devices) > 1:
        raise DeviceError(f"parameters live on {', '.join(devices)}; move the module to one device")
    if devices == ["meta"]:
        raise DeviceError("parameters live on the meta device and have no values; load the trained weights first")
    for name, parameter in parameters.items():
        if parameter.is_inference():
            raise ModelError(
                f"parameter {name!r} was made in inference mode and cannot be differentiated; load its values into a "
                "module made outside: net.load_state_dict(...)"
            )
        if not parameter.is_floating_point():
            raise ModelError(
                f"parameter {name!r} is {parameter.dtype}, which has no derivative; make what is not trained a buffer, "
                "and wrap a quantised module as it was before it was quantised"
            )
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ModelError(
                f"parameter {name!r} is {parameter.dtype}, too coarse for curvature; "
                "audit a copy: copy.deepcopy(net).float()"
            )
        if not (bool(torch.isfinite(parameter.detach().sum())) or bool(torch.isfinite(parameter).all())):
            raise ModelError(f"parameter {name!r} has NaN or infinite values; the training went wrong before the audit")
    first: dict[int, str] = {}
    for name, parameter in parameters.items():
        other = first.setdefault(parameter.data_ptr(), name) if parameter.numel() else name
        if other != name:
            raise ModelError(
                f"parameters {other!r} and {name!r} are two, but share their memory: training moved both at once, the "
                "audit would move them apart; tie them as one parameter, as in decoder.weight = encoder.weight"
            )
    dtypes = sorted({str(p.dtype) for p in parameters.values()})
    if len(dtypes) > 1:
        raise ModelError(
            f"parameters are of {', '.join(dtypes)}; audit a copy in one dtype: copy.deepcopy(net).float()"
        )


def listed(names: Sequence[str], most: int = 8) -> str:
    """The first names, and how many more there are, for messages."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def read_centre(centre: object, module: nn.Module, layout: Layout, theta: Tensor) -> Tensor:
    """The centre in the coordinates of theta (d,); parameters it does not name are shrunk towards zero."""
    if centre is None:
        return theta.new_zeros(1).expand_as(theta)
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
