"""Inputs unlike the training rows: leave-one-out, which only sees the rows there are, cannot vouch for them."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from rue.features import Array

USUAL = 0.99  # of the training rows are not unlike the others
FEATURES = 1000  # columns up to which values of single features are looked at
ROUNDING = 1e-5  # of a feature's standard deviation: two values this close are the same


@dataclass(frozen=True)
class Support:
    """Where the training rows are: ranges that all but one in a hundred keep when they are left out."""

    leverage: float  # JH̃⁻¹Jᵀ, mean over outputs
    dissimilarity: float  # one minus the largest κ to another row
    values: Array | None = field(repr=False)  # (n, p), every column sorted; None where columns are not features
    distance: Array | None = field(repr=False)  # (p,), to the nearest value of another row

    def beyond(self, leverage: Tensor) -> Tensor:
        """Whether inputs pull harder on the fit than training rows do: (c,)."""
        return leverage > self.leverage

    def unlike(self, similarity: Tensor, points: Array) -> Tensor:
        """Whether no training row is similar, or none has such a value of some feature: (c, s), (c, p) -> (c,)."""
        alone = 1 - similarity.max(1).values > self.dissimilarity
        if self.values is None or self.distance is None:
            return alone
        apart = (_distances(self.values, points) > self.distance).any(axis=1)
        return alone | torch.as_tensor(apart, device=alone.device)


def support(leverage: Tensor, similarity: Tensor, points: Array, unit: Tensor) -> Support:
    """Measure left-out leverage (s,), the largest κ (s,) of some training rows, and the points (n, p) of all."""
    high = float(torch.quantile(leverage, USUAL))
    lonely = float(torch.quantile(1 - similarity, USUAL))
    if points.shape[1] > FEATURES:
        return Support(high, lonely, None, None)
    values = np.sort(points, axis=0)
    first = np.unique(unit.cpu().numpy(), return_index=True)[1]  # rows of a group may share their values: one of each
    own = np.sort(points[first], axis=0)
    gaps = np.diff(own, axis=0)
    end = np.full((1, points.shape[1]), np.inf)
    nearest = np.minimum(np.vstack([end, gaps]), np.vstack([gaps, end]))
    level = 1 - (1 - USUAL) / points.shape[1]  # so that all features together are usual
    return Support(high, lonely, values, np.quantile(nearest, level, axis=0) + ROUNDING)


def _distances(values: Array, points: Array) -> Array:
    """From each of (c, p) to the nearest of sorted values (n, p) of the same feature."""
    found = np.empty_like(points)
    last = len(values) - 1
    for j in range(points.shape[1]):
        after = np.searchsorted(values[:, j], points[:, j])
        below, above = (values[np.clip(place, 0, last), j] for place in (after - 1, after))
        found[:, j] = np.minimum(np.abs(points[:, j] - below), np.abs(points[:, j] - above))
    return found
