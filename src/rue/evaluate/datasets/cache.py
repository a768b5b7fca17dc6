"""The user's copies of the data sets, so that each archive is downloaded only once."""

import os
import uuid
from pathlib import Path

from rue.core.errors import FetchError
from rue.evaluate.datasets.needs import need


def folder() -> Path:
    """The folder of the copies: the variable RUE_CACHE, else the system's cache folder."""
    if chosen := os.environ.get("RUE_CACHE"):
        return Path(chosen).expanduser()
    need("pooch")
    import pooch

    return Path(pooch.os_cache("rue"))


def store(file: Path, content: bytes) -> None:
    """Write a file in one step, so that no reader finds half of it."""
    part = file.with_name(f"{file.stem}-{uuid.uuid4().hex}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(content)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise FetchError(f"{file} cannot be written ({error}); set RUE_CACHE to a folder that can") from error
