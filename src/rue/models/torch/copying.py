"""Copies of a module's structure, which share its tensors: what is called and changed here is never the user's."""

import copy
import threading
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from rue.core.errors import ModelError
from rue.core.nested import leaves
from rue.core.process import ignoring
from rue.models.torch.unwrapping import run_eagerly, without_devices

_threads = threading.local()


def of_this_thread(module: nn.Module) -> nn.Module:
    """A copy that no other thread calls: while it is called with other parameters, they stand in the module itself."""
    copies: WeakKeyDictionary[nn.Module, nn.Module] = vars(_threads).setdefault("copies", WeakKeyDictionary())
    if module not in copies:
        copies[module] = private_copy(module)
    return copies[module]


def private_copy(module: nn.Module) -> nn.Module:
    """Copy everything but the tensors, so that a forward pass cannot change attributes of the user's module."""
    shared: dict[int, Any] = {id(t): t for t in (*module.parameters(), *module.buffers())}
    for part in module.modules():  # tensors with a gradient graph cannot be copied
        own = {name: value for name, value in vars(part).items() if name not in ("_parameters", "_buffers", "_modules")}
        shared.update({id(v): v.detach() for v in leaves(own) if isinstance(v, Tensor) and v.grad_fn is not None})
    try:
        with ignoring(category=FutureWarning):  # torch warns about itself while it copies a graph
            without_devices(module, shared)
            copied = copy.deepcopy(module, shared)
    except Exception as error:
        raise ModelError(
            f"the module cannot be copied ({error}); remove open files, locks or generators from it"
        ) from error
    _refuse_lost(module, copied)
    run_eagerly(copied, shared)
    return copied


def _refuse_lost(module: nn.Module, copied: nn.Module) -> None:
    """Raise for a number, word or tensor that a copy lost: its predictions would be those of another module."""
    copies = dict(copied.named_modules())
    for place, part in module.named_modules():
        for name, value in vars(part).items() if _copies_itself(part) else ():
            if isinstance(value, int | float | complex | str | Tensor) and not _has(
                copies.get(place, part), name, value
            ):
                raise ModelError(
                    f"a copy of the module, which audits are made on, has lost {name!r} of "
                    f"{place or type(part).__name__!r}; register it as a buffer, or keep it in its "
                    f"{' and '.join(_COPYING[:2])}"
                )


_COPYING = ("__getstate__", "__deepcopy__", "__setstate__", "__reduce__", "__reduce_ex__", "__copy__")


def _copies_itself(part: nn.Module) -> bool:
    """Whether its class says how it is copied; those of torch do so rightly, with numbers that each copy has anew."""
    own = [kind for kind in type(part).__mro__ if kind.__module__.partition(".")[0] not in ("torch", "builtins")]
    return any(name in vars(kind) for kind in own for name in _COPYING)


def _has(part: nn.Module, name: str, value: Any) -> bool:
    """Whether an attribute is there, and the same where it is a number or a word."""
    if name not in vars(part):
        return False
    return isinstance(value, Tensor) or bool(vars(part)[name] == value) or value != value  # NaN equals nothing
