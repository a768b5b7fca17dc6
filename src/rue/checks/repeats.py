"""Were the same inputs measured several times? A row that is left out while its fellows stay is no new patient."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.checks.prints import DISTINCT, Prints
from rue.core.arrays import Array, Whole

MANY = 0.2  # share of the rows that must have fellows
MEASURED = 2  # columns in which different rows differ: whole rows do not agree in so many by chance
GROUPS = 10  # inputs that must be there several times
LOOKED_AT = 1000  # inputs with fellows that are looked at
ALIKE = 0.5  # variance of targets of the same inputs, over that of their means around what the other inputs tell
NEAR = 3  # other inputs whose mean tells a target
CHANCE = 1e-3  # targets that have nothing to do with the inputs pass for alike less often
CELLS = 2**18  # up to so many numbers, inputs that are the same but for one column are searched for too


class Repeats(NamedTuple):
    """Rows (n,) whose inputs are there several times, but for a column; and how alike their targets are."""

    rows: NDArray[np.bool_]
    column: int | None
    inputs: int
    within: float  # variance of targets of the same inputs
    between: float  # variance of their means around what the other inputs tell


def repeats(prints: Prints, inputs: Array, targets: Array, unit: Whole, lines: bool) -> Repeats | None:
    """Inputs (n, p) that are there several times, with targets (n, q) far more alike than those of other inputs.

    `prints` (n, p) are those of the inputs. Fellows that are in one resampling unit are left out together, and are no
    matter; nor are targets that differ as much for the same inputs, as in an experiment that was done several times.
    With `lines`, the model can make a line of other inputs; else it makes means of near ones, as trees do.
    """
    whole = prints.sum(axis=1, dtype=np.uint64)
    columns: list[int | None] = [None, *(range(prints.shape[1]) if prints.size <= CELLS else ())]
    for column in columns:
        keys = whole if column is None else whole - prints[:, column]  # wraps around: nothing is rounded
        _, first, where = np.unique(keys, return_index=True, return_inverse=True)
        if len(first) > (1 - MANY / 2) * len(keys):
            continue  # too few can have fellows
        known = inputs if column is None else np.delete(inputs, column, axis=1)
        enough = _measured(known[first])
        found = _alike(np.asarray(where).reshape(-1), known, targets, unit, lines) if enough else None
        if found is not None or column is None:
            return found if found is None else found._replace(column=column)
    return None


def _measured(rows: Array) -> bool:
    """Whether different rows differ in some columns, so that whole rows do not agree by chance."""
    return sum(len(np.unique(one)) >= DISTINCT * len(one) for one in rows[:LOOKED_AT].T) >= MEASURED


def _alike(where: Whole, inputs: Array, targets: Array, unit: Whole, lines: bool) -> Repeats | None:
    units = np.bincount(np.unique(where * (int(unit.max()) + 1) + unit) // (int(unit.max()) + 1))
    several = np.flatnonzero(units > 1)
    rows = np.isin(where, several)
    if rows.mean() < MANY or len(several) < GROUPS:
        return None
    several = several[:LOOKED_AT]
    chosen = np.isin(where, several)
    _, first, place, times = np.unique(where[chosen], return_index=True, return_inverse=True, return_counts=True)
    y = targets[chosen]
    means = np.stack([np.bincount(place, one) / times for one in y.T], axis=1)
    spare = int(chosen.sum()) - len(times)
    within = float(np.square(y - means[place]).sum() / spare)
    between = _left_out_variance(inputs[chosen][first], means, lines)
    if within > ALIKE * between or _by_chance(between * float(1 / (1 / times).mean()), within, len(times), spare):
        return None
    return Repeats(rows, None, len(times), within, between)


def _by_chance(between: float, within: float, groups: int, spare: int) -> bool:
    from scipy.stats import f

    return within > 0 and float(f.sf(between / within, groups - 1, spare)) > CHANCE


def _left_out_variance(inputs: Array, means: Array, lines: bool) -> float:
    """The mean squared error of means (g, q) told by other inputs (g, p): by all, near ones, or a line."""
    finite = inputs[:, np.isfinite(inputs).all(axis=0)]
    spread = finite.std(axis=0)
    known = (finite - finite.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    g, y = len(means), means - means.mean(axis=0)
    least = float(np.square(y * g / (g - 1)).sum(axis=1).mean())
    apart = np.square(known).sum(axis=1)[:, None] + np.square(known).sum(axis=1) - 2 * known @ known.T
    np.fill_diagonal(apart, np.inf)
    near = means[np.argpartition(apart, NEAR, axis=1)[:, :NEAR]].mean(axis=1)
    least = min(least, float(np.square(means - near).sum(axis=1).mean()))
    if not lines:
        return least
    left, size, _ = np.linalg.svd(known, full_matrices=False)
    for penalty in (1.0, g / 10, float(g)):
        hat = (left * (size**2 / (size**2 + penalty))) @ left.T
        missed = (y - hat @ y) / (1 - 1 / g - np.diagonal(hat)).clip(min=1e-6)[:, None]
        least = min(least, float(np.square(missed).sum(axis=1).mean()))
    return least
