"""Rows that lie so near to another that they are copies of it, moved by a little noise."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rue.checks.prints import DISTINCT, LOOKED_AT, MEASURED
from rue.core.arrays import Array, Whole

# Points that fill m dimensions evenly have P(dₖ/dₖ₊₁ < t) = tᵐᵏ for the distances to the k-th and the next neighbour:
# with three columns of measurements, one row in a thousand has a first neighbour this much nearer than the second.
NEARER = 0.1
NEIGHBOURS = 10  # as many copies of a row are found
SAMPLED, FEWEST = 100, 40  # rows whose neighbours are searched for, fewer where there are many rows
DISTANCES = 60_000  # at most so many are computed, unless that is too few rows
VALUES = 20  # a target with so many values tells rows apart, although copies have the same
ROWS = 30  # with fewer rows nothing can be said


@dataclass(frozen=True)
class Cloud:
    """Rows as points: numbers (n, p), the class of each, or zero, and its resampling unit."""

    rows: Array = field(repr=False)
    label: Whole = field(repr=False)
    unit: Whole = field(repr=False)
    targets: int = 0  # the last columns are targets, which copies share

    def sampled(self) -> Whole:
        """Some rows, the same every time."""
        n = len(self.rows)
        size = min(n, SAMPLED, max(FEWEST, DISTANCES // n))
        return np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def near_copies(cloud: Cloud) -> NDArray[np.bool_]:
    """Which sampled rows have some neighbours, of their class, that are far nearer than the next one.

    Nothing is said, and the result empty, with fewer than three columns in which rows do not agree by chance. Distances
    are taken in those alone: in a table of categories two rows may differ in one number only, and still be two. Rows
    that are equal in all of them are no neighbours; they are counted otherwise.
    """
    points = _measured(cloud)
    if points.shape[1] < MEASURED or len(points) < ROWS:
        return np.zeros(0, dtype=bool)
    sampled = cloud.sampled()
    squared = _squared(points[sampled], points)
    apart = cloud.label[sampled][:, None] != cloud.label
    squared[apart | (cloud.unit[sampled][:, None] == cloud.unit) | (squared < _rounding(points))] = np.inf
    count = min(NEIGHBOURS + 1, len(points) - 1)
    nearest = np.sort(np.partition(squared, count - 1, axis=1)[:, :count], axis=1)
    known = np.where(np.isfinite(nearest), nearest, np.nan)  # a class may have fewer rows
    return np.asarray((known[:, :-1] < NEARER**2 * known[:, 1:]).any(axis=1))


def _measured(cloud: Cloud) -> Array:
    """The columns (n, q) in which rows do not agree by chance, in units of their spread."""
    some, p = cloud.rows[:LOOKED_AT], cloud.rows.shape[1]
    needed = np.where(np.arange(p) < p - cloud.targets, DISTINCT * len(some), VALUES)
    points = cloud.rows[:, [len(np.unique(some[:, j])) >= needed[j] for j in range(p)]]
    points = points[:, np.isfinite(points).all(axis=0)]
    if not points.size:
        return points
    spread = points.std(axis=0)
    usual = np.median(points[:LOOKED_AT], axis=0)  # most points lie near zero then, and their distances lose no digits
    return np.asarray((points - usual) / np.where(spread > 0, spread, 1.0))


def _squared(some: Array, points: Array) -> Array:
    """Squared distances (m, n)."""
    lengths = np.square(points).sum(axis=1)
    return np.asarray(np.maximum(np.square(some).sum(axis=1)[:, None] + lengths - 2 * some @ points.T, 0.0))


def _rounding(points: Array) -> Array:
    """Squared distances to each point that may be rounding (n,)."""
    return 1e-13 * (1.0 + np.square(points).sum(axis=1))
