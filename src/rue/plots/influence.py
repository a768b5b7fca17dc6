"""A map of the training rows that one prediction depends on."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rue.core.arrays import Array
from rue.core.errors import InputError
from rue.explain import Explanation
from rue.plots.drawn import refuse_no_explanation, refuse_no_place
from rue.plots.explained import of_rows
from rue.plots.style import COLOURS, EDGE, GREY, SMALL, one_panel, remark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 10  # so many units are labelled with their names
LARGEST = 400.0  # area of the largest marker, in square points
INK = 20000.0  # area of all markers together, in square points: a fifth of the axes
SMALLEST = 3.0  # area of the smallest marker, so that rows without a contribution stay visible
# The sign of the change without the unit, its marker, colour and label.
KINDS = (
    (1, "^", COLOURS[1], "without it, would rise"),
    (-1, "v", COLOURS[0], "without it, would fall"),
    (0, ".", GREY, "without it, would stay"),
)


def influence_map(
    explanation: Explanation,
    x: ArrayLike,
    y: ArrayLike,
    labels: tuple[str, str] = ("x", "y"),
    at: tuple[float, float] | None = None,
) -> "Figure":
    """The training rows at x (n,) and y (n,); the area of a marker is its share of the prediction's variance.

    Marker and colour show which way the prediction would change without the row; the ten largest have their names.
    Units of several rows are drawn at the mean of their rows. `at` is the audited input.
    """
    refuse_no_explanation(explanation)
    if at is not None:
        refuse_no_place("at", at, 2)
    if len(labels) != 2:
        raise InputError(f"labels are {labels!r}, expected two: the names of x and of y")
    across, up = _centres(explanation, *of_rows(explanation, x=x, y=y))
    part, change = np.asarray(explanation.contribution), np.asarray(explanation.change)
    whole = part.sum()
    share = part / whole if whole > 0 else part
    figure, axes = one_panel(7.6, 5.2)
    relative = share / (share.max() or 1.0)
    area = np.maximum(min(LARGEST, INK / (relative.sum() or 1.0)) * relative, SMALLEST)
    for sign, marker, colour, words in KINDS:
        some = np.sign(change) == sign
        if some.any():
            axes.scatter(
                across[some],
                up[some],
                area[some],
                color=colour,
                marker=marker,
                alpha=0.7,
                edgecolors=EDGE,
                linewidths=0.4,
                label=f"{words} ({some.sum()})",
            )
    if at is not None:
        axes.scatter(*at, marker="*", s=160, color=COLOURS[6], linewidths=0, zorder=4, label="the audited input")
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    rows = np.size(explanation.unit)
    units = "" if len(part) == rows else f" in {len(part)} units, each at the mean of its rows"
    remark(figure, f"n = {rows} training rows{units}; area: share of the variance of {explanation.of}")
    legend = figure.legend(frameon=False, fontsize=SMALL, loc="outside lower center", ncols=2)
    for handle in legend.legend_handles:
        handle.set_sizes([60.0])  # type: ignore[union-attr]  # markers of one size: all handles are scatters
    largest = np.argsort(-share, kind="stable")[:NAMED]
    named = [f"{explanation.label[unit]}: {100 * share[unit]:.1f} %" for unit in largest]
    _names(axes, named, across[largest], up[largest])
    return figure


def _centres(explanation: Explanation, x: Array, y: Array) -> tuple[Array, Array]:
    """The mean of each unit's rows, (u,) and (u,)."""
    units = len(explanation.contribution)
    count = np.bincount(explanation.unit, minlength=units)
    return np.bincount(explanation.unit, x, units) / count, np.bincount(explanation.unit, y, units) / count


def _names(axes: "Axes", names: list[str], x: Array, y: Array) -> None:
    """Names in a column beside the axes, so that none hides another, each with a line to its marker."""
    order = np.argsort(y, kind="stable")
    heights = (np.arange(len(order)) + 0.5) / len(order)
    for unit, height in zip(order, heights, strict=True):
        axes.annotate(
            names[unit],
            (x[unit], y[unit]),
            xytext=(1.04, height),
            textcoords="axes fraction",
            va="center",
            fontsize=SMALL,
            arrowprops={"arrowstyle": "-", "color": EDGE, "linewidth": 0.5, "relpos": (0.0, 0.5)},
        )
