"""Performance of a regression: errors, coverage of intervals, calibration of the predictive distribution."""

from typing import Any

import numpy as np

from rue.core.arrays import Array
from rue.core.errors import RueError
from rue.evaluate import metrics as evaluate
from rue.reports.blocks import Block, axis, chart, line, series, table, text
from rue.reports.case import Case
from rue.reports.estimates import Measurement, mean, resampled, resampled_means, share
from rue.reports.measures import COVERAGE, Metrics, by_thirds, terciles
from rue.reports.outcome import Outcome
from rue.reports.phrases import percent, rows

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def metrics(case: Case, happened: Outcome) -> Metrics:
    """Metrics of the errors of each output; for outputs on another scale, of the loss that was trained."""
    if happened.kind == "losses":
        return {f"mean {happened.called}": (_bootstrap_mean(happened.error[:, 0]), "bootstrap")}
    k = happened.error.shape[1]
    measured: Metrics = {}
    for j in range(k):
        after = "" if k == 1 else f" of output {j}"
        each = _of_numbers(happened.target.reshape(-1, k)[:, j], happened.error[:, j])
        measured |= {f"{name}{after}": (estimate, "bootstrap") for name, estimate in each.items()}
    density = _log_densities(case, happened)
    if density is not None:
        measured["mean negative log likelihood"] = (_bootstrap_mean(-density), "bootstrap")
    return measured


def blocks(case: Case, happened: Outcome) -> list[Block]:
    """Coverage of the intervals, and of the predictive distribution at other levels."""
    inside = covered_rows(case, happened)
    if inside is None or case.interval is None:
        return [text("coverage", f"Coverage was not assessed. Guarantee of intervals: {case.guarantee}.")]
    width = (case.interval.upper - case.interval.lower).reshape(case.m, -1)
    k = inside.shape[1]
    held = [_covered("all rows" if k == 1 else f"output {j}", inside[:, j], width[:, j]) for j in range(k)]
    if k == 1:
        held += [_covered(name, inside[part, 0], width[part, 0]) for name, part in terciles(case.audit.score)]
    caption = f"Coverage of {percent(case.asked.level)} intervals with exact limits, n = {case.m}"
    caption += by_thirds(case.audit.score) if k == 1 else ""
    return [
        table("coverage", caption, COVERAGE, held),
        text("coverage-guarantee", f"Guarantee of these intervals: {case.guarantee}."),
        _levels(case, happened),
    ]


def coverage(case: Case, happened: Outcome) -> Measurement | None:
    """The share of outcomes inside their interval; for several outputs, averaged over outputs first."""
    inside = covered_rows(case, happened)
    if inside is None:
        return None
    return share(inside[:, 0]) if inside.shape[1] == 1 else mean(inside.mean(axis=1))


def covered_rows(case: Case, happened: Outcome) -> Any:
    """Which outcomes lie inside their interval: (m, k); None without intervals."""
    if case.interval is None or happened.kind != "numbers":
        return None
    inside = (case.interval.lower <= happened.target) & (happened.target <= case.interval.upper)
    return inside.reshape(case.m, -1)


def _log_densities(case: Case, happened: Outcome) -> Array | None:
    """Log densities of the outcomes under the predictive distributions; None where there are none."""
    if case.audit.total_std is None:
        return None
    try:
        return case.audit.log_prob(happened.target)
    except RueError:  # a singular covariance has no density
        return None


def _of_numbers(target: Array, error: Array) -> dict[str, Measurement]:
    """Metrics of targets and errors (m,), target − prediction, all on the same resamples."""
    columns = np.stack([np.abs(error), error**2, error, target, target**2], axis=1)
    whole, drawn, m = columns.mean(axis=0), resampled_means(columns), len(error)
    named = {
        "mean absolute error": lambda c: c[..., 0],
        "root mean squared error": lambda c: np.sqrt(c[..., 1]),
        "bias (mean of outcome − prediction)": lambda c: c[..., 2],
        "R²": _explained,
    }
    return {name: resampled(float(of(whole)), of(drawn), m) for name, of in named.items()}


def _explained(columns: Array) -> Array:
    spread = columns[..., 4] - columns[..., 3] ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 1e-12 * columns[..., 4], 1 - columns[..., 1] / spread, np.nan)


def _bootstrap_mean(values: Array) -> Measurement:
    return resampled(float(values.mean()), resampled_means(values[:, None])[:, 0], len(values))


def _covered(name: str, inside: Any, width: Array) -> Block:
    finite = width[np.isfinite(width)]
    wide = mean(finite)
    return {"rows": name, **share(inside).columns(), "width": wide.value, "n_width": wide.n}


def _levels(case: Case, happened: Outcome) -> Block:
    """A chart of observed against nominal coverage of the predictive distribution, over all outputs."""
    covered = []
    for level in LEVELS:
        lower, upper, _ = case.audit.interval(level, by="distribution")
        covered.append(evaluate.coverage(happened.target.ravel(), lower.ravel(), upper.ravel()))
    every = [each.value for each in covered], [each.low for each in covered], [each.high for each in covered]
    both = axis("Nominal coverage", 0, 1), axis("Observed coverage", 0, 1)
    drawn = [
        series("observed", "range", LEVELS, every[0], low=every[1], high=every[2]),
        series("as it should be", "line", (0, 1), (0, 1), dashed=True, muted=True),
    ]
    note = f"Central intervals of the predictive distribution, n = {covered[0].n}; bars are exact 95 % limits."
    k = happened.error.shape[1]
    if k > 1:
        note += f" These are {k} outputs of {rows(case.m)}: outputs of a row go together, the limits are as if not."
    lines = [line("x", case.asked.level, "level of this report")]
    return chart("calibration", "Calibration of the predictive distribution", both, drawn, note, lines)
