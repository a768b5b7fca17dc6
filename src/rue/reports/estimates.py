"""Means and shares of audited rows with 95 % intervals: exact, by Student's t, or by resampling the rows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rue.core.arrays import Array
from rue.core.progress import track
from rue.evaluate import metrics as evaluate
from rue.reports.phrases import number, percent

RESAMPLES = 1000
FEWEST = 10  # with fewer rows a bootstrap interval would be far too narrow
CELLS = 2**21  # so many resampled counts are held at once
SEED = 0


class Measurement(NamedTuple):
    """A number of n rows, with the ends of its 95 % interval; None where there is none."""

    value: float | None
    low: float | None
    high: float | None
    n: int

    def __str__(self) -> str:
        limits = "" if self.limits is None else f"{self.limits}, "
        return f"{number(self.value)} ({limits}n = {self.n})"

    @property
    def limits(self) -> str | None:
        """The interval in words; None where there is none."""
        return None if self.low is None or self.high is None else f"{number(self.low)} to {number(self.high)}"

    @property
    def percent(self) -> str:
        """A share with its interval, all in per cent.

        >>> Measurement(0.94, 0.892, 0.975, 142).percent
        '94 % (89 % to 98 %, n = 142)'
        """
        if self.value is None:
            return f"not known (n = {self.n})"
        return f"{percent(self.value)} ({self.percent_limits})"

    @property
    def percent_limits(self) -> str:
        """The interval in per cent and the number of rows, or that number alone."""
        limits = "" if self.low is None or self.high is None else f"{percent(self.low)} to {percent(self.high)}, "
        return f"{limits}n = {self.n}"

    def excludes(self, value: float | None) -> bool:
        """Whether a value lies outside of the interval."""
        if value is None or self.low is None or self.high is None:
            return False
        return not self.low <= value <= self.high

    def columns(self, prefix: str = "") -> dict[str, float | int | None]:
        """Value, limits and n as columns of a table's row."""
        return {f"{prefix}{name}": value for name, value in self._asdict().items()}


def share(flags: ArrayLike) -> Measurement:
    """The share of flags (m,) that are set, with exact (Clopper–Pearson) limits.

    >>> share([True, True]).high, round(share([True, True]).low ** 2, 6)  # low² = 0.025
    (1.0, 0.025)
    """
    marked = np.asarray(flags, dtype=np.float64)
    if not marked.size:
        return Measurement(None, None, None, 0)
    return Measurement(*evaluate.coverage(marked, np.ones_like(marked), np.ones_like(marked)))


def mean(values: ArrayLike) -> Measurement:
    """The mean of values (m,) with Student's t interval: for groups too small to resample.

    >>> mean([1.0])
    Measurement(value=1.0, low=None, high=None, n=1)
    """
    from scipy.stats import t

    numbers = np.asarray(values, dtype=np.float64)
    n = numbers.size
    if n < 2:
        return Measurement(float(numbers[0]) if n else None, None, None, n)
    middle, reach = float(numbers.mean()), float(t.ppf(0.975, n - 1) * numbers.std(ddof=1) / np.sqrt(n))
    low = max(middle - reach, 0.0) if numbers.min() >= 0 else middle - reach
    return Measurement(middle, low, middle + reach, n)


def resampled(value: float, drawn: Array, n: int) -> Measurement:
    """A number with the middle 95 % of its values in the resamples (r,); without limits where there are few rows."""
    finite = drawn[np.isfinite(drawn)]
    if n < FEWEST or not finite.size or not np.isfinite(value):
        return Measurement(value if np.isfinite(value) else None, None, None, n)
    low, high = np.percentile(finite, (2.5, 97.5))
    return Measurement(value, float(low), float(high), n)


def resampled_means(columns: Array) -> Array:
    """The means of columns (m, q) when the rows are drawn again, with replacement: (r, q)."""
    m = len(columns)
    return np.concatenate([counts @ columns / m for counts in resamples(m)])


def resamples(m: int) -> Iterator[Array]:
    """How often each of m rows is drawn, in blocks (c, m) that are the same on every pass."""
    source = np.random.default_rng(SEED)
    together = max(1, CELLS // m)
    sizes = [min(together, RESAMPLES - start) for start in range(0, RESAMPLES, together)]
    for c in track("bootstrap", sizes, total=len(sizes)):
        drawn = source.integers(m, size=(c, m)) + m * np.arange(c)[:, None]
        yield np.bincount(drawn.ravel(), minlength=c * m).reshape(c, m).astype(np.float64)


@dataclass(frozen=True)
class Detection:
    """How well a score (m,) separates rows that failed from the others, by each of t standards (m, t)."""

    order: NDArray[np.int64] = field(repr=False)  # (m,), by rising score
    group: NDArray[np.int64] = field(repr=False)  # (m,), the number of each row's score, in that order
    last: NDArray[np.int64] = field(repr=False)  # the last row of each group
    failed: Array = field(repr=False)  # (m, t), in that order

    @classmethod
    def of(cls, score: ArrayLike, failed: NDArray[np.bool_]) -> "Detection":
        """Sort the rows once."""
        values = np.asarray(score, dtype=np.float64)
        order = np.argsort(values, kind="stable")
        group = np.unique(values[order], return_inverse=True)[1]
        last = np.flatnonzero(np.diff(group, append=group[-1] + 1))
        return cls(order, group, last, failed[order].astype(np.float64))

    def mean_auc(self, counts: Array) -> Array:
        """The AUC, averaged over the standards, for rows drawn `counts` (c, m) times: (c,).

        A failed row wins against the weight below it and half of the tied weight; failed rows alone have P²/2 of that.
        """
        weight = counts[:, self.order]
        upto = np.cumsum(weight, axis=1)[:, self.last]
        beside = np.diff(upto, axis=1, prepend=0)
        below = (upto - beside / 2)[:, self.group]
        failing = weight @ self.failed
        passing = weight.sum(axis=1, keepdims=True) - failing
        pairs = failing * passing
        won = (weight * below) @ self.failed - failing**2 / 2
        auc = np.divide(won, pairs, out=np.full_like(won, np.nan), where=pairs > 0)
        known = np.isfinite(auc)
        total = np.where(known, auc, 0.0).sum(axis=1)
        return np.divide(total, known.sum(axis=1), out=np.full(len(auc), np.nan), where=known.any(axis=1))
