"""The training rows that matter for one prediction: the kernel k(x, xᵢ) of the paper's Figure 1, panel (c)."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rue.core.arrays import Array
from rue.core.errors import InputError
from rue.explain import Explanation
from rue.plots.drawn import refuse_no_explanation, refuse_no_place
from rue.plots.explained import of_rows, row_names
from rue.plots.style import COLOURS, EDGE, GREY, SHADES, SMALL, called, one_panel, panels, remark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

SHOWN = 30  # so many rows are in the strip


def kernel(explanation: Explanation, x: ArrayLike | None = None, at: float | None = None) -> "Figure":
    """The kernel k(x, xᵢ) (n,) of one prediction: how relevant each training row is for it.

    With x (n,), the training rows' values of one feature: the kernel along it and, below, its coefficients, the squared
    residuals; `at` marks the audited input. Without x: a strip of the 30 rows with the largest kernel.
    """
    refuse_no_explanation(explanation)
    if at is not None:
        refuse_no_place("at", at, 1)
        if x is None:
            raise InputError("at marks a place along x, and there is no x; pass x, the training rows' values, too")
    return _strip(explanation) if x is None else _along(explanation, x, at)


def _along(explanation: Explanation, x: ArrayLike, at: float | None) -> "Figure":
    place, height, residual = of_rows(explanation, x=x, kernel=explanation.kernel, residual=explanation.residual)
    order = np.argsort(place, kind="stable")
    place, height, residual = place[order], height[order], residual[order]
    figure, (above, below) = panels((3.0, 2.0), height=5.0)
    shade = _shades(residual)
    above.fill_between(place, height, color=GREY, alpha=0.2, linewidth=0)
    _stems(above, place, height, shade.to_rgba(np.abs(residual)))
    _stems(below, place, residual**2, shade.to_rgba(np.abs(residual)))
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        if at is not None:
            axes.axvline(
                at, color=COLOURS[1], linestyle="--", linewidth=1.2, zorder=4, label=f"the audited input, {at:.4g}"
            )
    if at is not None:
        above.legend(frameon=False, fontsize=SMALL)
    above.set_ylabel("kernel $k(x, x_i)$")
    below.set_ylabel("squared residual $r_i^2$")
    below.set_xlabel(called(x, "x"))
    remark(figure, f"n = {place.size} training rows; kernels of {explanation.of}, and the squared residuals they weigh")
    _bar(figure, shade, [above, below])
    return figure


def _strip(explanation: Explanation) -> "Figure":
    height, residual = of_rows(explanation, kernel=explanation.kernel, residual=explanation.residual)
    rows = np.argsort(-height, kind="stable")[:SHOWN]
    names = row_names(explanation)
    figure, axes = one_panel(height=max(2.8, 1.2 + 0.2 * len(rows)))
    shade = _shades(residual)
    colour = shade.to_rgba(np.abs(residual[rows]))
    place = np.arange(len(rows))
    axes.barh(place, height[rows], color=colour, edgecolor=EDGE, linewidth=0.4)
    axes.set_yticks(place, [names[row] for row in rows], fontsize=SMALL)
    axes.set_ylim(len(rows) - 0.4, -0.6)  # the largest on top
    axes.set_xlabel("kernel $k(x, x_i)$")
    axes.set_ylabel("training row")
    total = height.sum()
    share = f", with {100 * height[rows].sum() / total:.0f} % of the sum" if total > 0 else ""
    remark(figure, f"{explanation.of}: the {len(rows)} largest kernels of n = {height.size} training rows{share}")
    _bar(figure, shade, [axes])
    return figure


def _stems(axes: "Axes", place: Array, height: Array, colour: Any) -> None:
    """A line from zero and a point on top, for each row."""
    axes.vlines(place, 0, height, color=colour, linewidth=1.2)
    axes.scatter(place, height, c=colour, s=18, zorder=3, edgecolors=EDGE, linewidths=0.4, clip_on=False)


def _shades(residual: Array) -> "ScalarMappable":
    """One colour code for the sizes of all residuals (n,)."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(0, np.abs(residual).max() or 1.0), SHADES)


def _bar(figure: "Figure", shade: "ScalarMappable", beside: "list[Axes]") -> None:
    bar = figure.colorbar(shade, ax=beside, aspect=40, pad=0.02)
    bar.set_label("|residual|, row left out", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
