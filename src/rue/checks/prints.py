"""Fingerprints of rows that agree to three digits: a copy is one also in single precision, rounded or jittered."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array

HALF, KEPT = np.uint32(0x800), np.uint32(0xFFFFF000)  # of the 23 binary digits of a single number, eleven are kept

DISTINCT = 0.5  # a column with so many values per row is a measurement: rows do not agree in it by chance
LOOKED_AT = 2000  # rows whose columns are counted
MEASURED = 3  # columns of measurements from which on three digits tell rows apart

Prints = NDArray[np.uint64]


def row_prints(batches: Iterable[Array], first: Array) -> Iterator[Prints]:
    """A number for each column of every row (m, p); rows whose numbers have one sum are the same.

    The middle of the `first` rows (c, p) is taken off, so that the digits are those of differences between rows. With
    fewer than three columns of measurements, rows agree to three digits by chance, and all digits count.
    """
    centre = _centre(first)
    several = sum(len(np.unique(column)) >= DISTINCT * len(column) for column in first[:LOOKED_AT].T) >= MEASURED
    half, kept = (HALF, KEPT) if several else (np.uint32(0), np.uint32(0xFFFFFFFF))
    source = np.random.default_rng(0)
    factors = source.integers(0, 2**64, len(centre), np.uint64) | np.uint64(1)
    for rows in batches:
        with np.errstate(over="ignore", invalid="ignore"):
            single = (rows - centre).astype(np.float32) + np.float32(0)  # −0 is 0
        single[np.isnan(single)] = np.nan
        bits = ((single.view(np.uint32) + half) & kept).astype(np.uint64)
        mixed = (bits + np.uint64(0x9E3779B97F4A7C15)) * factors
        mixed ^= mixed >> np.uint64(29)
        yield mixed * factors


def _centre(rows: Array) -> Array:
    """A usual value of every column (p,); zero where it has none."""
    finite = np.where(np.isfinite(rows), rows, np.nan)
    with np.errstate(all="ignore"):
        known = np.isfinite(finite).any(axis=0)
        return np.asarray(np.where(known, np.nanmedian(np.where(known, finite, 0.0), axis=0), 0.0))
