"""Walk stored trees, all rows at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Whole


def walk(left: Whole, right: Whole, goes_left: Callable[[Whole, Whole], NDArray[np.bool_]], n: int) -> Whole:
    """The leaf (n,) each of n rows ends in; children are inner nodes, or ~leaf where negative.

    `goes_left(nodes, rows)` answers for pairs of an inner node and a row.

    >>> walk(np.array([-1]), np.array([-2]), lambda nodes, rows: rows < 1, 2)  # one split: the first row goes left
    array([0, 1])
    """
    if not len(left):
        return np.zeros(n, dtype=np.int64)
    node = np.zeros(n, dtype=np.int64)
    rows = np.arange(n)
    while len(rows):
        at = node[rows]
        node[rows] = np.where(goes_left(at, rows), left[at], right[at])
        rows = rows[node[rows] >= 0]
    return ~node
