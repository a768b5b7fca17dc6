"""Figure 2: how well each score finds the errors above a tolerance, pooled over splits, with bands over splits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.core.progress import track
from rue.plots import STYLES
from rue_paper.protocol import TITLES
from rue_paper.results import Results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

PAPER = ("RUE", "Laplace", "Kernel density", "Bootstrap SGD")
MORE = ("CalibratedRUE", "Error model", "Nearest neighbours, residual", "RUE", "LinearRUE", "Refit bootstrap")
METHODS = (
    *PAPER,
    "LinearRUE",
    "Refit bootstrap",
    "Nearest neighbours, residual",
    "Laplace, linearised",
    "Nearest neighbours, distance",
    "CalibratedRUE",
    "Error model",
)
STYLE = dict(zip(METHODS, STYLES, strict=True))  # a method has the same style in every figure
PERCENTILES = np.arange(5, 100, 5)  # of the absolute errors, as in section 4.1
RESAMPLES = 400
LEVEL = 0.9  # of the bands


class Pairs(NamedTuple):
    """Pairs of a large error in split s and a small one in t: how often the large one scores higher, of how many."""

    wins: Array  # (s, s)
    total: Array  # (s, s)

    def auc(self, counts: Array) -> Array:
        """The AUC pooled over splits that are drawn `counts` (r, s) times; nan where all errors are alike."""
        wins, total = (np.einsum("rs,st,rt->r", counts, part, counts) for part in self)
        return np.divide(wins, total, out=np.full(len(counts), np.nan), where=total > 0)


def pairs(score: Array, large: Sequence[NDArray[np.bool_]], split: NDArray[np.int64]) -> list[Pairs]:
    """Compare every large error with every small one, for several definitions of large; ties count one half.

    >>> compared = pairs(np.array([1.0, 2.0, 2.0]), [np.array([False, True, False])], np.array([0, 0, 1]))
    >>> compared[0].wins.tolist()
    [[1.0, 0.5], [0.0, 0.0]]
    """
    values, place = np.unique(score, return_inverse=True)
    size = (len(values), int(split.max()) + 1)
    cell = place * size[1] + split
    compared = []
    for chosen in large:
        above, below = (
            np.bincount(cell[rows], minlength=size[0] * size[1]).reshape(size) for rows in (chosen, ~chosen)
        )
        beaten = below.cumsum(0) - below / 2
        compared.append(Pairs(above.T @ beaten, np.outer(above.sum(0), below.sum(0)).astype(np.float64)))
    return compared


def table(results: Sequence[Results], methods: Sequence[str], seed: int = 0) -> "pd.DataFrame":
    """AUC at every tolerance, with a band from resampled splits: one row each."""
    import pandas as pd

    rows = []
    for result in results:
        split = np.concatenate([np.full(len(e), i) for i, e in enumerate(result.errors("RUE"))])
        size = np.abs(np.concatenate(result.errors("RUE")))
        counts = _draws(len(result.splits), seed)
        tolerances = np.percentile(size, PERCENTILES)
        for method in track(f"AUC on {result.name}", methods, len(methods)):
            compared = pairs(np.concatenate(result.each(method, "score")), [size > t for t in tolerances], split)
            curves = [own.auc(counts) for own in compared]
            for percentile, tolerance, values in zip(PERCENTILES, tolerances, curves, strict=True):
                rows.append((result.name, method, str(percentile), float(tolerance), *_summary(values)))
            rows.append((result.name, method, "mean", np.nan, *_summary(np.nanmean(curves, axis=0))))
    return pd.DataFrame(rows, columns=["data", "method", "percentile", "tolerance", "auc", "low", "high"])


def draw(frame: "pd.DataFrame", methods: Sequence[str]) -> "Figure":
    """A figure with a panel for each data set."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(frame["data"]))
    rows = (len(names) + 3) // 4
    figure = Figure(figsize=(12, 2.9 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, min(4, len(names)), squeeze=False).ravel()
    curves = frame[frame["percentile"] != "mean"]
    for panel, name in zip(panels, names, strict=False):
        for method in methods:
            colour, dash = STYLE[method]
            own = curves[(curves["data"] == name) & (curves["method"] == method)]
            panel.fill_between(own["tolerance"], own["low"], own["high"], color=colour, alpha=0.15, linewidth=0)
            panel.plot(own["tolerance"], own["auc"], color=colour, linestyle=dash, linewidth=1.8, label=method)
        panel.axhline(0.5, color="#999999", linewidth=0.8)
        panel.set_title(TITLES[name], fontsize=11)
        panel.set_xlabel(f"tolerance τ, {UNITS[name]}", fontsize=9)
        panel.tick_params(labelsize=8)
        panel.xaxis.set_major_locator(MaxNLocator(4))
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    for panel in panels[::4]:
        panel.set_ylabel("AUC: large errors score higher", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(methods), frameon=False, fontsize=9)
    return figure


UNITS = {  # of the absolute error
    "housing": "1000 $",
    "concrete": "MPa",
    "energy": "kWh/m²",
    "kin8nm": "distance",
    "naval": "decay coefficient",
    "power": "MW",
    "wine": "points of quality",
    "yacht": "resistance",
}


def _draws(splits: int, seed: int) -> Array:
    """How often each split is drawn: once each, then resampled, (1 + r, s)."""
    random = np.random.default_rng(seed)
    drawn = random.multinomial(splits, np.full(splits, 1 / splits), size=RESAMPLES)
    return np.vstack([np.ones(splits), drawn])


def _summary(values: Array) -> tuple[float, float, float]:
    """The value itself and its band."""
    low, high = np.nanquantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(values[0]), float(low), float(high)
