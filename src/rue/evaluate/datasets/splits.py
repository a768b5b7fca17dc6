"""Which rows train and which test: the benchmarks' random splits, and splits that leave a region out."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rue.core.errors import DataError, SettingError, ShapeError

RowNumbers = NDArray[np.int64]

STANDARD_SEED = 1  # of the benchmarks' splits


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers to train on and row numbers to test on; together every row, each once."""

    train: RowNumbers = field(repr=False)
    test: RowNumbers = field(repr=False)


def standard_splits(n: int, count: int = 20, train: int | None = None, seed: int = STANDARD_SEED) -> list[Split]:
    """The splits of the UCI regression benchmarks (Hernández-Lobato and Adams, 2015) for n rows.

    Nine tenths train; `train` trains on that many rows of the same permutations instead. Another `seed` gives other
    splits of the same kind.

    >>> [len(split.train) for split in standard_splits(506, count=2)]
    [455, 455]
    """
    rows = round(0.9 * n) if train is None else train
    if not 1 <= rows < n:
        raise SettingError(f"{rows} of {n} rows to train on leave no row on one side; train must lie in 1 to n - 1")
    if count < 1:
        raise SettingError(f"count must be at least 1 split, got {count}")
    random = np.random.RandomState(seed)  # the benchmarks' generator, away from the global state
    permutations = [random.choice(n, n, replace=False) for _ in range(count)]
    return [Split(permutation[:rows], permutation[rows:]) for permutation in permutations]


def gap_split(feature: ArrayLike) -> Split:
    """Test on the middle third of the rows by rank of one feature (n,), train below and above.

    >>> gap_split([10, 20, 30, 40, 50, 60]).test
    array([2, 3])
    """
    low, middle, high = _parts(feature, 3)
    return Split(np.flatnonzero(low | high), np.flatnonzero(middle))


def tail_split(feature: ArrayLike) -> Split:
    """Test on the lowest and the highest sixth of the rows by rank of one feature (n,), train between.

    >>> tail_split([10, 20, 30, 40, 50, 60]).test
    array([0, 5])
    """
    low, middle, high = _parts(feature, 6)
    return Split(np.flatnonzero(middle), np.flatnonzero(low | high))


def _parts(feature: ArrayLike, nth: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """The lowest nth, the middle and the highest nth of the rows.

    Equal values share the middle of their ranks, so that no value is on two sides.
    """
    values = np.asarray(feature, dtype=np.float64)
    if values.ndim != 1:
        raise ShapeError(f"a split follows one feature, shape (n,), got {values.shape}; pass a column such as X[:, 0]")
    if not np.isfinite(values).all():
        raise DataError(f"{(~np.isfinite(values)).sum()} of {len(values)} values are not finite and have no rank")
    _, value_of, rows_of = np.unique(values, return_inverse=True, return_counts=True)
    below = (2 * np.cumsum(rows_of) - rows_of)[value_of]  # twice the middle rank, whole numbers from 1 to 2n - 1
    low, high = nth * below < 2 * len(values), nth * (2 * len(values) - below) < 2 * len(values)
    middle = ~low & ~high
    if not (low.any() and middle.any() and high.any()):
        raise DataError(
            f"the feature has no low, middle and high part to tell apart: {len(rows_of)} different values, the most "
            f"frequent in {rows_of.max(initial=0)} of {len(values)} rows; choose a feature with more values"
        )
    return low, middle, high
