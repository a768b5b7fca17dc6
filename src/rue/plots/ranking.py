"""Figures that show how well a score finds large errors."""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rue.core.columns import check_rows, columns
from rue.core.errors import InputError
from rue.core.settings import is_whole
from rue.evaluate import metrics as evaluate
from rue.plots.style import COLOURS, GREY, SMALL, STYLES, legend_beside, one_panel, remark

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def auc_against_tolerance(scores: Mapping[str, ArrayLike], error: ArrayLike) -> "Figure":
    """How well each score (m,) finds errors (m,) above a tolerance: the paper's Figure 2."""
    curves = {name: evaluate.auc_curve(score, error) for name, score in _named(scores).items()}
    if all(np.isnan(curve.auc).all() for curve in curves.values()):
        raise InputError(
            f"no size of error has some of the {np.size(error)} rows on both sides, so that there is nothing to find; "
            "pass rows whose errors differ"
        )
    figure, axes = one_panel()
    for (name, curve), (colour, dash) in zip(curves.items(), cycle(STYLES), strict=False):
        axes.plot(curve.tolerance, curve.auc, label=name, color=colour, linestyle=dash)
    axes.axhline(0.5, color=GREY, linewidth=0.8)
    axes.set_xlabel("an error counts as large above this")
    axes.set_ylabel("AUC: large errors have higher scores")
    remark(figure, f"n = {np.size(error)}; 0.5 is a coin")
    legend_beside(axes)
    return figure


def error_after_deferral(scores: Mapping[str, ArrayLike], loss: ArrayLike) -> "Figure":
    """Mean loss (m,) of the rows kept when the highest scores (m,) are deferred, with perfect and random deferral."""
    curves = {name: evaluate.risk_coverage(score, loss) for name, score in _named(scores).items()}
    best = evaluate.risk_coverage(loss, loss)
    if best.risk.size < 2 or best.risk[-1] == 0:
        raise InputError(
            f"the losses of {best.risk.size} rows sum to {best.generalised_risk[-1] * best.risk.size:g}; deferral "
            "needs at least two rows, and some loss to avoid"
        )
    figure, axes = one_panel()
    for (name, curve), (colour, dash) in zip(curves.items(), cycle(STYLES), strict=False):
        axes.plot(100 * (1 - curve.coverage), curve.risk, label=name, color=colour, linestyle=dash)
    axes.plot(100 * (1 - best.coverage), best.risk, color=GREY, linewidth=0.8, label="perfect")
    axes.axhline(best.risk[-1], color=GREY, linewidth=0.8, linestyle=":", label="random")
    axes.set_xlim(0, 50)
    axes.set_ylim(0, 1.25 * best.risk[-1])
    axes.set_xlabel("deferred, %")
    axes.set_ylabel("mean error of the rest")
    remark(figure, f"n = {best.risk.size}")
    legend_beside(axes)
    return figure


def spread_and_error(std: ArrayLike, error: ArrayLike, bins: int = 8) -> "Figure":
    """Error (m,) against an audit's deviation (m,), and the mean error in equal-count bins with its standard error."""
    spread, signed = columns(deviation=std, error=error)
    size = np.abs(signed)
    check_rows("deviation", spread, spread < 0, "at least zero; pass audit.std or audit.total_std")
    if not is_whole(bins) or not 1 <= bins <= size.size // 2:
        raise InputError(
            f"bins is {bins} for {size.size} rows, expected 1 to half as many as rows, as a standard error needs two; "
            "use fewer bins or more rows"
        )
    if np.ptp(spread) == 0:
        raise InputError(
            f"the deviation is {spread[0]:g} in all {spread.size} rows, so that errors cannot be drawn against it; "
            "pass a deviation for each row"
        )
    figure, axes = one_panel()
    axes.scatter(spread, size, s=8, color=COLOURS[0], alpha=0.35, linewidths=0, label="one prediction")
    parts = np.array_split(np.argsort(spread), bins)
    centre = [spread[part].mean() for part in parts]
    height = [size[part].mean() for part in parts]
    doubt = [size[part].std(ddof=1) / np.sqrt(len(part)) for part in parts]
    axes.errorbar(centre, height, doubt, color=COLOURS[1], marker="o", markersize=4, label=f"mean of {len(parts[0])}")
    axes.set_xlabel("standard deviation of the audit")
    axes.set_ylabel("absolute error")
    remark(figure, f"n = {size.size}; bars are one standard error of the mean")
    axes.legend(frameon=False, fontsize=SMALL)
    return figure


def _named(scores: Mapping[str, ArrayLike]) -> Mapping[str, ArrayLike]:
    """The scores by name; raises if there are none, or none has a name."""
    if not isinstance(scores, Mapping) or not scores:
        found = "is empty" if isinstance(scores, Mapping) else f"is a {type(scores).__name__}"
        raise InputError(f'scores {found}, expected scores by the names to draw them with: {{"rue": audit.score}}')
    return scores
