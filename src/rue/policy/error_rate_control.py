"""Learn then Test (Angelopoulos et al. 2021): controls the loss of accepted rows, which need not rise with a threshold.

Thresholds are tested from low to high up to the first that fails, from three starts, each at a third of the level.
They are the held-out scores at fixed ranks, chosen without the losses. Using scores of the tested rows is valid: given
the score at a rank, the rows below it are independent draws from below it, and the row at the rank is left out of its
test. It is also valid that the scores decide which hypotheses are true: cut the line of scores wherever the error rate
up to there crosses the target. Between two cuts the mean loss is the target, so that the number of rows there changes
no test of a true hypothesis. Scores that are tied in the population make both arguments approximate; of the rows tied
at a threshold, one with the smallest loss is left out.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from rue.policy.bounds import p_value, upper_limit
from rue.policy.held_out import OrderedRows

STEPS = 20  # thresholds at every twentieth of the rows
STARTS = (5, 10, 15)  # of the twenty: early if few can be accepted, late if the first few rows may be unlucky
MANY = 10_000_000  # the search for the rows needed stops here


def highest_threshold(rows: OrderedRows, rate: float, tail: float, binary: bool) -> int | None:
    """Index of the highest score at which "the error rate is above rate" is rejected; tail is 1 − confidence."""
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
    text = f"a summed loss of {total:.3g} over the {n} rows tested certifies an error rate of {smallest:.2g} at best"
    if n and total / n >= rate:
        return f"{text}, and more rows like these would not bring it to {rate:g}"
    mean, needed = total / max(n, 1), max(n, 1)
    while p_value(mean * needed, needed, rate, binary) > level and needed < MANY:
        needed = ceil(1.02 * needed)
    return f"{text}; about {ceil(rows.n * (needed + 1) / (n + 1))} held-out rows would be needed for {rate:g}"


def _thresholds(rows: OrderedRows, start: int) -> NDArray[np.int_]:
    """Indices of the scores at the tested ranks, from a start on; they do not depend on the losses."""
    m = int(rows.accepted[-1])
    return np.unique(np.searchsorted(rows.accepted, [ceil(m * step / STEPS) for step in range(start, STEPS + 1)]))


def _below(rows: OrderedRows, index: int) -> tuple[float, int]:
    """Summed loss and number of the rows up to a score, without the one that set the threshold."""
    return float(rows.total[index] - rows.least[index]), int(rows.accepted[index]) - 1
