"""Inputs unlike the training rows: leave-one-out, which only sees the rows there are, cannot vouch for them."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.arrays import Array

Whether = NDArray[np.bool_]

USUAL = 0.99  # of the training rows are not unlike the others
FEATURES = 1000  # columns up to which values of single features are looked at
ROUNDING = 1e-5  # of a feature's standard deviation: two values this close are the same


@dataclass(frozen=True)
class SeenValues:
    """The values of single features among the training rows."""

    sorted: Array = field(repr=False)  # (n, p), every column
    distance: Array = field(repr=False)  # (p,), to the nearest value of another row: usual ones

    def unlike(self, points: Array) -> Whether:
        """Whether no training row has such a value of some feature: (c, p) -> (c,)."""
        return np.asarray((_distances(self.sorted, points) > self.distance).any(axis=1))


@dataclass(frozen=True)
class Support:
    """Where the training rows are: ranges that all but one in a hundred keep when they are left out."""

    leverage: float  # JH̃⁻¹Jᵀ, mean over outputs
    dissimilarity: float  # one minus the largest κ to another row
    values: SeenValues | None = field(repr=False)  # None where columns are not features

    def beyond(self, leverage: Tensor) -> Tensor:
        """Whether inputs pull harder on the fit than training rows do: (c,)."""
        return leverage > self.leverage

    def unlike(self, similarity: Tensor, points: Array) -> Tensor:
        """Whether no training row is similar, or none has such a value of some feature: (c, s), (c, p) -> (c,)."""
        alone = 1 - similarity.max(1).values > self.dissimilarity
        if self.values is None:
            return alone
        return alone | torch.as_tensor(self.values.unlike(points), device=alone.device)


def support(leverage: Tensor, similarity: Tensor, points: Array, unit: Tensor) -> Support:
    """Measure left-out leverage (s,), the largest κ (s,) of some training rows, and the points (n, p) of all."""
    high = float(torch.quantile(leverage, USUAL))
    lonely = float(torch.quantile(1 - similarity, USUAL))
    return Support(high, lonely, values_of(points, unit.cpu().numpy()))


def values_of(points: Array, unit: np.ndarray) -> SeenValues | None:
    """Of all training rows (n, p); None where there are too many columns to be features."""
    if points.shape[1] > FEATURES:
        return None
    first = np.unique(unit, return_index=True)[1]  # rows of a group may share their values: one of each
    own = np.sort(points[first], axis=0)
    gaps = np.diff(own, axis=0)
    end = np.full((1, points.shape[1]), np.inf)
    nearest = np.minimum(np.vstack([end, gaps]), np.vstack([gaps, end]))
    level = 1 - (1 - USUAL) / points.shape[1]  # so that all features together are usual
    return SeenValues(np.sort(points, axis=0), np.quantile(nearest, level, axis=0) + ROUNDING)


def _distances(values: Array, points: Array) -> Array:
    """From each of (c, p) to the nearest of sorted values (n, p) of the same feature."""
    found = np.empty_like(points)
    last = len(values) - 1
    for j in range(points.shape[1]):
        after = np.searchsorted(values[:, j], points[:, j])
        below, above = (values[np.clip(place, 0, last), j] for place in (after - 1, after))
        found[:, j] = np.minimum(np.abs(points[:, j] - below), np.abs(points[:, j] - above))
    return found
