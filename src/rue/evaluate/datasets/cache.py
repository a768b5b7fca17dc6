"""The user's copies of the data sets, so that each archive is downloaded only once."""

import os
from pathlib import Path

from rue.core.errors import FetchError, WriteError
from rue.core.files import write_whole
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
    try:
        write_whole({file: content})
    except WriteError as error:
        raise FetchError(error.finding, "set RUE_CACHE to a folder that can be written to") from error
