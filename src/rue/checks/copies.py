"""Are training rows there more than once? A row that is left out while its copy stays is no new row."""

from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.checks.check import ROWS, Check, Light
from rue.checks.near_copies import Cloud, near_copies
from rue.checks.prints import DISTINCT, LOOKED_AT, Prints, row_prints
from rue.checks.repeats import repeats
from rue.checks.subject import Subject
from rue.core.arrays import Array
from rue.core.concepts import Batch, Family
from rue.core.nested import leaves, take
from rue.data.features import some_coordinates
from rue.data.rows import Rows

NAME = "copies"
FEW = 0.02  # up to this share of rows with a copy left-out errors are hardly too small
MANY = 0.2  # from this share on intervals are much too narrow
SEVERAL = 5  # fewer rows with a copy do not matter
DIFFERENT = 10  # with fewer different rows than this, nothing can be said
MOST = 256  # numbers of a row that are compared: more are those of pictures or texts, and differ nearly everywhere
CELLS = 2**21  # up to so many numbers, rows that differ in one column alone are searched for too
LIMITS = (
    f"green where at most {FEW:.0%} of the rows, or fewer than {SEVERAL}, equal another in inputs and target, or where "
    f"few different values make that happen by chance; red from {MANY:.0%}; amber between, and where so many are equal "
    "but for one column, or lie ten times nearer to another than measurements do, or have the inputs of another and a "
    "target far more like its than others are"
)


def copies(subject: Subject) -> Check | str:
    """Count the rows that equal one of another resampling unit in inputs and targets, to three digits."""
    data = subject.data
    parts = [_side_by_side(batch) for batch in data.batches()]
    if len({part.shape[1] for part in parts}) > 1:
        return (
            "batches differ in their number of features, as texts padded batch by batch do: equal rows cannot be told"
        )
    prints = np.concatenate(list(row_prints(parts, parts[0])))
    unit, rows = data.unit.numpy(), np.concatenate(parts)
    several, times, first = _shared(prints.sum(axis=1, dtype=np.uint64), unit)
    if _matters(several, times) and (_common(times) or _measured(rows[first])):
        light: Light = "red" if several.mean() >= MANY else "amber"
        return _equal(data, several, times, light, "in inputs and target")
    if prints.size <= CELLS:
        width = some_coordinates(take(next(data.batches()).inputs, slice(0, 1)), MOST).shape[1]
        near = near_copies(_cloud(rows, width, unit, subject.model.family))
        if near.any() and near.mean() >= MANY:
            return _near(near, data.n)
        one = _but_for_one(prints, rows, unit, width)
        if one is not None:
            return _equal(data, one.several, one.times, "amber", f"in target and all inputs but column {one.column}")
    measured = _measured_again(subject, prints, rows)
    if measured is not None:
        return measured
    return _equal(data, several, times, "green", "in inputs and target")


def _equal(data: Rows, several: NDArray[np.bool_], times: NDArray[np.int64], light: Light, called: str) -> Check:
    found = f"{int(several.sum())} of n = {data.n} training rows ({several.mean():.1%}) equal another {called}"
    if several.any():
        found += f", the commonest {int(times.max())} times"
    rows_of = () if light == "green" else _ids(data, several)
    return Check(NAME, light, float(several.mean()), found, LIMITS, "" if light == "green" else _ADVICE, rows_of)


class _OneColumn(NamedTuple):
    """Rows that equal another but for one column, and in how many units each different row is."""

    column: int
    several: NDArray[np.bool_]
    times: NDArray[np.int64]


def _but_for_one(prints: Prints, rows: Array, unit: NDArray[np.int64], width: int) -> _OneColumn | None:
    """The first column without which many rows are equal; None where there is none."""
    whole = prints.sum(axis=1, dtype=np.uint64)
    for column in range(width):
        without = whole - prints[:, column]  # whole numbers that wrap around: nothing is rounded
        if len(np.unique(without)) > (1 - MANY / 2) * len(without):
            continue  # too few can be equal
        several, times, first = _shared(without, unit)
        others = np.delete(np.arange(prints.shape[1]), column)
        if several.mean() >= MANY and _matters(several, times) and _measured(rows[first][:, others]):
            return _OneColumn(column, several, times)
    return None


