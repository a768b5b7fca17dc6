"""Are the outcomes what the audit led to expect? Targets in other units or another order are not."""

from typing import Any

import numpy as np

from rue.auditing.doubtful import surprise, surprise_of_classes
from rue.auditing.intervals import Interval, PredictionSet
from rue.auditing.result import Audit
from rue.checks import Check
from rue.reports.outcome import Outcome

NAME = "outcomes"
CHANCE = 1e-3  # intervals that hold what they are meant to hold so few outcomes less often than this
SHORT = 0.1  # and hold at least this share fewer
LIMITS = (
    "red where audited rows are missed by three times what was expected, or a constant would do better; amber where "
    f"intervals or sets hold {SHORT:.0%} fewer outcomes than they are meant to, and not by chance"
)
_ADVICE = (
    "look whether the targets are in the units of training and in the order of the rows, and the rows like those of "
    "training; else errors and intervals of this audit are too small for such rows"
)


def surprising(
    audit: Audit, happened: Outcome, bounds: tuple[Interval | None, PredictionSet | None], level: float
) -> Check | None:
    """A light that is not green where outcomes are far from what the audit expects; None where they are not."""
    for text in _texts(audit, happened):
        found = text.partition(": ")[0].replace("held-out", "audited")
        return Check(NAME, "red", None, f"{found} (m = {len(audit)})", LIMITS, _ADVICE)
    held = _held(happened, *bounds)
    if held is None or not _short(held, level):
        return None
    found = f"intervals or sets that are meant to hold {level:.0%} of m = {len(held)} outcomes hold {held.mean():.1%}"
    return Check(NAME, "amber", float(held.mean()), found, LIMITS, _ADVICE)


def _texts(audit: Audit, happened: Outcome) -> tuple[str, ...]:
    if happened.kind == "numbers" and audit.total_covariance is not None:
        return surprise(audit, happened.target)
    if happened.kind == "classes" and audit.probability is not None and happened.target.ndim == 1:
        return surprise_of_classes(audit, happened.shown)
    return ()


def _held(happened: Outcome, interval: Interval | None, sets: PredictionSet | None) -> Any:
    """Which outcomes lie inside (m,), the worst of several outputs; None without intervals or sets."""
    if interval is not None and happened.kind == "numbers":
        inside = (interval.lower <= happened.target) & (happened.target <= interval.upper)
        inside = inside.reshape(len(inside), -1)
        return inside[:, inside.mean(axis=0).argmin()]
    if sets is not None and happened.kind == "classes" and happened.target.ndim == 1:
        return sets.members[np.arange(len(happened.target)), happened.target]
    return None


def _short(held: Any, level: float) -> bool:
    from scipy.stats import binom

    few = float(binom.cdf(int(held.sum()), len(held), level)) < CHANCE
    return few and float(held.mean()) < level - SHORT
