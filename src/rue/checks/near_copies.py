"""Rows that lie so near to another that they are copies of it, moved by a little noise."""

from dataclasses import dataclass, field
from typing import NamedTuple

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

    def sampled(self, others: int | None = None) -> Whole:
        """Some rows, the same every time; fewer where there are many `others` that they are compared with."""
        n = len(self.rows)
        size = min(n, SAMPLED, max(FEWEST, DISTANCES // (others or n)))
        return np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def near_copies(cloud: Cloud) -> NDArray[np.bool_]:
    """Which sampled rows have some neighbours, of their class, that are far nearer than the next one.

    Nothing is said, and the result empty, with fewer than three columns in which rows do not agree by chance. Distances
    are taken in those alone: in a table of categories two rows may differ in one number only, and still be two. Rows
    that are equal in all of them are no neighbours; they are counted otherwise.
    """
    measured = _Measured.of(cloud)
    if measured is None:
        return np.zeros(0, dtype=bool)
    points, sampled = measured(cloud.rows), cloud.sampled()
    squared = _squared(points[sampled], points)
    apart = cloud.label[sampled][:, None] != cloud.label
    squared[apart | (cloud.unit[sampled][:, None] == cloud.unit) | (squared < _rounding(points))] = np.inf
    return _far_nearer(squared)


class Met(NamedTuple):
    """How many of some sampled rows nearly are an earlier row, and the share of earlier rows that nearly are one."""

    copies: int
    sampled: int
    usual: float


def nearly_met(now: Cloud, earlier: Cloud) -> Met | None:
    """Compare rows with earlier ones, as rounded copies lie near to them; None where nothing can be said.

    A row counts where some earlier rows of its class are far nearer than the next one, equal ones among them.
    """
    measured = _Measured.of(earlier)
    if measured is None or now.rows.shape[1] != earlier.rows.shape[1]:
        return None
    points = measured(earlier.rows)
    sampled, some = now.sampled(len(points)), earlier.sampled()
    squared = _squared(measured(now.rows[sampled]), points)
    squared[now.label[sampled][:, None] != earlier.label] = np.inf
    within = _squared(points[some], points)
    within[(earlier.label[some][:, None] != earlier.label) | (some[:, None] == np.arange(len(points)))] = np.inf
    return Met(int(_far_nearer(squared).sum()), len(sampled), float(_far_nearer(within).mean()))


def _far_nearer(squared: Array) -> NDArray[np.bool_]:
    """Which rows of squared distances (m, n) have some that are far smaller than the next; infinite ones are none."""
    count = min(NEIGHBOURS + 1, squared.shape[1] - 1)
    nearest = np.sort(np.partition(squared, count - 1, axis=1)[:, :count], axis=1)
    known = np.where(np.isfinite(nearest), nearest, np.nan)  # a class may have fewer rows
    return np.asarray((known[:, :-1] < NEARER**2 * known[:, 1:]).any(axis=1))


@dataclass(frozen=True)
class _Measured:
    """The columns in which rows do not agree by chance, and their middle and spread."""

    columns: NDArray[np.bool_]
    usual: Array
    spread: Array

    @classmethod
    def of(cls, cloud: Cloud) -> "_Measured | None":
        """None where there are too few such columns, or too few rows."""
        if len(cloud.rows) < ROWS:
            return None
        some, p = cloud.rows[:LOOKED_AT], cloud.rows.shape[1]
        needed = np.where(np.arange(p) < p - cloud.targets, DISTINCT * len(some), VALUES)
        columns = np.array([len(np.unique(some[:, j])) >= needed[j] for j in range(p)])
        columns &= np.isfinite(cloud.rows).all(axis=0)
        if columns.sum() < MEASURED:
            return None
        points = cloud.rows[:, columns]
        spread = points.std(axis=0)
        return cls(columns, np.median(points[:LOOKED_AT], axis=0), np.where(spread > 0, spread, 1.0))

    def __call__(self, rows: Array) -> Array:
        """Rows in units of the spread; most lie near zero, so that their distances lose no digits."""
        return np.asarray((rows[:, self.columns] - self.usual) / self.spread)


def _squared(some: Array, points: Array) -> Array:
    """Squared distances (m, n)."""
    lengths = np.square(points).sum(axis=1)
    return np.asarray(np.maximum(np.square(some).sum(axis=1)[:, None] + lengths - 2 * some @ points.T, 0.0))


def _rounding(points: Array) -> Array:
    """Squared distances to each point that may be rounding (n,)."""
    return 1e-13 * (1.0 + np.square(points).sum(axis=1))