def _near(near: NDArray[np.bool_], n: int) -> Check:
    found = (
        f"{int(near.sum())} of {len(near)} rows that were drawn of n = {n} training rows ({near.mean():.0%}) lie ten "
        "times nearer to some rows than to the next, in inputs and target: copies that were moved a little"
    )
    return Check(NAME, "amber", float(near.mean()), found, LIMITS, _ADVICE)


def _measured_again(subject: Subject, prints: Prints, rows: Array) -> Check | None:
    """An amber light where inputs are there several times, with targets far more alike than those of others."""
    data, family = subject.data, subject.model.family
    if family.decision is not None or family.coupled:
        return None
    width = some_coordinates(take(next(data.batches()).inputs, slice(0, 1)), MOST).shape[1]
    lines = family.gradients and family.joint and not family.grown
    found = repeats(prints[:, :width], rows[:, :width], rows[:, width:], data.unit.numpy(), lines)
    if found is None:
        return None
    called = "" if found.column is None else f" but for column {found.column}"
    text = (
        f"{int(found.rows.sum())} of n = {data.n} training rows ({found.rows.mean():.1%}) have the inputs of another"
        f"{called}; targets of the same inputs have a variance of {found.within:.3g}, the means of different ones "
        f"{found.between:.3g} around what the others tell: the same patient or thing, measured again"
    )
    return Check(NAME, "amber", float(found.rows.mean()), text, LIMITS, _GROUP, _ids(data, found.rows))


def _ids(data: Rows, rows: NDArray[np.bool_]) -> tuple[Any, ...]:
    return tuple(data.ids.numpy()[rows].tolist()[:ROWS])


_GROUP = (
    "left-out errors and intervals are too small for new ones where another row of the same one stays; give all rows "
    "of one a group, rue.Data(X, y, group=...)"
)


def _cloud(rows: Array, width: int, unit: NDArray[np.int64], family: Family) -> Cloud:
    """Inputs and targets as points; a class is no measurement, and rows of another class are no copies."""
    if family.decision is None:
        return Cloud(rows, np.zeros(len(rows), dtype=np.int64), unit, rows.shape[1] - width)
    label = np.unique(rows[:, width:], axis=0, return_inverse=True)[1].reshape(-1)
    return Cloud(rows[:, :width], label, unit)


_ADVICE = (
    "left-out errors and intervals are too small where a copy of the row stays; take copies out, give all copies of a "
    "row one group, rue.Data(X, y, group=...), or say a weight= instead"
)


def _side_by_side(batch: Batch) -> Array:
    """Inputs and targets of a batch as one table (c, p)."""
    targets = [leaf.detach().cpu().numpy() for leaf in leaves(batch.targets)]
    return np.concatenate(
        [some_coordinates(batch.inputs, MOST), *(part.reshape(len(part), -1).astype(np.float64) for part in targets)],
        axis=1,
    )


def _shared(prints: Prints, unit: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Which rows equal one of another unit (n,), in how many units each different row is, and where it is first."""
    _, first, where = np.unique(prints, return_index=True, return_inverse=True)
    pairs = np.unique(where.astype(np.int64) * (int(unit.max()) + 1) + unit) // (int(unit.max()) + 1)
    times = np.bincount(pairs)
    return times[where] > 1, times, first


def _matters(several: NDArray[np.bool_], times: NDArray[np.int64]) -> bool:
    return bool(several.sum() >= SEVERAL and several.mean() > FEW and len(times) >= DIFFERENT)


def _common(times: NDArray[np.int64]) -> bool:
    """Whether every row is there as often, or all numbers of copies are multiples of one: a table read twice."""
    return gcd(*times.tolist()) > 1


def _measured(rows: Array) -> bool:
    """Whether some column of different rows has so many values that whole rows cannot agree in it by chance."""
    return any(len(np.unique(column)) >= DISTINCT * len(column) for column in rows[:LOOKED_AT].T)
