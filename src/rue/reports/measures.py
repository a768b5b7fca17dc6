"""Tables for regression and classification: metrics with their intervals, coverage by thirds of the score."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.reports.blocks import Block, table
from rue.reports.estimates import Measurement
from rue.reports.phrases import rows

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

Metrics = dict[str, tuple[Measurement, str]]
"""Metrics by name, each with a text on how its interval was made."""


def metric_table(metrics: Metrics, m: int) -> Block:
    """One row for each metric."""
    held = [
        {"metric": name, **estimate.columns(), "by": by if estimate.low is not None else None}
        for name, (estimate, by) in metrics.items()
    ]
    return table("metrics", f"Performance on n = {rows(m)} with known outcome", METRICS, held)


def terciles(score: Array) -> list[tuple[str, NDArray[Any]]]:
    """Row numbers by thirds of the score; empty for fewer than three rows, or where a score would be in two thirds."""
    parts = np.array_split(np.argsort(score, kind="stable"), 3)
    if len(score) < 3 or any(score[low[-1]] == score[high[0]] for low, high in pairwise(parts)):
        return []
    return list(zip(TERCILES, parts, strict=True))


def by_thirds(score: Array) -> str:
    """A part of a caption: the reason why there are no thirds."""
    if len(score) < 3 or terciles(score):
        return ""
    return "; not assessed by thirds of the score, since equal scores would be in two of them"
