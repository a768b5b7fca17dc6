"""A picture of a module, and one of the world around it, to hold against a later one: exact to the bit."""

import random
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

PLAIN = (int, float, str, bool, complex, type(None))


def module_picture(module: nn.Module) -> dict[str, Any]:
    """Everything in the `__dict__` of every submodule (modes, hooks, buffers, attributes), and the gradients."""
    picture: dict[str, Any] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        picture[f"{path}: names"] = list(vars(part))
        picture.update({f"{path}: {name}": _frozen(value) for name, value in vars(part).items()})
    for name, parameter in module.named_parameters(remove_duplicate=False):
        picture[f"{name}: grad"] = _frozen(parameter.grad)
    return picture


def world_picture() -> dict[str, Any]:
    """The global random states, the filters of warnings and PyTorch's global switches."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002  the global state is the point
    backends = torch.backends
    return {
        "random": random.getstate(),
        "numpy random": (name, keys.tobytes(), *rest),
        "torch random": torch.get_rng_state().numpy().tobytes(),
        "warning filters": list(warnings.filters),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "mkldnn.enabled": backends.mkldnn.enabled,
        "cudnn.enabled": backends.cudnn.enabled,
        "cudnn.benchmark": backends.cudnn.benchmark,
        "cudnn.deterministic": backends.cudnn.deterministic,
        "mha fast path": backends.mha.get_fastpath_enabled(),
        "flash attention": backends.cuda.flash_sdp_enabled(),
        "memory-efficient attention": backends.cuda.mem_efficient_sdp_enabled(),
        "plain attention": backends.cuda.math_sdp_enabled(),
        "cudnn attention": backends.cuda.cudnn_sdp_enabled(),
    }


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two pictures."""
    return [name for name in {**before, **after} if name not in before or before[name] != after.get(name)]


class Itself:
    """Equal to nothing but the very same object."""

    def __init__(self, thing: Any):
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.thing is other.thing

    __hash__ = None


def _frozen(value: Any) -> Any:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Tensor):
        return Itself(value), value.requires_grad, *_content(value)
    if isinstance(value, dict):
        return Itself(value), [(key, _frozen(part)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return Itself(value), [_frozen(part) for part in value]
    if isinstance(value, set):
        return Itself(value), set(value)
    return Itself(value)


def _content(tensor: Tensor) -> tuple[Any, ...]:
    """The bits, and how often they were written: a value put back is a write too."""
    if is_lazy(tensor) or tensor.device.type == "meta":
        return ()
    return tensor._version, tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
