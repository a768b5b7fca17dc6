"""Conformal risk control (Angelopoulos et al. 2024): the loss of accepted rows, averaged over all rows."""

from math import ceil

import numpy as np

from rue.policy.held_out import OrderedRows

ROUNDING = 1e-12  # so that 0.29 · 100 is 29


def highest_threshold(rows: OrderedRows, risk: float) -> int | None:
    """Index of the highest score up to which the summed loss plus 1 is at most risk · (n + 1).

    The 1 bounds the loss of the new row. The sum over all n + 1 rows does not depend on their order, so that each of
    them, also the new one, has on average at most its share of it. The sum rises with the threshold.
    """
    fits = np.flatnonzero(rows.total + 1 <= risk * (rows.n + 1) * (1 + ROUNDING))
    return int(fits[-1]) if fits.size else None


def lowest_threshold(rows: OrderedRows, share: float) -> int | None:
    """Index of the lowest score with at most share · (n + 1) rows above it, counting the new row.

    The same argument with the loss "not accepted", which falls with the threshold.
    """
    fits = np.flatnonzero(rows.n - rows.accepted + 1 <= share * (rows.n + 1) * (1 + ROUNDING))
    return int(fits[0]) if fits.size else None


def risk_shortfall(rows: OrderedRows, risk: float) -> str:
    """Why no threshold fits, in words: the smallest risk that would, and the rows that might be needed."""
    smallest = (rows.total[0] + 1) / (rows.n + 1)
    lasting = rows.total[0] / rows.n  # the limit of the smallest risk for many more rows like these
    text = f"the smallest risk that {rows.n} held-out rows could certify is {smallest:.2g}"
    if lasting >= risk:
        return f"{text}, and more rows like these would not bring it to {risk:g}"
    return f"{text}; about {ceil((1 - risk) / (risk - lasting) * (1 - ROUNDING))} rows would be needed for {risk:g}"
