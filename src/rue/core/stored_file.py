"""One file of data: arrays as safetensors, all else as JSON beside them, and a hash of both."""

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_arrays
from safetensors.torch import save as write_arrays
from torch import Tensor

from rue.core.concepts import Facts
from rue.core.errors import DataError, SettingError
from rue.core.files import write_whole
from rue.core.stored import Written

FORMAT = 1  # of files; later releases read all earlier ones
BROKEN = (SafetensorError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError)


class StoredFile(NamedTuple):
    """The content of a file."""

    about: Facts  # what it is, in plain numbers and words
    parts: dict[str, Written]  # by their names, each to be read for itself


def write_file(path: str | Path, kind: str, about: Facts, parts: dict[str, Written]) -> None:
    """Write a file of this kind, whole or not at all."""
    _refuse_no_path(path)
    arrays = {f"{name}.{number}": values for name, part in parts.items() for number, values in part.arrays.items()}
    content = {
        "kind": kind,
        "format": FORMAT,
        "about": about,
        "parts": {name: part.nodes for name, part in parts.items()},
    }
    said = json.dumps(content, allow_nan=False, ensure_ascii=False)
    write_whole({Path(path): write_arrays(arrays, {"rue": said, "sha256": _hash(said, arrays)})})


def read_file(path: str | Path, kind: str) -> StoredFile:
    """What a file says, compared with its own hash; nothing of it is run."""
    _refuse_no_path(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read ({error.strerror}); give the path of a stored {kind}") from error
    damaged = f"{str(path)!r} is no stored {kind}, or a damaged one"
    try:
        length = int.from_bytes(content[:8], "little")
        beside = json.loads(content[8 : 8 + length])["__metadata__"]
        said, arrays = beside["rue"], read_arrays(content)
        whole = _hash(said, arrays) == beside["sha256"]
        told = json.loads(said)
        found, newest, about = told["kind"], int(told["format"]), dict(told["about"])
        parts = {name: _part(name, list(nodes), arrays) for name, nodes in dict(told["parts"]).items()}
    except BROKEN as error:
        raise DataError(f"{damaged} ({type(error).__name__}); give the path it was saved to") from error
    if not whole:
        raise DataError(f"{damaged}: its content is not what was written; save it again")
    if found != kind:
        raise DataError(f"{str(path)!r} is a stored {found}, no {kind}")
    if newest > FORMAT:
        raise DataError(
            f"{str(path)!r} is of format {newest}, and this release of rue reads formats up to {FORMAT}; read it with "
            "the release that wrote it, or a later one"
        )
    return StoredFile(about, parts)


def _refuse_no_path(path: Any) -> None:
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise SettingError(f"the path of a file is {path!r}, expected text such as 'model.rue', or a pathlib.Path")


def raw(values: Tensor) -> bytes:
    """The bytes of a tensor, in the order of its axes."""
    flat = values.detach().cpu().flatten()
    whole = flat if flat.stride() == (1,) else flat.clone(memory_format=torch.contiguous_format)
    return bytes(whole.view(torch.uint8).numpy().data)


def _part(name: str, nodes: list[Any], arrays: dict[str, Tensor]) -> Written:
    own = f"{name}."
    return Written(nodes, {key.removeprefix(own): values for key, values in arrays.items() if key.startswith(own)})


def _hash(said: str, arrays: dict[str, Tensor]) -> str:
    hashed = sha256(said.encode())
    for name in sorted(arrays):
        hashed.update(f"{name} {arrays[name].dtype} {tuple(arrays[name].shape)}".encode())
        hashed.update(raw(arrays[name]))
    return hashed.hexdigest()
