"""How often each training row was drawn for each tree of a forest: repeated with the trees' own seeds."""

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array


def in_bag(estimator: Any, weight: Array) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
    """For each tree the weights (n,) its leaf means were taken with, and which rows it has seen (n,).

    From 1.9 on scikit-learn draws rows with probabilities by their weights; older releases multiply counts by weights.
    Weights that are all one count as none. `leaf_influence` checks by the leaf means that these are the training rows.
    """
    from sklearn.ensemble import _forest

    n = len(weight)
    given = None if (weight == 1).all() else weight
    if not getattr(estimator, "bootstrap", False):
        for _ in getattr(estimator, "estimators_", [estimator]):
            yield weight, weight > 0
        return
    by_weight = len(inspect.signature(_forest._generate_sample_indices).parameters) > 3
    extra = [given] if by_weight else []
    size = _forest._get_n_samples_bootstrap(n, estimator.max_samples, *extra)
    for tree in estimator.estimators_:
        rows = _forest._generate_sample_indices(tree.random_state, n, size, *extra)
        counts = np.bincount(rows, minlength=n).astype(np.float64)
        yield counts if by_weight else counts * weight, counts > 0
