"""What an audit says of each of its rows, as columns for tables that are made part by part."""

from typing import Any, NamedTuple

import numpy as np

from rue.auditing.result import Audit


class Said(NamedTuple):
    """Columns (m,) by name, and what the intervals among them guarantee: "" where there are none."""

    columns: dict[str, Any]
    guarantee: str


def said(audit: Audit, level: float | None) -> Said:
    """The columns of `audit.to_frame()` but the rank among these rows, and the ends of intervals of this level."""
    frame = audit.to_frame().drop(columns="percentile")  # a rank among the rows of a part means nothing
    columns: dict[str, Any] = {str(name): frame[name].to_numpy() for name in frame.columns}
    if level is None or audit.total_std is None:
        return Said(columns, "")
    low, high, guarantee = audit.interval(level)
    ends = {"lower": low, "upper": high}
    if low.ndim == 1:
        return Said({**columns, **ends}, str(guarantee))
    each = {f"{end}_{j}": np.asarray(part[:, j]) for end, part in ends.items() for j in range(low.shape[1])}
    return Said({**columns, **each}, str(guarantee))
