"""Figures for people who would rather look than read: each a function that returns a Matplotlib figure."""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rue import evaluate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's colours, which people who see few colours can tell apart, then grey tones and dashes
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#777777", "#AAAAAA")
DASHES = ("-", "-", "-", "--", "--", "--", "-.", "-.", ":")
STYLES = (*zip(COLOURS, DASHES, strict=True), ("#000000", "-"), ("#E69F00", ":"))


def auc_against_tolerance(scores: Mapping[str, ArrayLike], error: ArrayLike) -> "Figure":
    """How well each score (m,) finds errors (m,) above a tolerance: the paper's Figure 2."""
    figure, axes = _figure()
    for (name, score), (colour, dash) in zip(scores.items(), cycle(STYLES), strict=False):
        curve = evaluate.auc_curve(score, error)
        axes.plot(curve.tolerance, curve.auc, label=name, color=colour, linestyle=dash)
    axes.axhline(0.5, color="#999999", linewidth=0.8)
    axes.set_xlabel("an error counts as large above this")
    axes.set_ylabel("AUC: large errors have higher scores")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def error_after_deferral(scores: Mapping[str, ArrayLike], loss: ArrayLike) -> "Figure":
    """Mean loss of what is kept when the highest scores are deferred, beside perfect and random deferral."""
    figure, axes = _figure()
    best = evaluate.risk_coverage(loss, loss)
    for (name, score), (colour, dash) in zip(scores.items(), cycle(STYLES), strict=False):
        curve = evaluate.risk_coverage(score, loss)
        axes.plot(100 * (1 - curve.coverage), curve.risk, label=name, color=colour, linestyle=dash)
    axes.plot(100 * (1 - best.coverage), best.risk, color="#999999", linewidth=0.8, label="perfect")
    axes.axhline(best.risk[-1], color="#999999", linewidth=0.8, linestyle=":", label="random")
    axes.set_xlim(0, 50)
    axes.set_ylim(0, 1.25 * best.risk[-1])
    axes.set_xlabel("deferred, %")
    axes.set_ylabel("mean error of the rest")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def spread_and_error(std: ArrayLike, error: ArrayLike, bins: int = 8) -> "Figure":
    """Error against an audit's deviation (m,), and the mean error in equal-count bins with its standard error."""
    figure, axes = _figure()
    spread, size = np.asarray(std, dtype=float), np.abs(np.asarray(error, dtype=float))
    axes.scatter(spread, size, s=8, color=COLOURS[0], alpha=0.35, linewidths=0, label="one prediction")
    parts = np.array_split(np.argsort(spread), bins)
    centre = [spread[part].mean() for part in parts]
    height = [size[part].mean() for part in parts]
    doubt = [size[part].std(ddof=1) / np.sqrt(len(part)) for part in parts]
    axes.errorbar(centre, height, doubt, color=COLOURS[1], marker="o", markersize=4, label=f"mean of {len(parts[0])}")
    axes.set_xlabel("standard deviation of the audit")
    axes.set_ylabel("absolute error")
    axes.legend(frameon=False, fontsize=8)
    return figure


def _figure() -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
