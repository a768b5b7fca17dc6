"""A forest that learns the size of left-out residuals from the inputs and the prediction (Wolpert's second model)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.calibrate.grouped_forest import columns, without_group
from rue.core.arrays import Array

TREES = 300
LEAF = 10  # rows in a leaf, at least
ROWS = 3_000  # that a tree is grown on, at most
QUICK, FEWEST = 700, 100  # rows and trees of a quick one, at most and at least
FEATURES = 1 / 3  # of the columns that a split may look at: trees that differ more


@dataclass(frozen=True)
class ErrorModel:
    """Squared errors to expect at inputs, and what trees that never saw a training row said of it.

    The forest learns absolute errors, of which a few large ones decide less; `scale` makes their squares right on
    average. Predictions and errors come to it in units of the mean error: trees take numbers for equal that differ
    by less than rounding does near one.
    """

    forest: Any = field(repr=False)
    unit: float
    scale: Array = field(repr=False)  # (k,)
    out_of_bag: Array = field(repr=False)  # (n, k)

    def __call__(self, points: Array, prediction: Array) -> Array:
        """Expected squared errors at standardised points (c, p) with predictions (c, k): (c, k)."""
        return self.scale * columns(self.forest.predict(_described(points, prediction / self.unit))) ** 2


def error_covariance(expected: Tensor, noise: Tensor) -> Tensor:
    """Expected squared errors (c, k) with the correlations of the noise (k, k): (c, k, k)."""
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
    """Grow the forest on standardised points (n, p), left-out predictions (n, k) and what these miss (n, k).

    Groups leave the training of their trees together. What a row was fitted to would leak its target. A `quick` one
    has fewer and smaller trees where there are many rows.
    """
    from sklearn.ensemble import RandomForestRegressor

    n = len(points)
    place = np.lexsort(np.hstack([points, weight[:, None], prediction]).T)  # trees draw rows by their place
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
    forest.fit(narrow, target, sample_weight=weight)
    if grouped:
        apart = without_group(forest, narrow, target, weight, group)
    else:
        apart = _seen(columns(forest.oob_prediction_), size, weight)
    square, expected = (np.average(values**2, axis=0, weights=weight) for values in (errors, apart))
    scale = square / np.where(expected > 0, expected, 1.0)
    return ErrorModel(forest, unit, scale, scale * apart[np.argsort(place)] ** 2)


def _seen(found: Array, size: Array, weight: Array) -> Array:
    """A row that no tree left out, or that has no weight, gets the mean."""
    mean = np.average(size, axis=0, weights=weight)
    return np.where(np.isfinite(found) & (found > 0), found, mean)


def _described(points: Array, prediction: Array) -> Any:
    return np.hstack([points, prediction]).astype(np.float32)  # what trees compare with
