"""Reads from an optimizer which parameters were trained, and with which penalty."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import (
    ASGD,
    LBFGS,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Muon,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
)

from rue.core.errors import SettingError
from rue.models.torch.parameters import Layout

# These add weight_decay·θ to the gradient: the objective has the penalty ½ weight_decay ‖θ‖².
IN_THE_GRADIENT = (SGD, Adam, RMSprop, Adagrad, Adadelta, Adamax, NAdam, RAdam, ASGD, Rprop, LBFGS)
APART = (AdamW, Adafactor, Muon)  # these shrink parameters apart from the gradient: no objective has such a penalty


@dataclass(frozen=True)
class Optimized:
    """The names of the parameters that an optimizer trained, and the coefficient of ½θ² of each."""

    optimizer: str  # the name of its class
    names: tuple[str, ...]
    l2: dict[str, float] | None = field(repr=False)  # None where it is unknown
    why: str  # where the l2 comes from, or why it is unknown


def read_optimizer(optimizer: object, module: nn.Module, *, l2_given: bool) -> Optimized:
    """Read the optimizer's groups; its parameters are recognised by identity with those of the module."""
    if not isinstance(optimizer, Optimizer):
        what = f"the class {optimizer.__name__}" if isinstance(optimizer, type) else type(optimizer).__name__
        raise SettingError(f"optimizer must be the torch.optim object that trained the module, got {what}")
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    kind, decays, apart = type(optimizer), dict[str, float](), type(optimizer) in APART
    for group in optimizer.param_groups:
        decay = float(group.get("weight_decay", 0.0))
        if kind is ASGD:
            decay += float(group["lambd"])  # (1 − η lambd)θ − ηg is a step along g + lambd·θ
        trained = [names[id(parameter)] for parameter in group["params"] if id(parameter) in names]
        decays.update(dict.fromkeys(trained, decay))
        apart = apart or bool(trained and group.get("decoupled_weight_decay", False))
    if not decays:
        raise SettingError(
            f"the {kind.__name__} holds none of the module's {len(names)} parameters; give the optimizer that trained "
            "this very module (a copy has parameters of its own), or leave it out and say l2="
        )
    if apart:
        return Optimized(kind.__name__, tuple(decays), None, _unknown(kind.__name__, max(decays.values())))
    if kind in IN_THE_GRADIENT:
        return Optimized(kind.__name__, tuple(decays), decays, f"the weight_decay of {kind.__name__}")
    if any(decays.values()) and not l2_given:
        raise SettingError(
            f"what {kind.__name__} does with weight_decay={max(decays.values()):g} is not known here; say l2=, the "
            "coefficient of ½‖θ‖² in the objective it minimised, or leave optimizer out if there is none"
        )
    return Optimized(kind.__name__, tuple(decays), None, f"{kind.__name__} is not known here")


def _unknown(name: str, decay: float) -> str:
    return f"{name} shrinks the weights apart from the gradient (weight_decay={decay:g}), which is no penalty"


def coefficients(layout: Layout, l2: float | Mapping[str, float] | None, optimized: Optimized | None) -> Tensor:
    """The coefficient of ½θ² (d,), given by the user or else by the optimizer; zero where it is unknown."""
    given = layout.coefficients(l2)
    if optimized is None or optimized.l2 is None:
        return given
    decay = layout.spread(optimized.l2)
    if l2 is None:
        return decay
    apart = (given - decay).abs() > 1e-9 * decay.abs()  # more than rounding
    if bool(apart.any()):
        at = int(apart.nonzero()[0])
        name = next(name for name, part in layout.split(torch.arange(len(given))).items() if bool((part == at).any()))
        raise SettingError(
            f"l2 is {given[at]:g} for {name!r}, and the weight_decay of {optimized.optimizer} {decay[at]:g}; leave l2 "
            "out where the optimizer says it, or the optimizer where another penalty was trained"
        )
    return given
