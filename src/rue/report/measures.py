"""Tables that numbers and classes share: metrics with their intervals, coverage by thirds of the score."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.report.blocks import Block, table
from rue.report.estimates import Array, Estimate

TERCILES = ("lowest third of scores", "middle third of scores", "highest third of scores")
METRICS = {
    "metric": ("Metric", "text"),
    "value": ("Value", "number"),
    "low": ("95 % from", "number"),
    "high": ("to", "number"),
    "n": ("n", "number"),
    "by": ("Interval by", "text"),
}
COVERAGE = {
    "rows": ("Rows", "text"),
    "value": ("Observed coverage", "number"),
    "low": ("95 % from", "number"),
    "high": ("to", "number"),
    "n": ("n", "number"),
    "width": ("Mean width", "number"),
    "n_width": ("n of finite widths", "number"),
}

Metrics = dict[str, tuple[Estimate, str]]
"""Metrics by name, with how their interval was made."""


def metric_table(found: Metrics, m: int) -> Block:
    """One row for each metric."""
    held = [{"metric": name, **estimate.columns(), "by": by} for name, (estimate, by) in found.items()]
    return table("metrics", f"Performance on n = {m} rows with known outcome", METRICS, held)


def terciles(score: Array) -> list[tuple[str, NDArray[Any]]]:
    """Row numbers by thirds of the score."""
    parts = np.array_split(np.argsort(score, kind="stable"), 3)
    return [(name, part) for name, part in zip(TERCILES, parts, strict=True) if len(part)]
