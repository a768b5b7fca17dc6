"""Predictions of forests for rows whose group they were not grown on."""

from typing import Any

import numpy as np

from rue.core.arrays import Array

FOLDS = 10  # maximum number of forests, each grown without some of the groups
OUT = 0.37  # size of these forests: a bootstrap leaves a single row out of 1/e of the trees


def without_group(forest: Any, points: Any, target: Array, weight: Array, group: np.ndarray) -> Array:
    """Predictions (n, columns) for every row by a copy of the forest that is grown without the row's group."""
    from sklearn.base import clone
    from sklearn.model_selection import GroupKFold

    predictions = np.empty((len(target), 1 if target.ndim == 1 else target.shape[1]))
    for kept, held in GroupKFold(min(FOLDS, len(np.unique(group)))).split(points, groups=group):
        copy = clone(forest).set_params(n_estimators=max(1, round(OUT * len(forest.estimators_))))
        copy.fit(points[kept], target[kept], sample_weight=weight[kept])
        predictions[held] = columns(copy.predict(points[held]))
    return predictions


def columns(values: Any) -> Array:
    """Predictions of a forest in the shape (n, columns), also for one column."""
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)
