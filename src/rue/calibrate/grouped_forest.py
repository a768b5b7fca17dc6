"""What forests say of rows whose group they were not grown on."""

from typing import Any

import numpy as np

from rue.core.arrays import Array

FOLDS = 10  # forests, at most: each without some of the groups,
OUT = 0.37  # of as many trees as have not drawn a row that is by itself: 1/e of them


def without_group(forest: Any, points: Any, target: Array, weight: Array, group: np.ndarray) -> Array:
    """Grow copies of a fitted forest without each row's group, and ask them: (n, columns)."""
    from sklearn.base import clone
    from sklearn.model_selection import GroupKFold

    says = np.empty((len(target), 1 if target.ndim == 1 else target.shape[1]))
    for kept, held in GroupKFold(min(FOLDS, len(np.unique(group)))).split(points, groups=group):
        own = clone(forest).set_params(n_estimators=max(1, round(OUT * len(forest.estimators_))))
        own.fit(points[kept], target[kept], sample_weight=weight[kept])
        says[held] = columns(own.predict(points[held]))
    return says


def columns(values: Any) -> Array:
    """What a forest says, always as (n, columns)."""
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)
