"""Readers of the files in the archives: each returns a table (n, p + 1) with the target last."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

from rue.core.arrays import Array

Lines = list[list[float]]

NAVAL_BLOCK = 234  # rows of one compressor decay: 9 speeds × 26 turbine decays


@dataclass(frozen=True)
class RawFile:
    """A file from an archive, and a description of its place for messages."""

    where: str
    content: bytes


def housing(content: bytes) -> Array:
    """Comma-separated numbers without a header, as mlxtend ships them."""
    return np.array(_delimited(content, ","))


def concrete(content: bytes) -> Array:
    """The first sheet; features are rounded to one decimal and the target to two, halves upwards as in spreadsheets."""
    return np.array([[*(_rounded(x, 1) for x in row[:8]), _rounded(row[8], 2)] for row in _sheet(content, 0)])


def energy(content: bytes) -> Array:
    """The first sheet, without the cooling load and without the empty columns of some copies."""
    return np.array([[*row[:8], _rounded(row[8], 2)] for row in _sheet(content, 0)])


def kin8nm(content: bytes) -> Array:
    """ARFF: the numbers follow the line @data."""
    return np.array(_delimited(content.lower().partition(b"@data")[2], ","))


def naval(content: bytes) -> Array:
    """Sixteen measurements; the compressor decay follows from the row, also in copies that lack it."""
    rows = _delimited(content, None)
    return np.array([[*row[:16], round(0.95 + 0.001 * (i // NAVAL_BLOCK), 3)] for i, row in enumerate(rows)])


def power(content: bytes) -> Array:
    """The fifth of five sheets, each a shuffle of the same rows."""
    return np.array(_sheet(content, 4))


def wine(content: bytes) -> Array:
    """Numbers separated by semicolons, under a header."""
    return np.array(_delimited(content.partition(b"\n")[2], ";"))


def yacht(content: bytes) -> Array:
    """Numbers separated by blanks."""
    return np.array(_delimited(content, None))


READERS: dict[str, Callable[[bytes], Array]] = {
    reader.__name__: reader for reader in (housing, concrete, energy, kin8nm, naval, power, wine, yacht)
}


def _delimited(content: bytes, separator: str | None) -> Lines:
    """Rows of numbers; None separates at blanks. Empty lines are skipped."""
    lines = content.decode("ascii").splitlines()
    return [[float(cell) for cell in line.split(separator)] for line in lines if line.strip()]


def _sheet(content: bytes, index: int) -> Lines:
    """The numbers under the header of a sheet, .xls or .xlsx, empty rows skipped."""
    from python_calamine import CalamineWorkbook

    rows = CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(index).to_python()
    return [[float(str(cell)) for cell in row if cell != ""] for row in rows[1:] if any(cell != "" for cell in row)]


def _rounded(value: float, decimals: int) -> float:
    """Round the printed decimal, halves upwards: 161.85 is 161.9, where `round` gives 161.8."""
    return float(Decimal(repr(value)).quantize(Decimal(10) ** -decimals, ROUND_HALF_UP))
