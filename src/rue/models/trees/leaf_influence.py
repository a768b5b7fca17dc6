"""The infinitesimal jackknife of a forest: how the weight of a training row moves the leaf means of every tree."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array, Whole
from rue.core.concepts import WeightCovariance
from rue.core.errors import DataError
from rue.core.stored import storable, storable_rows
from rue.models.trees.forest import Forest

CLOSE = 1e-5  # relative difference of recomputed leaf means that is rounding: trees sum in another order


@storable
class SampledTrees(NamedTuple):
    """The number of a forest's trees, and the share of its resampling variance that is due to that number."""

    trees: int
    share: float


@storable_rows
@dataclass(frozen=True)
class LeafInfluence:
    """How a unit's weight moves the mean of each leaf: by w(y − θ)/N, summed over the unit's rows in the leaf.

    With `left_out`, y − θ is not the row's residual in the leaf, which is zero in a leaf of one row, but its residual
    under the trees that were grown without it.
    """

    pulls: tuple[Any, ...] = field(repr=False)  # k sparse matrices (d, u)
    within: Array = field(repr=False)  # (d, k, k), products of a leaf's pulls, summed over units
    unseen: NDArray[np.bool_] = field(repr=False)  # (n, T), trees that were grown without the row's unit
    out_of_bag: Array = field(repr=False)  # (n, k), the mean of these trees; of all trees where there are none
    left_out: bool
    share: Any = field(repr=False)  # sparse (d, n): the weight of each row in each leaf's mean

    def covariance(self, leaf: Whole, weights: WeightCovariance, use: NDArray[np.bool_] | None = None) -> Array:
        """The covariance of predictions (c, k, k) at leaves (c, T), of the trees in `use` (c, T) if given."""
        k, units = len(self.pulls), self.pulls[0].shape[1]
        mean = averaging(leaf, self.pulls[0].shape[0], use)
        moved = [mean @ pull for pull in self.pulls]  # sparse (c, u): how each unit pulls on each output
        total = [np.asarray(pull.sum(axis=1)).ravel() for pull in moved]
        covariance = np.empty((len(leaf), k, k))
        for i in range(k):
            for j in range(i, k):
                products = np.asarray(moved[i].multiply(moved[j]).sum(axis=1)).ravel()
                covariance[:, i, j] = weights.scale * (products - weights.shared * total[i] * total[j] / units)
                covariance[:, j, i] = covariance[:, i, j]
        return covariance

    def monte_carlo(self, leaf: Whole, covariance: Array, scale: float, use: NDArray[np.bool_] | None = None) -> Array:
        """The part of the covariances (c, k, k) that is due to the finite number of trees.

        The rest is the mean over pairs of different trees, whose expectation does not depend on their number.
        """
        use = np.ones(leaf.shape, dtype=bool) if use is None else use
        count = use.sum(1)[:, None, None]
        own = scale * np.einsum("ctij,ct->cij", self.within[leaf], use) / count  # a tree with itself
        return np.asarray((own - covariance) / np.maximum(count - 1, 1))


def leaf_influence(
    forest: Forest, leaf: Whole, targets: Array, weight: Array, unit: Whole, *, left_out: bool
) -> LeafInfluence:
    """Recompute every leaf mean from leaves (n, T), targets (n, k), and weights and units (n,)."""
    from scipy.sparse import csr_array

    bags = _bags(forest, leaf, weight, unit)
    residual = targets[bags.row] - forest.values[bags.place]
    _check_means(bags.share[:, None] * residual, bags.place, targets)
    out_of_bag = _out_of_bag(forest, leaf, bags.unseen)
    if left_out:
        residual = (targets - out_of_bag)[bags.row]
    entry, shape = bags.share[:, None] * residual, (len(forest.values), int(unit.max()) + 1)
    pulls = tuple(csr_array((entry[:, j], (bags.place, unit[bags.row])), shape=shape) for j in range(targets.shape[1]))
    within: Array = np.stack([np.stack([a.multiply(b).sum(axis=1) for b in pulls], axis=-1) for a in pulls], axis=1)
    share = csr_array((bags.share, (bags.place, bags.row)), shape=(len(forest.values), len(leaf)))
    return LeafInfluence(pulls, within, bags.unseen, out_of_bag, left_out, share)


class _Bags(NamedTuple):
    """One entry for every pair of a row and a tree that was grown on it."""

    row: Whole
    place: Whole  # the number of its leaf
    share: Array  # its weight as a share of the leaf's weight
    unseen: NDArray[np.bool_]  # (n, T)


def _bags(forest: Forest, leaf: Whole, weight: Array, unit: Whole) -> _Bags:
    rows, places, shares = [], [], []
    unseen = np.empty(leaf.shape, dtype=bool)
    for t, (used, seen) in enumerate(forest.in_bag(weight)):
        touched = np.bincount(unit, seen)
        unseen[:, t] = touched[unit] == 0
        inside = np.flatnonzero(used)
        place = leaf[inside, t]
        rows.append(inside)
        places.append(place)
        shares.append(used[inside] / np.bincount(place, used[inside])[place])
    return _Bags(np.concatenate(rows), np.concatenate(places), np.concatenate(shares), unseen)


def _out_of_bag(forest: Forest, leaf: Whole, unseen: NDArray[np.bool_]) -> Array:
    """Means over the trees that were grown without a row's unit; over all trees where there are none."""
    use = unseen | (unseen.sum(1) == 0)[:, None]
    return np.asarray(averaging(leaf, len(forest.values), use) @ forest.values)


def _check_means(entry: Array, place: Whole, targets: Array) -> None:
    """Refuse rows that the forest was not grown on: the pulls of a leaf must add up to zero."""
    apart = max(float(np.abs(np.bincount(place, column)).max()) for column in entry.T) / (np.abs(targets).max() or 1.0)
    if apart > CLOSE:
        raise DataError(
            f"leaf means taken from these rows differ from the forest's by up to {apart:.1e} (relative): they are not "
            "the rows it was grown on, in the same order and with the same weights; give those, as rue.Data(X, y, "
            "weight=sample_weight) where it had weights"
        )


def averaging(leaf: Whole, d: int, use: NDArray[np.bool_] | None) -> Any:
    """A sparse matrix (c, d) that averages leaf values over the trees of each row."""
    from scipy.sparse import csr_array

    use = np.ones(leaf.shape, dtype=bool) if use is None else use
    counts = use.sum(1)
    share = np.repeat(1 / np.maximum(counts, 1), counts)
    return csr_array((share, leaf[use], np.concatenate([[0], np.cumsum(counts)])), shape=(len(leaf), d))
