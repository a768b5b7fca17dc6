"""Figures about the coverage of intervals."""

from math import inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rue.core.columns import columns
from rue.core.errors import InputError
from rue.core.settings import check_level
from rue.evaluate import metrics as evaluate
from rue.plots.style import COLOURS, GREY, SMALL, one_panel, remark

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIDENCE = 0.95  # the probability of the bands and limits
THIRDS = ("lowest", "middle", "highest")


def calibration(y: ArrayLike, mean: ArrayLike, std: ArrayLike, degrees: float = inf) -> "Figure":
    """Share of y (m,) inside central intervals of mean (m,) and std (m,), against their level.

    The band is where the share of m calibrated rows lies with a probability of 95 %, level by level.
    """
    from scipy.stats import binom

    curve = evaluate.calibration_curve(y, mean, std, degrees=degrees)
    n = np.size(y)
    low, high = (binom.ppf(tail, n, curve.nominal) / n for tail in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    figure, axes = one_panel(5.6, 5.0)
    axes.plot((0, 1), (0, 1), color=GREY, linewidth=0.8, label="calibrated")
    inside = f"95 % of calibrated audits of {n} rows"
    axes.fill_between(curve.nominal, low, high, color=GREY, alpha=0.25, linewidth=0, label=inside)
    axes.plot(curve.nominal, curve.observed, color=COLOURS[0], marker="o", markersize=4, label="observed")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xlabel("level of the central interval")
    axes.set_ylabel("share of targets inside")
    remark(figure, f"n = {n}; above the line intervals are too wide, below too narrow")
    axes.legend(frameon=False, fontsize=SMALL, loc="upper left")
    return figure


def coverage_by_tercile(
    y: ArrayLike, lower: ArrayLike, upper: ArrayLike, score: ArrayLike, level: float = 0.9
) -> "Figure":
    """Share of y (m,) inside intervals from lower (m,) to upper (m,), for each third of the scores (m,).

    Intervals with the right coverage on average may have less where scores are high. Limits are exact, 95 %.
    """
    check_level("level", level, InputError)
    ys, lowers, uppers, scores = columns(endless=True, y=y, lower=lower, upper=upper, score=score)
    if ys.size < len(THIRDS):
        raise InputError(f"there are {ys.size} rows, expected at least one for each third; pass more rows")
    if len(np.unique(scores)) < len(THIRDS):
        raise InputError(
            f"the {scores.size} rows have {len(np.unique(scores))} different scores, so that their order would decide "
            "which third a row is in; pass scores that differ, or look at the coverage of all rows"
        )
    parts = np.array_split(np.argsort(scores, kind="stable"), len(THIRDS))
    thirds = [evaluate.coverage(ys[part], lowers[part], uppers[part], CONFIDENCE) for part in parts]
    figure, axes = one_panel(5.6, 4.2)
    place = np.arange(len(THIRDS))
    value = np.array([third.value for third in thirds])
    reach = np.array([(third.value - third.low, third.high - third.value) for third in thirds]).T
    axes.axhline(level, color=COLOURS[1], linestyle="--", linewidth=1, label=f"nominal: {100 * level:g} %")
    axes.errorbar(place, value, reach, color=COLOURS[0], fmt="o", capsize=4, label="inside, with exact 95 % limits")
    named = (
        f"{name} third\n{scores[part].min():.3g} to {scores[part].max():.3g}\nn = {len(part)}"
        for name, part in zip(THIRDS, parts, strict=True)
    )
    axes.set_xticks(place, list(named))
    axes.set(xlim=(-0.5, 2.5), ylim=(min(0.5, *(third.low - 0.05 for third in thirds)), 1.02))
    axes.set_xlabel("score")
    axes.set_ylabel("share of targets inside")
    remark(figure, f"n = {ys.size}")
    figure.legend(frameon=False, fontsize=SMALL, loc="outside lower center", ncols=2)
    return figure
