"""One CSV text for each set, the same bytes from every source, known by its SHA-256."""

import hashlib

import numpy as np

from rue.core.arrays import Array
from rue.core.errors import DataError
from rue.evaluate.datasets.catalogue import CatalogueEntry
from rue.evaluate.datasets.dataset import Dataset


def write(header: str, table: Array) -> bytes:
    """A table (n, p + 1) under its header, each number in its shortest form.

    >>> write("x,y", np.array([[1.0, 0.25]]))
    b'x,y\\n1,0.25\\n'
    """
    lines = [",".join(_shortest(value) for value in row) for row in table.tolist()]
    return "\n".join((header, *lines, "")).encode()


def check(known: CatalogueEntry, content: bytes, where: str, advice: str) -> bytes:
    """Hand the content on, or say that what lies there is not the set."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != known.sha256:
        raise DataError(
            f"{where} is not the {known.name} set: its CSV has {len(content)} bytes and SHA-256 {digest}, wanted "
            f"{known.sha256}; it was cut or changed: {advice}"
        )
    return content


def read(known: CatalogueEntry, content: bytes) -> Dataset:
    """The set, from its checked CSV."""
    table = np.loadtxt(content.decode().splitlines(), delimiter=",", skiprows=1, ndmin=2)
    return Dataset(
        known.name,
        table[:, :-1].copy(),
        table[:, -1].copy(),
        known.features,
        known.target,
        known.source,
        known.licence,
        known.note,
    )


def _shortest(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
