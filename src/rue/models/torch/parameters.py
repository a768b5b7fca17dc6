"""The audited parameters of a module as one flat vector, and per-name coefficients over it."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from rue.core.errors import DeviceError, ModelError, SettingError


@dataclass(frozen=True)
class Layout:
    """Where each named parameter lies in theta."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    def split(self, theta: Tensor) -> dict[str, Tensor]:
        """Cut theta (d,) into its named parts."""
        parts = theta.split([shape.numel() for shape in self.shapes])
        return {name: part.view(shape) for name, part, shape in zip(self.names, parts, self.shapes, strict=True)}

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
        parts = [
            torch.full((s.numel(),), values.get(n, 0.0), dtype=torch.float64)
            for n, s in zip(self.names, self.shapes, strict=True)
        ]
        return torch.cat(parts)


def audited(
    module: nn.Module, select: str | Sequence[str] | None, optimized: Sequence[str] | None = None
) -> dict[str, nn.Parameter]:
    """The parameters to audit, tied ones once: those selected, else those that were trained.

    If an optimizer is known, `optimized` has the names of the parameters it trained.
    """
    parameters = dict(module.named_parameters())
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
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ModelError(
                f"parameter {name!r} is {parameter.dtype}, too coarse for curvature; "
                "audit a copy: copy.deepcopy(net).float()"
            )
        if not bool(torch.isfinite(parameter).all()):
            raise ModelError(f"parameter {name!r} has NaN or infinite values; the training went wrong before the audit")
    dtypes = sorted({str(p.dtype) for p in parameters.values()})
    if len(dtypes) > 1:
        raise ModelError(
            f"parameters are of {', '.join(dtypes)}; audit a copy in one dtype: copy.deepcopy(net).float()"
        )


def listed(names: Sequence[str], most: int = 8) -> str:
    """The first names, and how many more there are, for messages."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
