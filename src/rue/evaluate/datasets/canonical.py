"""One CSV text for each data set, the same bytes from every source, checked by its SHA-256."""

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


def check(entry: CatalogueEntry, content: bytes, where: str, advice: str) -> bytes:
    """Return the content if its SHA-256 is right, else refuse it."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != entry.sha256:
        raise DataError(
            f"{where} is not the {entry.name} set: its CSV has {len(content)} bytes and SHA-256 {digest}, wanted "
            f"{entry.sha256}; it was cut or changed: {advice}"
        )
    return content


def read(entry: CatalogueEntry, content: bytes) -> Dataset:
    """The set, from its checked CSV."""
    table = np.loadtxt(content.decode().splitlines(), delimiter=",", skiprows=1, ndmin=2)
    return Dataset(
        entry.name,
        table[:, :-1].copy(),
        table[:, -1].copy(),
        entry.features,
        entry.target,
        entry.source,
        entry.licence,
        entry.note,
    )


def _shortest(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
