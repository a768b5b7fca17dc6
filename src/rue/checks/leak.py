"""Is the target among the inputs? Errors of a model that is told the answer say nothing of rows where it is unknown."""

from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from math import factorial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rue.checks.check import Check, Senseless
from rue.checks.subject import Subject
from rue.core.arrays import Array, Whole
from rue.core.derivatives import outputs
from rue.core.errors import RueError
from rue.core.model import Model
from rue.core.nested import leaves, take
from rue.data.features import coordinates
from rue.models.tables import numbered

NAME = "leak"
FIRST_LOOK = 64  # rows in which all columns are compared with the target; those that agree, in all rows
LINEAR = 3e-3  # a residual of a straight line, in deviations of the target: a correlation of one up to 5e-6
CHANCE = 1e-6  # green where some column agrees so by chance with more than this probability
CELLS = 2**21  # inputs that are no table are laid side by side up to so many numbers
LEVELS = 5  # values that a target has at least where a straight line through them is no chance
COMPLETE = 0.9  # the share of a column's cells that must be known
LIMITS = (
    "red where a column that the model uses is the target, is it in other units, has its order in all rows (where "
    "the rows do not stand in that order, as those of a series), tells its classes one to one, or is missing where it "
    f"has one value, and chance does that in less than one of {1 / CHANCE:.0e} tables of this size"
)
_ADVICE = (
    "the model was told the answer: its errors here are far smaller than where the target is not known yet; take the "
    "column out, train again, and audit that"
)


def leak(subject: Subject) -> Check | str:
    """Look for a column that is the target: itself, in other units, in the same order, or one to one with its classes.

    A table of one column is left alone: its relation to the target is what is to be learnt, as in a first try on a
    line without noise. Of several columns, one that tells the target without any error is reported, also where the
    data were made so. Several targets are left alone, because networks may learn to repeat their inputs.
    """
    target = _target(subject)
    if target is None:
        return Senseless("there are several targets for a row, or none that is a column of numbers")
    table = _table(subject)
    if table is None or table.width < 2:
        return Senseless("the inputs are no table of several columns: what they tell of the target is to be learnt")
    rows = target.spread()
    for place in _suspects(*table.read(rows), target.at(rows)):
        column, level = table.column(place)
        how = _relation(column, level, target, table.width)
        if how is not None and table.used(subject.model, place, rows):
            found = f"{table.called(place)} {how} in all of n = {len(column)} training rows"
            return Check(NAME, "red", 1.0, found, LIMITS, _ADVICE)
    return Check(NAME, "green", 0.0, f"none of p = {table.width} columns tells the target by itself", LIMITS, "")


@dataclass(frozen=True)
class _Target:
    """The targets (n,), and whether they name classes."""

    values: Array
    classes: bool

    @cached_property
    def order(self) -> Whole:
        """The rows by their targets."""
        return np.argsort(self.values, kind="stable")

    @cached_property
    def starts(self) -> Whole:
        """Where, among the ordered rows, each different target begins."""
        return np.flatnonzero(np.diff(self.values[self.order], prepend=np.nan) != 0)

    def spread(self) -> Whole:
        """At most twice `FIRST_LOOK` rows: evenly spread over the ordered targets, and one of each of some values."""
        even = np.linspace(0, len(self.order) - 1, min(FIRST_LOOK, len(self.order))).astype(np.int64)
        return np.asarray(self.order[np.union1d(even, self.starts[:FIRST_LOOK])])

    def at(self, rows: Any) -> "_Target":
        """The targets of some rows."""
        return _Target(self.values[rows], self.classes)

    def chance(self) -> float:
        """log of the probability that values in a random order are one to one with the targets."""
        from scipy.special import gammaln

        n = len(self.values)
        counts = np.diff(self.starts, append=n)
        ways = gammaln(len(counts) + 1) if self.classes else np.log(2.0)
        return float(ways + gammaln(counts + 1).sum() - gammaln(n + 1))


def _target(subject: Subject) -> _Target | None:
    parts = [leaves(batch.targets) for batch in subject.data.batches()]
    if any(len(part) != 1 for part in parts):
        return None
    values = torch.cat([part[0].detach().cpu().double().reshape(len(part[0]), -1) for part in parts])
    classes = subject.model.family.decision is not None
    if values.shape[1] > 1 and not (classes and bool((values.sum(1) == 1).all()) and bool((values.amax(1) == 1).all())):
        return None
    one = values[:, 0] if values.shape[1] == 1 else values.argmax(1).double()
    return _Target(one.numpy(), classes)


@dataclass(frozen=True)
class _Columns:
    """A frame or an array (n, p) as the user gave it, or all parts of the inputs side by side."""

    cells: Any = field(repr=False)
    given: bool  # the model can read it

    @property
    def width(self) -> int:
        return int(self.cells.shape[1])

    def read(self, rows: Whole) -> tuple[Array, NDArray[np.bool_]]:
        """All columns at some rows, and which of them are levels."""
        return numbered(self._at(rows))

    def column(self, place: int) -> tuple[Array, bool]:
        """One column of all rows, and whether it is of levels."""
        values, level = numbered(self.cells.iloc[:, [place]] if self._frame else self.cells[:, [place]])
        return values[:, 0], bool(level[0])

    def called(self, place: int) -> str:
        """The column in words."""
        return f"column {self.cells.columns[place]!r}" if self._frame else f"column {place}"

    def used(self, model: Model, place: int, rows: Whole) -> bool:
        """Whether outputs change with the column: a pipeline may leave it out."""
        if not self.given:
            return True
        before, after = self._at(rows), copy(self._at(rows))
        if self._frame:
            after.isetitem(place, before.iloc[::-1, place].array)
        else:
            after[:, place] = before[list(range(len(before)))[::-1], place]  # a tensor takes no step of −1
        try:
            return not torch.equal(outputs(model, model.read(before)), outputs(model, model.read(after)))
        except RueError:
            return True

    @property
    def _frame(self) -> bool:
        return hasattr(self.cells, "iloc")

    def _at(self, rows: Whole) -> Any:
        return self.cells.iloc[rows] if self._frame else self.cells[rows]


