"""Split conformal intervals: quantiles of |error| / spread over held-out rows."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array, Labels
from rue.core.errors import DataError, SettingError, ShapeError
from rue.core.guarantee import Guarantee
from rue.core.settings import check_level
from rue.core.stored import storable

SHOWN = 5  # labels named in a sentence; the others are counted


class Region(NamedTuple):
    """The words for a prediction region: its noun, and how one without limits is described."""

    noun: str
    unlimited: str


INTERVAL = Region("interval", "infinite")
CLASS_SET = Region("set", "of all classes")


@storable
@dataclass(frozen=True)
class HeldOutScores:
    """Scores (c,) = |error| / spread of c rows that neither model nor spread was fitted to, and their groups (c,)."""

    scores: Array
    group: Labels | None = None

    def __post_init__(self) -> None:
        _check_scores(self.scores)
        if self.group is not None and self.group.shape != self.scores.shape:
            raise ShapeError(
                f"group has shape {self.group.shape} and scores {self.scores.shape}, expected one label per score; "
                "pass the labels of the held-out rows"
            )
        if self.group is not None:
            _check_labels(self.group)

    def reach(self, level: float, group: Labels | None = None) -> float | Array:
        """Factor q of prediction ± q · spread: one for all rows, or (m,) by the group of each new row.

        It is infinite for rows whose group has too few held-out rows, or none.

        >>> held_out = HeldOutScores(np.array([1.0, 2.0, 5.0, 6.0]), group=np.array(["a", "a", "b", "b"]))
        >>> held_out.reach(0.5), held_out.reach(0.5, group=np.array(["b", "a", "c"])).tolist()
        (5.0, [6.0, 2.0, inf])
        """
        if group is None:
            return quantile(self.scores, level)
        members: dict[Hashable, list[float]] = defaultdict(list)
        for label, score in zip(self._checked(group).tolist(), self.scores.tolist(), strict=True):
            members[label].append(score)
        factors = {label: quantile(np.array(scores), level) for label, scores in members.items()}
        return np.array([factors.get(label, inf) for label in group.tolist()], dtype=np.float64)

    def guarantee(self, level: float, group: Labels | None = None, region: Region = INTERVAL) -> Guarantee:
        """The guarantee of regions prediction ± `reach(level, group)` · spread.

        >>> HeldOutScores(np.arange(99.0)).guarantee(0.9).split(" (")[1]
        'n = 99 held-out rows; expected coverage 90/100)'
        """
        needed, c = rows_needed(level), self.scores.size
        if group is not None:
            return self._guarantee_by_group(level, group, region)
        words = (
            f"guaranteed at least {percent(level)}, marginal over calibration and new rows, for exchangeable data "
            f"(n = {c} held-out rows; expected coverage {rank(c, level)}/{c + 1})"
        )
        if c < needed:
            words += f"; every {region.noun} is {region.unlimited}, finite ones need n = {needed}"
        return Guarantee(words, "guaranteed")

    def _guarantee_by_group(self, level: float, group: Labels, region: Region) -> Guarantee:
        needed, sizes = rows_needed(level), Counter(self._checked(group).tolist())
        small = {label: n for label, n in sizes.items() if n < needed}
        unseen = Counter(label for label in group.tolist() if label not in sizes)
        words = (
            f"guaranteed at least {percent(level)} in every group, marginal over its calibration and new rows, for "
            f"exchangeable data ({len(sizes)} groups; n = {min(sizes.values())} held-out rows in the smallest)"
        )
        if small:
            named = _listed(f"{label!r} (n = {n})" for label, n in small.items())
            words += (
                f"; {region.noun}s are {region.unlimited} where a group has fewer than the {needed} needed: {named}"
            )
        if unseen:
            rows = f"{unseen.total()} of {group.size} new rows"
            words += (
                f"; {region.noun}s are {region.unlimited} for {rows}, whose group has no held-out rows: "
                f"{_listed(map(repr, unseen))}"
            )
        return Guarantee(words, "guaranteed")

    def _checked(self, group: Labels) -> Labels:
        """The labels of the held-out rows; raises if the labels of new rows cannot be compared with them."""
        if self.group is None:
            raise SettingError(
                "group was asked for and the held-out scores have none; calibrate with the group of every held-out row"
            )
        if group.ndim != 1:
            raise ShapeError(
                f"group has shape {group.shape}, expected one label per new row (m,); pass a list of labels"
            )
        _check_labels(group)
        kinds = {self.group.dtype.kind, group.dtype.kind}
        if "O" not in kinds and len({kind in "US" for kind in kinds}) == 2:  # text and numbers
            raise DataError(
                f"labels of new rows are {group.dtype} and those of held-out rows {self.group.dtype}, expected two "
                "that can be equal; pass both as text or both as numbers"
            )
        return self.group


def quantile(scores: Array, level: float) -> float:
    """The ⌈level · (c + 1)⌉-th smallest of scores (c,), infinite where there are too few.

    >>> quantile(np.arange(1.0, 10.0), 0.8), quantile(np.arange(1.0, 10.0), 0.95)
    (8.0, inf)
    """
    _check_scores(scores)
    position = rank(scores.size, level)
    return float(np.partition(scores, position - 1)[position - 1]) if position <= scores.size else inf


def rank(count: int, level: float) -> int:
    """⌈level · (count + 1)⌉, without rounding errors of floating point.

    >>> rank(9, 0.9), rank(9, 0.1 + 0.2), rank(10, 0.9)
    (9, 3, 10)
    """
    return ceil(_share(level) * (count + 1))


def rows_needed(level: float) -> int:
    """The smallest number of scores whose quantile at this level is finite.

    >>> rows_needed(0.9), rows_needed(0.95)
    (9, 19)
    """
    share = _share(level)
    return ceil(share / (1 - share))


def percent(level: float) -> str:
    """A level as people write it.

    >>> percent(0.975)
    '97.5 %'
    """
    return f"{100 * level:g} %"


def require(name: str, values: Array, good: NDArray[np.bool_], wanted: str) -> None:
    """Raise for the first value that is not good, with the number of such values; `good` has the shape of `values`."""
    if not good.all():
        where = np.unravel_index(int(np.argmin(good)), good.shape)
        at = ", ".join(str(int(index)) for index in where)
        raise DataError(f"{name} is {values[where]:g} at [{at}] ({(~good).sum()} of {good.size}), expected {wanted}")


def _share(level: float) -> Fraction:
    """The level as the simple fraction the user meant: 0.1 + 0.2 becomes 3/10."""
    check_level("level", level)
    meant = Fraction(float(level)).limit_denominator(10**9)  # changes a level by less than 1e-9
    return meant if 0 < meant < 1 else Fraction(float(level))


def _check_scores(scores: Array) -> None:
    if scores.ndim != 1:
        raise ShapeError(f"scores have shape {scores.shape}, expected one per row (c,); pass one output at a time")
    if scores.size == 0:
        raise DataError("there are no scores, expected one per held-out row; hold rows out")
    require("score", scores, np.isfinite(scores), "a finite number; repair the row, or add noise where its spread is 0")
    require("score", scores, scores >= 0, "at least zero; pass |error| / spread, not error")


def _check_labels(group: Labels) -> None:
    missing = sum(label is None or label != label for label in group.tolist())  # nan is not equal to itself
    if missing:
        raise DataError(f"{missing} of {group.size} rows have no group; give each a label, or calibrate without groups")


def _listed(names: Iterable[Hashable]) -> str:
    """The first few names, and how many more there are."""
    every = [str(name) for name in names]
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more
