"""The user's own copies of the sets, so that each archive is downloaded once."""

import os
import uuid
from pathlib import Path

from rue.core.errors import FetchError
from rue.evaluate.datasets.needs import need


def folder() -> Path:
    """Where the copies lie: the variable RUE_CACHE, else where this system keeps caches."""
    if chosen := os.environ.get("RUE_CACHE"):
        return Path(chosen).expanduser()
    need("pooch")
    import pooch

    return Path(pooch.os_cache("rue"))


def store(file: Path, content: bytes) -> None:
    """Put checked content in place at once, so that no reader ever sees half a file."""
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
