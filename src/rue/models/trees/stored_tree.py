"""One tree of a stored model: its nodes as arrays, checked once, and walked for all rows of a table together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array, Whole
from rue.core.errors import DataError, ModelError, RueError

CATEGORICAL, MISSING_LEFT, ZERO_MISSING, NAN_MISSING = 1, 2, 4, 8  # bits of `kind`, numbered as LightGBM does
ZERO = 1e-35  # LightGBM takes numbers up to this for zero
LARGEST = float(np.finfo(np.float32).max)  # LightGBM and XGBoost train on float32 targets: no leaf value is larger
WORD = 32  # categories in one number of `bits`
DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # what damage causes
SHOWN = 200  # at most so many characters of an error about a damaged file, which may repeat much of the file


@dataclass(frozen=True)
class StoredTree:
    """A tree of s splits and l leaves; a ValueError refuses one in which a row might not end in a leaf.

    A child is the number of a split, or ~number of a leaf. One split at 0.5, with a leaf on either side:

    >>> split = np.array([-1]), np.array([-2]), np.array([0]), np.array([0.5]), np.array([0])
    >>> StoredTree(*split, values=np.array([-1.0, 1.0]), width=1).leaf(np.array([[0.5], [0.6]]))
    array([0, 1])
    """

    left: Whole = field(repr=False)  # (s,)
    right: Whole = field(repr=False)  # (s,)
    feature: Whole = field(repr=False)  # (s,)
    threshold: Array = field(repr=False)  # (s,), the largest number that goes left; of categories, a place in `bounds`
    kind: Whole = field(repr=False)  # (s,), bits: see the constants
    values: Array = field(repr=False)  # (l,)
    bounds: Whole = field(default_factory=lambda: np.zeros(1, dtype=np.int64), repr=False)  # of sets, within `bits`
    bits: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, dtype=np.uint32), repr=False)
    width: int = field(kw_only=True)  # number of columns of the table it was grown on

    def __post_init__(self) -> None:
        """Check everything that `leaf` relies on."""
        splits = len(self.left)
        same = all(len(part) == splits for part in (self.right, self.feature, self.threshold, self.kind))
        _need(same and len(self.values) > 0, "the arrays of a tree differ in length")
        _need(np.abs(self.values) <= LARGEST, f"a leaf value is not a number within ±{LARGEST:.1e}")
        _need((self.feature >= 0) & (self.feature < self.width), f"a split is on none of the {self.width} columns")
        _need(~np.isnan(self.threshold), "a threshold is no number")  # infinite: missing values against all others
        _need((self.kind >= 0) & (self.kind < ZERO_MISSING + NAN_MISSING), "a split is of an unknown kind")
        self._check_children()
        self._check_categories()

    def _check_children(self) -> None:
        """Every split but the first has one parent, which comes before it, and no leaf has two: there is no cycle."""
        splits = np.arange(len(self.left))
        for children in (self.left, self.right):
            _need((children < 0) | (children > splits), "a child stands before its parent")
        children = np.sort(np.concatenate([self.left, self.right]))
        leaves = children[children < 0]
        _need(np.array_equal(children[len(leaves) :], splits[1:]), "the splits of a tree are not connected")
        _need(
            (leaves >= -len(self.values)) & (np.diff(leaves, append=0) > 0), "two splits lead to one leaf, or to none"
        )

    def _check_categories(self) -> None:
        sets = self.threshold[self._categorical]
        ends = self.bounds[:1].tolist() == [0] and self.bounds[-1:].tolist() == [len(self.bits)]
        _need(ends and bool((np.diff(self.bounds) > 0).all()), "the sets of categories do not follow one another")
        _need(np.isin(sets, np.arange(len(self.bounds) - 1)), "a split is on no set of categories")

    @cached_property
    def _categorical(self) -> NDArray[np.bool_]:
        return self.kind & CATEGORICAL > 0

    def leaf(self, rows: NDArray[np.floating]) -> Whole:
        """The leaf (n,) of each row (n, p)."""
        at = np.full(len(rows), 0 if len(self.left) else -1)  # a split, or ~leaf
        inside = np.flatnonzero(at >= 0)
        while len(inside):
            split = at[inside]
            goes_left = self._goes_left(split, rows[inside, self.feature[split]])
            at[inside] = np.where(goes_left, self.left[split], self.right[split])
            inside = inside[at[inside] >= 0]
        return ~at

    def _goes_left(self, split: Whole, value: NDArray[np.floating]) -> NDArray[np.bool_]:
        goes_left = value <= self.threshold[split]
        for which, decide in ((~(np.abs(value) > ZERO), self._zero_or_nan), (self._categorical[split], self._in_set)):
            if which.any():
                goes_left[which] = decide(split[which], value[which])
        return goes_left

    def _zero_or_nan(self, split: Whole, value: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Whether zeros and NaN go left, which may count as missing; NaN is zero where it does not count as missing."""
        kind, nan = self.kind[split], np.isnan(value)
        missing = (kind & ZERO_MISSING > 0) | (nan & (kind & NAN_MISSING > 0))
        return np.where(missing, kind & MISSING_LEFT > 0, np.where(nan, 0.0, value) <= self.threshold[split])

    def _in_set(self, split: Whole, value: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Whether categories are in the sets of their splits; fractions are cut off, as LightGBM does."""
        category = np.nan_to_num(value, nan=-1.0).clip(-1.0, 2.0**31).astype(np.int64)
        which = self.threshold[split].astype(np.int64)
        place = self.bounds[which] + category // WORD
        known = (category >= 0) & (place < self.bounds[which + 1])
        word = self.bits[place[known]].astype(np.int64)
        known[known] = word >> (category[known] % WORD) & 1 > 0
        return known


def leaves(trees: Sequence[StoredTree], rows: NDArray[np.floating], source: str) -> Whole:
    """The leaf of each row in each tree (n, T)."""
    width = trees[0].width
    if rows.shape[1] != width:
        raise DataError(f"inputs have {rows.shape[1]} columns of numbers, {source} was trained on {width}")
    return np.stack([tree.leaf(rows) for tree in trees], axis=1)


def bounded(value: str | float) -> float:
    """A setting of a stored model as a number that float32 can hold.

    >>> bounded("0.1")
    0.1
    """
    number = float(value)
    if not abs(number) <= LARGEST:
        raise ValueError(f"{value!r} is not a number within ±{LARGEST:.1e}")
    return number


@contextmanager
def damage_refused(source: str, library: str) -> Iterator[None]:
    """Turn the errors that a damaged file causes in its reader into one error of `rue`."""
    try:
        yield
    except RueError:
        raise
    except (*DAMAGE, MemoryError) as error:
        fault = f"{type(error).__name__}: {error}"[:SHOWN]
        raise ModelError(
            f"{source} is no {library} model, or a damaged one ({fault}); save it again with booster.save_model"
        ) from error


@contextmanager
def place_named(place: str) -> Iterator[None]:
    """Name the place in a file, such as a tree, in the errors that damage there causes."""
    try:
        yield
    except RueError:
        raise
    except DAMAGE as error:
        raise ValueError(f"{place}: {error}") from error


@contextmanager
def file_named(path: Path) -> Iterator[None]:
    """Name the file in every error of `rue`."""
    try:
        yield
    except RueError as error:
        if path.name in str(error):
            raise
        raise type(error)(f"{path.name}: {error.finding}", error.advice) from error


def _need(holds: bool | NDArray[np.bool_], fault: str) -> None:
    if not np.all(holds):
        raise ValueError(fault)
