"""How often each training row was drawn for each tree of a forest: repeated with the trees' own seeds."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.core.stored import storable


@storable
@dataclass(frozen=True)
class Draws:
    """How a forest of scikit-learn draws the rows of its trees."""

    seeds: tuple[Any, ...]  # of each tree
    bootstrap: bool
    most: float | int | None  # rows of a tree, as `max_samples`

    @classmethod
    def of(cls, estimator: Any) -> "Draws":
        """Those of a fitted forest, or of a single tree, which draws none."""
        if not getattr(estimator, "bootstrap", False):
            return cls((None,) * len(getattr(estimator, "estimators_", [estimator])), False, None)
        return cls(tuple(tree.random_state for tree in estimator.estimators_), True, estimator.max_samples)


def in_bag(draws: Draws, weight: Array) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
    """For each tree the weights (n,) its leaf means were taken with, and which rows it has seen (n,).

    From 1.9 on scikit-learn draws rows with probabilities by their weights; older releases multiply counts by weights.
    Weights that are all one count as none. `leaf_influence` checks by the leaf means that these are the training rows.
    """
    from sklearn.ensemble import _forest

    n = len(weight)
    given = None if (weight == 1).all() else weight
    if not draws.bootstrap:
        for _ in draws.seeds:
            yield weight, weight > 0
        return
    by_weight = len(inspect.signature(_forest._generate_sample_indices).parameters) > 3
    extra = [given] if by_weight else []
    size = _forest._get_n_samples_bootstrap(n, draws.most, *extra)
    for seed in draws.seeds:
        rows = _forest._generate_sample_indices(seed, n, size, *extra)
        counts = np.bincount(rows, minlength=n).astype(np.float64)
        yield counts if by_weight else counts * weight, counts > 0
