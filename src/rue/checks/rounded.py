"""Are rows rounded copies of earlier ones? A table that was written with two digits has no row of before to the bit."""

import numpy as np

from rue.checks.near_copies import Cloud, Met, nearly_met
from rue.core.arrays import Array
from rue.core.concepts import Family

MANY = 0.2  # share of the rows from which on they are copies: among honest rows of ten tables at most .07 were
CHANCE = 1e-3  # and the rate among the earlier rows gives so many less often than this
MOST = 256  # columns that are compared, evenly spread
Pair = tuple[Array, Array]  # of the earlier rows, and of those now


def rounded_copies(inputs: Pair, targets: Pair | None, family: Family) -> Met | None:
    """How many rows (m, p) lie as near to one of (n, p) as rounding leaves them.

    They agree in targets (n, q), (m, q) too, if these are known. None where such rows are few, where
    earlier rows lie as near to each other, or where rows agree by chance.
    """
    chosen = np.linspace(0, inputs[0].shape[1] - 1, min(MOST, inputs[0].shape[1])).astype(np.int64)
    before, now = (
        _cloud(inputs[side][:, chosen], None if targets is None else targets[side], family) for side in (0, 1)
    )
    met = nearly_met(now, before)
    return met if met is not None and _surprising(met) else None


def _surprising(met: Met) -> bool:
    from scipy.stats import binom

    return (
        met.copies >= MANY * met.sampled and float(binom.sf(met.copies - 1, met.sampled, max(met.usual, 0.01))) < CHANCE
    )


def _cloud(rows: Array, targets: Array | None, family: Family) -> Cloud:
    """Rows as points; a class is no measurement, and rows of another class are no copies."""
    unit = np.arange(len(rows))
    if targets is None:
        return Cloud(rows, np.zeros(len(rows), dtype=np.int64), unit)
    if family.decision is None:
        return Cloud(np.hstack([rows, targets]), np.zeros(len(rows), dtype=np.int64), unit, targets.shape[1])
    powers = np.arange(1, targets.shape[1] + 1) ** 2 + 1  # one number for a row of codes, the same in both tables
    return Cloud(rows, np.rint(targets @ powers * 8).astype(np.int64), unit)
