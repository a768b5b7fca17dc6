"""Learn then Test (Angelopoulos et al. 2021): the loss among the accepted, which need not rise with the threshold.

Thresholds are tested from low to high up to the first that fails, from three starts, each at a third of the level.
They are the held-out scores at fixed ranks, chosen by no loss. That they are the scores of tested rows does no harm.
Given the score at a rank, the rows below it are independent draws from below it; the row at the rank is not, and is
left out of its test. Nor does it matter that scores decide which hypotheses come out true: cut the line of scores
wherever the error rate up to there crosses the target. Between two cuts the mean loss is the target, so that how many
rows fall there changes no test of a true hypothesis. Scores that are tied in the population blur both arguments a
little; of the rows tied at a threshold, one with the smallest loss is left out.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from rue.policy.bounds import p_value, upper_limit
from rue.policy.held_out import OrderedRows

STEPS = 20  # thresholds at every twentieth of the rows
STARTS = (5, 10, 15)  # of the twenty: early if few can be accepted, late if the first few rows may be unlucky
MANY = 10_000_000  # rows, more than anyone will be asked to hold out


def highest_threshold(rows: OrderedRows, rate: float, tail: float, binary: bool) -> int | None:
    """Index of the highest score reached for which "the error rate is above rate" is rejected; tail: 1 − confidence."""
    highest = -1
    for start in STARTS:
        for index in _thresholds(rows, start):
            total, n = _below(rows, index)
            if p_value(total, n, rate, binary) > tail / len(STARTS):
                break
            highest = max(highest, int(index))
    return None if highest < 0 else highest


def rate_shortfall(rows: OrderedRows, rate: float, tail: float, binary: bool) -> str:
    """Why no threshold fits, in words: the smallest rate that would, and the rows that might be needed."""
    level = tail / len(STARTS)
    first = [_below(rows, _thresholds(rows, start)[0]) for start in STARTS]
    smallest, total, n = min((upper_limit(total, n, level, binary), total, n) for total, n in first)
    said = f"a summed loss of {total:.3g} over the {n} rows tested certifies an error rate of {smallest:.2g} at best"
    if n and total / n >= rate:
        return f"{said}, and more rows like these would not bring it to {rate:g}"
    mean, needed = total / max(n, 1), max(n, 1)
    while p_value(mean * needed, needed, rate, binary) > level and needed < MANY:
        needed = ceil(1.02 * needed)
    return f"{said}; about {ceil(rows.n * (needed + 1) / (n + 1))} held-out rows would be needed for {rate:g}"


def _thresholds(rows: OrderedRows, start: int) -> NDArray[np.int_]:
    """Indices of the scores at the ranks from a start on; the losses play no part."""
    m = int(rows.accepted[-1])
    return np.unique(np.searchsorted(rows.accepted, [ceil(m * step / STEPS) for step in range(start, STEPS + 1)]))


def _below(rows: OrderedRows, index: int) -> tuple[float, int]:
    """Summed loss and number of the rows up to a score, without the one that set the threshold."""
    return float(rows.total[index] - rows.least[index]), int(rows.accepted[index]) - 1