def _table(subject: Subject) -> _Columns | None:
    """The inputs as one table; None where they are not, or too large to be laid side by side."""
    raw = subject.data.source.X
    raw = raw.to_pandas() if hasattr(raw, "to_pandas") else raw  # polars
    if hasattr(raw, "iloc") or isinstance(raw, np.ndarray | torch.Tensor):
        return _Columns(raw, given=True) if raw.ndim == 2 else None
    first = coordinates(take(next(subject.data.batches()).inputs, slice(0, 1)))
    if hasattr(raw, "toarray") or first.size * subject.data.n > CELLS:
        return None
    parts = [coordinates(batch.inputs) for batch in subject.data.batches()]
    return _Columns(np.concatenate(parts), given=False) if len({part.shape[1] for part in parts}) == 1 else None


def _suspects(columns: Array, level: NDArray[np.bool_], target: _Target) -> list[int]:
    """The columns (p,) that agree with the target in the rows (m, p) of a first look."""
    whole = np.isfinite(columns).all(axis=0)
    sure = whole & (_one_to_one(columns, target) if target.classes else _ordered(columns, target) & ~level)
    if not target.classes:
        sure |= whole & ~level & (_bent(columns, target.values) < 2 * LINEAR)  # of few rows
    gaps = np.flatnonzero(~whole).tolist()
    gaps = [place for place in gaps if _relation(columns[:, place], bool(level[place]), target, 0)]
    return [*np.flatnonzero(sure).tolist(), *gaps]


def _relation(column: Array, level: bool, target: _Target, width: int) -> str | None:
    """What a column (n,) is to the target, in words; None where that is nothing, or by chance among `width` columns.

    An order alone is none where the rows stand in it, as those of a series do that only grows, nor where targets and
    column have few values: both may be facts of ten towns that are there in many rows.
    """
    known = np.isfinite(column)
    if not known.all() and _tells(known, target, width):
        return "is missing, or known, just where the target has one value,"
    if known.mean() < COMPLETE:
        return None
    column, target = column[known][:, None], target if known.all() else target.at(known)
    if width and target.chance() + np.log(width) > np.log(CHANCE):
        return None
    if target.classes:
        return "tells the classes of the target one to one" if _one_to_one(column, target)[0] else None
    if level:
        return None
    if np.array_equal(column[:, 0], target.values):
        return "is the target itself"
    levels = len(target.starts)
    if levels >= LEVELS and _bent(column, target.values)[0] < LINEAR:
        return "is the target in other units"
    if width and width * 2 / factorial(min(levels, 100)) > CHANCE:
        return None
    steps = np.diff(column[:, 0])
    in_time = bool((steps >= 0).all() or (steps <= 0).all())
    return "has the order of the target" if _ordered(column, target)[0] and not (width and in_time) else None


def _tells(known: NDArray[np.bool_], target: _Target, width: int) -> bool:
    """Whether the cells that are known (n,), or those that are not, are those of one value of the target."""
    from scipy.special import gammaln

    n, some = len(known), int(known.sum())
    ways = gammaln(n + 1) - gammaln(some + 1) - gammaln(n - some + 1)
    if width and np.log(2 * width * len(target.starts)) - ways > np.log(CHANCE):
        return False
    here, there = (np.unique(target.values[side]) for side in (known, ~known))
    return min(len(here), len(there)) == 1 and not np.isin(here, there).any()


def _one_to_one(columns: Array, target: _Target) -> NDArray[np.bool_]:
    """Which columns (m, p) have one value for each class, and another for another."""
    least, same = _by_target(columns, target)
    return same & (np.diff(np.sort(least, axis=0), axis=0) > 0).all(axis=0)


def _ordered(columns: Array, target: _Target) -> NDArray[np.bool_]:
    """Which columns (m, p) grow, or fall, wherever the target grows, and stay where it stays."""
    least, same = _by_target(columns, target)
    steps = np.diff(least, axis=0)
    return np.asarray(same & ((steps > 0).all(axis=0) | (steps < 0).all(axis=0)))


def _by_target(columns: Array, target: _Target) -> tuple[Array, NDArray[np.bool_]]:
    """The least value of each column (m, p) for each different target, and where that is the only one (p,)."""
    ordered = columns[target.order]
    least = np.minimum.reduceat(ordered, target.starts, axis=0)
    return least, (least == np.maximum.reduceat(ordered, target.starts, axis=0)).all(axis=0)


def _bent(columns: Array, target: Array) -> Array:
    """The residual of the best straight line through each column (m, p), in deviations of the target."""
    centred, wanted = columns - columns.mean(axis=0), target - target.mean()
    with np.errstate(all="ignore"):
        slope = wanted @ centred / np.square(centred).sum(axis=0)
        residual = np.sqrt(np.square(wanted[:, None] - slope * centred).sum(axis=0) / np.square(wanted).sum())
    return np.asarray(np.where(np.isfinite(residual), residual, np.inf))
