"""Are training rows there more than once? A row that is left out while its copy stays is no new row."""

from math import gcd

import numpy as np
from numpy.typing import NDArray

from rue.checks.check import ROWS, Check, Light, Senseless
from rue.checks.subject import Subject
from rue.core.nested import leaves
from rue.data.features import coordinates

NAME = "copies"
FEW = 0.02  # up to this share of rows with a copy left-out errors are hardly too small
MANY = 0.2  # from this share on intervals are much too narrow
DISTINCT = 0.5  # a column with so many values per row is a measurement: rows do not agree in it by chance
LOOKED_AT = 2000  # different rows whose columns are counted
SEVERAL = 5  # fewer rows with a copy do not matter
DIFFERENT = 10  # with fewer different rows than this, nothing can be said
LIMITS = (
    f"green where at most {FEW:.0%} of the rows, or fewer than {SEVERAL}, equal another in inputs and target, or where "
    f"few different values make that happen by chance; red from {MANY:.0%}; amber between"
)


def copies(subject: Subject) -> Check | str:
    """Count the rows that equal one of another resampling unit in inputs and targets, to single precision."""
    data = subject.data
    if data.source.group is not None:
        return Senseless("whole groups are left out and resampled")
    prints, widths = [], set()
    for batch in data.batches():
        rows = _numbers(coordinates(batch.inputs), *(leaf.detach().cpu().numpy() for leaf in leaves(batch.targets)))
        widths.add(rows.shape[1])
        prints.append(_prints(rows))
    if len(widths) > 1:
        return (
            "batches differ in their number of features, as texts padded batch by batch do: equal rows cannot be told"
        )
    unit, first = np.unique(data.unit.numpy(), return_index=True)
    _, where, times = np.unique(np.concatenate(prints)[first], return_inverse=True, return_counts=True)
    several = times[where] > 1
    share = float(several.mean())
    light: Light = "green"
    enough = several.sum() >= SEVERAL and len(times) >= DIFFERENT
    if enough and share > FEW and (_common(times) or _measured(subject, first[np.unique(where, return_index=True)[1]])):
        light = "red" if share >= MANY else "amber"
    found = f"{int(several.sum())} of n = {len(unit)} training rows ({share:.1%}) equal another in inputs and target"
    if several.any():
        found += f", the commonest {int(times.max())} times"
    rows_of = () if light == "green" else tuple(data.ids[first[several]].tolist()[:ROWS])
    return Check(NAME, light, share, found, LIMITS, "" if light == "green" else _ADVICE, rows_of)


_ADVICE = (
    "left-out errors and intervals are too small where a copy of the row stays; take copies out, give all copies of a "
    "row one group, rue.Data(X, y, group=...), or say a weight= instead"
)


def _numbers(*parts: NDArray[np.generic]) -> NDArray[np.float32]:
    """All numbers of a row side by side, in single precision; −0 is 0, and every NaN the same."""
    with np.errstate(over="ignore"):
        rows = np.concatenate([part.reshape(len(part), -1).astype(np.float32) for part in parts], axis=1) + 0.0
    rows[np.isnan(rows)] = np.nan
    return np.ascontiguousarray(rows)


def _prints(rows: NDArray[np.float32]) -> NDArray[np.uint64]:
    """A number for every row, equal for equal rows and, but for one in 10¹⁹ pairs, for no others."""
    factors = np.random.default_rng(0).integers(0, 2**64, rows.shape[1], np.uint64) | np.uint64(1)
    bits = rows.view(np.uint32).astype(np.uint64)
    mixed = (bits + np.uint64(0x9E3779B97F4A7C15)) * factors
    mixed ^= mixed >> np.uint64(29)
    total: NDArray[np.uint64] = (mixed * factors).sum(axis=1, dtype=np.uint64)
    return total


def _common(times: NDArray[np.int64]) -> bool:
    """Whether every row is there as often, or all numbers of copies are multiples of one: a table read twice."""
    return gcd(*times.tolist()) > 1


def _measured(subject: Subject, rows: NDArray[np.int64]) -> bool:
    """Whether some column has so many values among these different rows that whole rows cannot agree by chance."""
    looked_at = set(rows[:LOOKED_AT].tolist())
    kept = []
    for batch in subject.data.batches():
        here = [row - batch.rows.start for row in range(batch.rows.start, batch.rows.stop) if row in looked_at]
        targets = (leaf.detach().cpu().numpy()[here] for leaf in leaves(batch.targets))
        kept.append(_numbers(coordinates(batch.inputs)[here], *targets))
    columns = np.concatenate(kept).T
    return any(len(np.unique(column)) >= DISTINCT * columns.shape[1] for column in columns)
