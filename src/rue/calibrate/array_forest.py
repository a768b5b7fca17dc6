"""A forest of regression trees as plain arrays: all trees of many rows are walked together, level by level.

Nothing of scikit-learn is needed to predict, and no thread is started: for one row its forests take 20 ms of which
nearly all is the dispatch of jobs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array, Whole
from rue.core.stored import storable

Single = NDArray[np.float32]

WALKERS = 2**15  # rows times trees that are walked together: their arrays stay in the cache of a core
CROWD = 2  # walkers that have arrived are taken out where so many times fewer would go on


@storable
@dataclass(frozen=True)
class ArrayForest:
    """The nodes of all trees, one tree after the other. The right child is the node after the left one.

    A leaf is its own left child, with an infinite threshold: who has arrived stays.
    """

    feature: Whole = field(repr=False)  # (nodes,)
    threshold: Single = field(repr=False)  # (nodes,), rows with at most this value go left
    left: Whole = field(repr=False)  # (nodes,)
    value: Array = field(repr=False)  # (nodes, k)
    roots: Whole = field(repr=False)  # (trees,)

    @classmethod
    def of(cls, forest: Any) -> "ArrayForest":
        """Copy the trees of a fitted forest of scikit-learn."""
        trees = [_numbered(estimator.tree_) for estimator in forest.estimators_]
        sizes = np.array([len(tree.feature) for tree in trees])
        starts = np.cumsum(sizes) - sizes
        return cls(
            feature=np.concatenate([tree.feature for tree in trees]),
            threshold=np.concatenate([tree.threshold for tree in trees]),
            left=np.concatenate([tree.left + start for tree, start in zip(trees, starts, strict=True)]),
            value=np.concatenate([tree.value for tree in trees]),
            roots=starts,
        )

    @property
    def ends(self) -> NDArray[np.bool_]:
        """Whether a node is a leaf (nodes,)."""
        return np.asarray(self.left == np.arange(len(self.left)))

    def __call__(self, points: Single) -> Array:
        """The mean of the trees' leaves at points (m, p): (m, k)."""
        means = np.empty((len(points), self.value.shape[1]))
        for rows, nodes in self._walked(points):
            for column, values in enumerate(self.value.T):
                means[rows, column] = values.take(nodes).sum(0)
        return means / len(self.roots)

    def leaves(self, points: Single) -> Whole:
        """The nodes (m, trees) that points (m, p) end in."""
        found = np.empty((len(points), len(self.roots)), dtype=np.int64)
        for rows, nodes in self._walked(points):
            found[rows] = nodes.T
        return found

    def _walked(self, points: Single) -> Iterator[tuple[slice, Whole]]:
        """For blocks of rows, the nodes (trees, c) that they end in."""
        size = max(1, WALKERS // len(self.roots))
        for start in range(0, len(points), size):
            rows = slice(start, start + size)
            yield rows, self._ends(points[rows])

    def _ends(self, points: Single) -> Whole:
        """The nodes (trees, c) that a block of points (c, p) ends in; a tree's walkers lie side by side."""
        c = len(points)
        columns = np.ascontiguousarray(points.T).ravel()  # the value of feature f at row i is number f·c + i
        place = self.feature * c
        row = np.tile(np.arange(c), len(self.roots))
        ends = node = np.repeat(self.roots, c)
        going: Whole | None = None  # which walkers still walk; None for all
        while True:
            value = columns.take(place.take(node) + row)
            further = self.left.take(node)
            moved = further != node
            node = further + (value > self.threshold.take(node))
            if going is not None:
                ends[going] = node
            else:
                ends = node
            count = int(np.count_nonzero(moved))
            if not count:
                return ends.reshape(-1, c)
            if CROWD * count <= len(node):
                kept = np.flatnonzero(moved)
                going = kept if going is None else going[kept]
                node, row = node[kept], row[kept]


@dataclass(frozen=True)
class _Tree:
    """The nodes of one tree, as in `ArrayForest`."""

    feature: Whole
    threshold: Single
    left: Whole
    value: Array


def _numbered(tree: Any) -> _Tree:
    """Number the nodes of a tree of scikit-learn so that the children of a node lie side by side."""
    inner = np.flatnonzero(tree.children_left != tree.children_right)
    own = np.arange(tree.node_count)
    old = np.zeros(tree.node_count, dtype=np.int64)  # the node that gets a number; the root keeps zero
    old[1::2], old[2::2] = tree.children_left[inner], tree.children_right[inner]
    left, threshold = own.copy(), np.full(tree.node_count, np.inf, dtype=np.float32)
    number = np.empty_like(old)
    number[old] = own
    at = number[inner]
    left[at] = 1 + 2 * np.arange(len(inner))
    threshold[at] = below(tree.threshold[inner])
    feature = np.zeros(tree.node_count, dtype=np.int64)
    feature[at] = tree.feature[inner]
    return _Tree(feature, threshold, left, tree.value.reshape(tree.node_count, -1)[old])


def below(thresholds: Array) -> Single:
    """The largest single-precision numbers that do not exceed the thresholds: such numbers compare with both alike.

    >>> bool(below(np.array([0.1]))[0] <= 0.1)  # 0.1 itself would be rounded up
    True
    """
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
