"""Coverage: the share of test rows inside nominal intervals, their width, and whether coverage is near enough."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.plots import COLOURS
from rue_paper.intervals import CONFORMAL, CONSTANT, LEFT_OUT, LEVELS, MOST
from rue_paper.protocol import TITLES
from rue_paper.results import Results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

METHODS = (CONFORMAL, CONSTANT, *LEFT_OUT)
LEVEL = 0.9  # the level that is drawn, and that the tolerances were set for
NEAR = 0.015  # tolerance for split conformal, or two standard errors where those are more
NEAR_LEFT_OUT = 0.04  # tolerance without held-out rows, unless the method warned
MARKS = {"within": "", "warned": " ⚠", "missed": " ✗"}


def table(results: Sequence[Results]) -> "pd.DataFrame":
    """One row for each data set, kind of interval and level, with the verdict.

    Coverage is the mean over splits, `error` its standard error as if splits shared no rows, `width` the mean in units
    of the target, `relative_width` the mean over splits of the ratio to split conformal with a constant spread.
    """
    import pandas as pd

    rows = []
    for result in results:
        warned = np.array(result.facts("warned")) > 0
        constant = np.array(result.each(CONSTANT, "width"))
        for method in METHODS:
            covered, width, target = (np.array(result.each(method, what)) for what in ("covered", "width", "target"))
            relative = np.divide(width, constant, out=np.full_like(width, np.nan), where=np.isfinite(constant))
            for j, level in enumerate(LEVELS):
                error = standard_error(covered[:, j])
                near = tolerance(method, error)
                judged = verdict(covered[:, j], target[0, j], near, warned & (method in LEFT_OUT))
                numbers = (covered[:, j].mean(), error, target[0, j], near, width[:, j].mean(), relative[:, j].mean())
                count = int(warned.sum()) if method in LEFT_OUT else 0
                rows.append((result.name, method, level, *map(float, numbers), len(covered), count, judged))
    names = ["data", "method", "level", "coverage", "error", "target", "tolerance", "width", "relative_width"]
    return pd.DataFrame(rows, columns=[*names, "splits", "warned", "verdict"])


def standard_error(each: Array) -> float:
    """The standard error of a mean over splits (s,), as if they were independent."""
    return float(np.std(each, ddof=1) / np.sqrt(len(each))) if len(each) > 1 else np.nan


def tolerance(method: str, error: float) -> float:
    """The tolerance for the difference of a mean coverage from its target.

    >>> tolerance("split conformal", 0.005), tolerance("split conformal", 0.01), tolerance("jackknife+", 0.03)
    (0.015, 0.02, 0.04)
    """
    return NEAR_LEFT_OUT if method in LEFT_OUT else max(NEAR, 2 * error)


def verdict(covered: Array, target: float, near: float, warned: NDArray[np.bool_]) -> str:
    """Whether coverage is within tolerance on all splits (s,), on those without a warning, or not.

    >>> verdict(np.array([0.8, 0.9]), 0.9, 0.04, np.array([True, False]))
    'warned'
    """
    if abs(covered.mean() - target) <= near:
        return "within"
    trusted = covered[~warned]
    return "warned" if not len(trusted) or abs(trusted.mean() - target) <= near else "missed"


def findings(frame: "pd.DataFrame") -> list[str]:
    """Sentences on each kind of interval, from the table alone."""
    sentences = [_finding(frame[frame["method"] == method], method) for method in METHODS]
    return [
        *sentences,
        f"Coverage is the mean over {frame['splits'].max()} splits, of the first {MOST:,} test rows at most. Splits of "
        "a data set share rows: standard errors tell the chance in splitting, not that in collecting the data. "
        f"The tolerances were set for {LEVEL:.0%} and are used at every level.",
    ]


def draw(frame: "pd.DataFrame") -> "Figure":
    """A figure of coverage minus target with two standard errors, and of width relative to a constant spread."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(frame["data"]))
    shown = frame[frame["level"] == LEVEL]
    for j, (method, marker, colour) in enumerate(zip(METHODS, "osD^v", COLOURS, strict=False)):
        own = shown[shown["method"] == method].set_index("data").loc[names]
        place = np.arange(len(names)) + 0.14 * (j - 2)
        points = 100 * (own["coverage"] - own["target"])
        left.errorbar(place, points, 200 * own["error"], fmt=marker, color=colour, label=method, markersize=6)
        if method != CONSTANT:
            right.plot(place, own["relative_width"], marker, color=colour, markersize=6)
    for near, dash in ((NEAR, ":"), (NEAR_LEFT_OUT, "--")):
        for side in (-100, 100):
            left.axhline(side * near, color="#999999", linewidth=0.8, linestyle=dash)
    left.axhline(0.0, color="#999999", linewidth=0.8)
    left.set_ylabel(f"coverage − target of {LEVEL:.0%} intervals, points\n(bars: two standard errors)")
    right.axhline(1.0, color="#999999", linewidth=0.8)
    right.set_ylabel("mean width / that of\nsplit conformal with a constant spread")
    right.set_ylim(bottom=0)
    for panel in (left, right):
        panel.set_xticks(range(len(names)), [TITLES[name] for name in names], fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS), frameon=False)
    return figure


def _finding(own: "pd.DataFrame", method: str) -> str:
    """A sentence: on how many data sets a kind of interval has the right coverage, and on which it has not."""
    main, others = own[own["level"] == LEVEL], own[own["level"] != LEVEL]
    missed = [
        f"{TITLES[row['data']]} "
        f"{100 * row['coverage']:.1f} ± {100 * row['error']:.1f} against {100 * row['target']:.1f}"
        for row in main[main["verdict"] == "missed"].to_dict("records")
    ]
    near = f"{100 * NEAR_LEFT_OUT:g} points" if method in LEFT_OUT else f"{100 * NEAR:g} points or two standard errors"
    where = f" (not on {', '.join(missed)})" if missed else ""
    warned = f"; warned on {main['warned'].sum()} of {main['splits'].sum()} splits" if method in LEFT_OUT else ""
    return (
        f"{method[0].upper()}{method[1:]}: {LEVEL:.0%} intervals within {near} on {len(main) - len(missed)} of "
        f"{len(main)} sets{where}{warned}. "
        f"At the other levels in {(others['verdict'] != 'missed').sum()} of {len(others)} cases."
    )
