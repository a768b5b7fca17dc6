"""A forest that learns the size of left-out residuals from the inputs and the prediction (Wolpert's second model)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.calibrate.array_forest import ArrayForest
from rue.core.arrays import Array
from rue.core.process import ignoring
from rue.core.stored import storable

TREES = 300
LEAF = 10  # minimum number of rows in a leaf
ROWS = 3_000  # maximum number of rows for each tree
QUICK, FEWEST = 700, 100  # of a quick forest: maximum number of rows for each tree, minimum number of trees
FEATURES = 1 / 3  # fraction of the columns tried at each split, so that trees differ more
FOLDS = 10  # maximum number of forests, each grown without some of the groups
OUT = 0.37  # size of these forests: a bootstrap leaves a single row out of 1/e of the trees


def without_group(forest: Any, points: Any, target: Array, weight: Array, group: np.ndarray) -> Array:
    """Predictions (n, columns) for every row by a copy of the forest that is grown without the row's group."""
    from sklearn.base import clone
    from sklearn.model_selection import GroupKFold

    predictions = np.empty((len(target), 1 if target.ndim == 1 else target.shape[1]))
    for kept, held in GroupKFold(min(FOLDS, len(np.unique(group)))).split(points, groups=group):
        copy = clone(forest).set_params(n_estimators=round(OUT * len(forest.estimators_)))
        copy.fit(points[kept], target[kept], sample_weight=weight[kept])
        predictions[held] = columns(copy.predict(points[held]))
    return predictions


def columns(values: Any) -> Array:
    """Predictions of a forest in the shape (n, columns), also for one column."""
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)


@storable
@dataclass(frozen=True)
class ErrorModel:
    """Predicts squared errors at inputs, and holds out-of-bag predictions for the training rows.

    The forest learns absolute errors, where a few large ones matter less; `scale` makes the squares right on average.
    Predictions and errors are passed in units of the mean error, because trees treat numbers as equal that differ by
    less than the rounding error near one.
    """

    forest: ArrayForest = field(repr=False)
    unit: float
    scale: Array = field(repr=False)  # (k,)
    out_of_bag: Array = field(repr=False)  # (n, k)

    def __call__(self, points: Array, prediction: Array) -> Array:
        """Expected squared errors at standardised points (c, p) with predictions (c, k): (c, k)."""
        return self.scale * self.forest(_described(points, prediction / self.unit)) ** 2


def error_covariance(expected: Tensor, noise: Tensor) -> Tensor:
    """Covariances (c, k, k) with expected squared errors (c, k) as variances and the noise's (k, k) correlations."""
    deviation = noise.diagonal().clamp_min(torch.finfo(noise.dtype).tiny).sqrt()
    correlation = noise / torch.outer(deviation, deviation)
    root = expected.clamp_min(0).sqrt()
    return root.unsqueeze(-1) * root.unsqueeze(-2) * correlation


def error_model(
    points: Array,
    prediction: Array,
    errors: Array,
    weight: Array,
    group: np.ndarray,
    seed: int,
    quick: bool = False,
) -> ErrorModel:
    """Grow the forest on standardised points (n, p), left-out predictions (n, k) and their errors (n, k).

    Left-out predictions are used because fitted ones would leak the target. Rows of a group are left out of trees
    together. A `quick` forest has fewer and smaller trees if there are many rows.
    """
    from sklearn.ensemble import RandomForestRegressor

    n = len(points)
    # sorted, because trees draw rows by their position: the order of the rows must not matter
    place = np.lexsort(np.hstack([points, weight[:, None], prediction]).T)
    points, prediction, errors, weight, group = (
        values[place] for values in (points, prediction, errors, weight, group)
    )
    grouped = len(np.unique(group)) < n
    most = QUICK if quick else ROWS
    forest = RandomForestRegressor(
        max(FEWEST, TREES * QUICK // max(QUICK, n)) if quick else TREES,
        min_samples_leaf=LEAF,
        max_features=FEATURES,
        max_samples=None if n <= most else most,
        oob_score=not grouped,
        random_state=seed,
        n_jobs=torch.get_num_threads(),
    )
    unit = float(np.average(np.abs(errors), axis=0, weights=weight).mean()) or 1.0
    size, narrow = np.abs(errors) / unit, _described(points, prediction / unit)
    target = size[:, 0] if size.shape[1] == 1 else size
    with ignoring("Some inputs do not have OOB scores", category=UserWarning):  # they get the mean
        forest.fit(narrow, target, sample_weight=weight)
    if grouped:
        left_out = without_group(forest, narrow, target, weight, group)
    else:
        left_out = _completed(columns(forest.oob_prediction_), size, weight)
    square, expected = (np.average(values**2, axis=0, weights=weight) for values in (errors, left_out))
    scale = square / np.where(expected > 0, expected, 1.0)
    return ErrorModel(ArrayForest.of(forest), unit, scale, scale * left_out[np.argsort(place)] ** 2)


def _completed(out_of_bag: Array, size: Array, weight: Array) -> Array:
    """Out-of-bag predictions, with the mean for rows that every tree has drawn or that have no weight."""
    mean = np.average(size, axis=0, weights=weight)
    return np.where(np.isfinite(out_of_bag) & (out_of_bag > 0), out_of_bag, mean)


def _described(points: Array, prediction: Array) -> Any:
    return np.hstack([points, prediction]).astype(np.float32)  # the precision that trees use
