"""A forest that learns the squared left-out residuals from the inputs and the prediction (Wolpert's second model)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.features import Array

TREES = 300
LEAF = 10  # rows in a leaf, at least
ROWS = 3_000  # that a tree is grown on, at most
FOLDS = 10  # where rows are grouped: trees that never saw the group


@dataclass(frozen=True)
class ErrorModel:
    """Squared errors to expect at inputs, and what trees that never saw a training row said of it."""

    forest: Any = field(repr=False)
    out_of_bag: Array = field(repr=False)  # (n, k)

    def __call__(self, points: Array) -> Array:
        """Expected squared errors at points (c, p): (c, k)."""
        return _columns(self.forest.predict(_narrow(points)))


def error_covariance(expected: Tensor, noise: Tensor) -> Tensor:
    """Expected squared errors (c, k) with the correlations of the noise (k, k): (c, k, k)."""
    deviation = noise.diagonal().clamp_min(torch.finfo(noise.dtype).tiny).sqrt()
    correlation = noise / torch.outer(deviation, deviation)
    root = expected.clamp_min(0).sqrt()
    return root.unsqueeze(-1) * root.unsqueeze(-2) * correlation


def error_model(points: Array, squares: Array, weight: Array, unit: np.ndarray, seed: int) -> ErrorModel:
    """Grow the forest on points (n, p) and squared errors (n, k); groups leave the training of their trees together."""
    from sklearn.base import clone
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import GroupKFold

    n = len(points)
    grouped = len(np.unique(unit)) < n
    forest = RandomForestRegressor(
        TREES,
        min_samples_leaf=LEAF,
        max_samples=None if n <= ROWS else ROWS,
        oob_score=not grouped,
        random_state=seed,
        n_jobs=torch.get_num_threads(),
    )
    narrow, target = _narrow(points), squares[:, 0] if squares.shape[1] == 1 else squares
    forest.fit(narrow, target, sample_weight=weight)
    if not grouped:
        return ErrorModel(forest, _seen(_columns(forest.oob_prediction_), squares, weight))
    apart = np.empty_like(squares)
    for kept, held in GroupKFold(min(FOLDS, len(np.unique(unit)))).split(narrow, groups=unit):
        own = clone(forest).fit(narrow[kept], target[kept], sample_weight=weight[kept])
        apart[held] = _columns(own.predict(narrow[held]))
    return ErrorModel(forest, apart)


def _seen(found: Array, squares: Array, weight: Array) -> Array:
    """A row that no tree left out, or that has no weight, gets the mean."""
    mean = np.average(squares, axis=0, weights=weight)
    return np.where(np.isfinite(found) & (found > 0), found, mean)


def _columns(values: Any) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)


def _narrow(points: Array) -> Any:
    return points.astype(np.float32)  # what trees compare with
