"""A print of what a user states beside the weights: the loss with its settings, penalties, the centre."""

from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import sha256
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rue.core.model import Model
from rue.core.stored_file import raw

STATED = ("stated_loss", "l2", "centre", "extra", "reduction", "scale", "objective")  # in a core, where it has them
DEEP = 12  # levels that are looked into


def statement(model: Model) -> str:
    """Equal for two models that were wrapped in the same way, also in another process."""
    hashed = sha256()
    for name in STATED:
        hashed.update(f"{name} {_said(getattr(model.core, name, None))}\n".encode())
    return hashed.hexdigest()


def _said(thing: Any, depth: int = 0) -> str:
    """An object in words: numbers, functions by their names and constants, everything else by its parts."""
    if depth > DEEP:
        return type(thing).__qualname__
    inner = partial(_said, depth=depth + 1)
    if isinstance(thing, Tensor):
        thing = thing[:1].expand(1) if thing.dim() and thing.stride(0) == 0 else thing
        return f"{thing.dtype} {tuple(thing.shape)} {sha256(raw(thing)).hexdigest()}"
    if isinstance(thing, np.ndarray):
        return f"{thing.dtype} {thing.tolist()}"
    if isinstance(thing, nn.Module):
        named = {name: value for name, value in vars(thing).items() if not name.startswith("_") and name != "training"}
        return f"{type(thing).__qualname__} {inner(named)} {inner(dict(thing.named_buffers()))}"
    if is_dataclass(thing) and not isinstance(thing, type):
        return f"{type(thing).__qualname__} {inner({part.name: getattr(thing, part.name) for part in fields(thing)})}"
    if isinstance(thing, dict):
        return str({str(key): inner(value) for key, value in thing.items()})
    if isinstance(thing, tuple | list):
        return str([inner(each) for each in thing])
    if isinstance(thing, partial):
        return f"{inner(thing.func)} of {inner(thing.args)} {inner(thing.keywords)}"
    if isinstance(thing, MethodType):
        return f"{thing.__name__} of {inner(thing.__self__)}"
    if isinstance(thing, FunctionType):
        inside = [_content(cell) for cell in thing.__closure__ or ()]
        return f"{thing.__name__} {_code(thing.__code__)} {inner(inside)} {inner(thing.__defaults__)}"
    if isinstance(thing, type | str | int | float | bool | None | torch.dtype):
        return repr(thing)
    return type(thing).__qualname__


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put in yet
        return None


def _code(code: CodeType) -> str:
    """Names and constants; what Python's releases compile otherwise is left out."""
    constants = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts if each]
    return f"{sorted(code.co_names)} {sorted(constants)}"
