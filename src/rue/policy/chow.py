"""Chow's rule (1970): accept where the expected cost of an error is below the cost of a review."""

from typing import NamedTuple

import numpy as np

from rue.core.stored import storable
from rue.policy.bounds import limit_everywhere, share_margin
from rue.policy.held_out import OrderedRows


@storable
class Prices(NamedTuple):
    """The cost of a loss of 1 that was accepted, and of a row that was not."""

    error: float
    review: float


@storable
class Cost(NamedTuple):
    """Mean cost of a held-out row, the upper confidence limit of a new row's expected cost, and the prices."""

    value: float
    high: float
    prices: Prices


def cheapest_threshold(rows: OrderedRows, prices: Prices) -> int | None:
    """Index of the lowest score with the smallest cost over the held-out rows; None to review everything."""
    costs = np.append(rows.n * prices.review, prices.error * rows.total + prices.review * (rows.n - rows.accepted))
    best = int(np.argmin(costs))
    return best - 1 if best else None


def cost(rows: OrderedRows, index: int | None, prices: Prices, tail: float, binary: bool) -> Cost:
    """Cost at a threshold; its upper limit, exceeded with probability tail, holds for any choice of the threshold."""
    if index is None:
        return Cost(prices.review, prices.review, prices)
    total, referred = float(rows.total[index]), 1 - float(rows.accepted[index]) / rows.n
    # one half of the tail for the loss, one for the share that is not accepted
    loss_limit = limit_everywhere(total, rows.n, tail / 2, binary)
    share_limit = min(referred + share_margin(rows.n, tail / 2), 1.0)
    return Cost(
        prices.error * total / rows.n + prices.review * referred,
        prices.error * loss_limit + prices.review * share_limit,
        prices,
    )
