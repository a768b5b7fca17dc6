"""Finds inputs unlike the training rows, for which left-out training rows are no evidence."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.arrays import Array, Whole
from rue.core.stored import storable, storable_rows

Whether = NDArray[np.bool_]

USUAL = 0.99  # fraction of the training rows that count as like the others
WIDE = 0.05  # columns for each training row from which on the largest distances of all columns are judged together
MIDDLE = 0.9  # share of the distances in a column that are below its scale
FEATURES = 1000  # number of columns up to which values of single features are compared
ROUNDING = 1e-5  # in standard deviations of a feature: values this close are equal


@storable_rows
@dataclass(frozen=True)
class SeenValues:
    """The values of single features among the training rows."""

    sorted: NDArray[np.complex128] = field(repr=False)  # (n·p,), the sorted values v of column j as j + iv
    distance: Array = field(repr=False)  # (p,), the usual distance to the nearest value of another row

    def unlike(self, points: Array) -> Whether:
        """Whether some feature has a value far from those of all training rows: (c, p) -> (c,)."""
        return np.asarray((_distances(self.sorted, points) > self.distance).any(axis=1))


@storable
@dataclass(frozen=True)
class Support:
    """The range of the training rows: limits that 99 of 100 of them keep when they are left out."""

    leverage: float  # JH̃⁻¹Jᵀ, mean over outputs
    dissimilarity: float  # one minus the largest κ to another row
    values: SeenValues | None = field(repr=False)  # None if there are too many columns

    def beyond(self, leverage: Tensor) -> Tensor:
        """Whether inputs have a larger leverage than training rows: (c,)."""
        return leverage > self.leverage

    def unlike(self, similarity: Tensor, points: Array) -> Tensor:
        """Whether no training row is similar, or some feature has a new value: (c, s), (c, p) -> (c,)."""
        alone = 1 - similarity.max(1).values > self.dissimilarity
        if self.values is None:
            return alone
        return alone | torch.as_tensor(self.values.unlike(points), device=alone.device)


def support(leverage: Tensor, similarity: Tensor, points: Array, unit: Whole) -> Support:
    """The limits from left-out leverages (s,) and largest similarities (s,) of some rows, and points (n, p) of all."""
    high = float(torch.quantile(leverage, USUAL))
    lonely = float(torch.quantile(1 - similarity, USUAL))
    return Support(high, lonely, values_of(points, unit))


def values_of(points: Array, unit: Whole) -> SeenValues | None:
    """The feature values of all training rows (n, p); None if there are too many columns."""
    if points.shape[1] > FEATURES:
        return None
    first = np.unique(unit, return_index=True)[1]  # one row of each group, because rows of a group may share values
    gaps = np.diff(np.sort(points[first], axis=0), axis=0)
    end = np.full((1, points.shape[1]), np.inf)
    nearest = np.minimum(np.vstack([end, gaps]), np.vstack([gaps, end]))
    level = 1 - (1 - USUAL) / points.shape[1]  # so that 99 of 100 rows are usual in all features together
    distance = np.quantile(nearest, level, axis=0)
    if points.shape[1] > WIDE * len(first):  # new rows exceed the largest of n distances in some of many columns
        usual = np.quantile(nearest, MIDDLE, axis=0) + ROUNDING
        distance = np.maximum(distance, usual * np.quantile((nearest / usual).max(axis=1), USUAL))
    return SeenValues(_placed(np.sort(points, axis=0)).T.ravel(), distance + ROUNDING)


def _placed(points: Array) -> NDArray[np.complex128]:
    """Values v in column j as j + iv (c, p): NumPy orders complex numbers by column then, and by value within one."""
    placed = np.empty(points.shape, dtype=np.complex128)
    placed.real, placed.imag = np.arange(points.shape[1]), points
    return placed


def _distances(values: NDArray[np.complex128], points: Array) -> Array:
    """The distance from each of (c, p) to the nearest of the placed values (n·p,) of the same feature."""
    n, p = len(values) // points.shape[1], points.shape[1]
    after = np.searchsorted(values, _placed(points))
    first = n * np.arange(p)
    below, above = (values.imag[np.clip(place, first, first + n - 1)] for place in (after - 1, after))
    return np.asarray(np.minimum(np.abs(points - below), np.abs(points - above)))
