"""Fidelity: how well each method predicts the spread of networks really refitted on resampled rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rue.core.arrays import Array
from rue_paper.figure2 import STYLE
from rue_paper.parts import AUDITS, REFITS
from rue_paper.protocol import TITLES
from rue_paper.results import Results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

REFERENCE = "Refit bootstrap"
SHOWN = tuple(name for name in AUDITS if name != "Homoscedastic")  # a constant has no ranks


def table(results: Sequence[Results]) -> "pd.DataFrame":
    """A table that compares each method with the refits, one row each.

    Spearman correlation of scores (mean over splits and its standard error), variance over the refits' (median
    over splits, smallest and largest), and in how many splits members left the prediction they were to surround.
    """
    import pandas as pd
    from scipy.stats import spearmanr

    rows = []
    for result in results:
        reference = result.each(REFERENCE, "std")
        for method in SHOWN:
            scores = zip(result.each(method, "score"), reference, strict=True)
            ranks = [float(spearmanr(score, std).statistic) for score, std in scores]
            error = np.std(ranks, ddof=1) / np.sqrt(len(ranks)) if len(ranks) > 1 else np.nan
            warned = sum(count > 0 for count in result.each(method, "warnings"))
            ratios = _variance_ratios(result, method, reference)
            rows.append((result.name, method, float(np.mean(ranks)), float(error), *ratios, int(warned)))
    names = ["data", "method", "spearman", "error", "variance_ratio", "smallest", "largest", "drifted"]
    return pd.DataFrame(rows, columns=names)


def _variance_ratios(result: Results, method: str, reference: Sequence[Array]) -> tuple[float, float, float]:
    """Mean variance over the refits' mean variance: median over splits, smallest, largest."""
    if f"{method}/std" not in result.splits[0]:
        return np.nan, np.nan, np.nan
    pairs = zip(result.each(method, "std"), reference, strict=True)
    each = [float((own**2).mean() / (std**2).mean()) for own, std in pairs]
    return float(np.median(each)), min(each), max(each)


def costs(results: Sequence[Results]) -> "pd.DataFrame":
    """Seconds for a split by closed form, by batched refits and by refits one after another, from the same run."""
    import pandas as pd

    rows = []
    for result in results:
        closed = _seconds(result, "LinearRUE")
        batched = float(np.mean(result.facts("seconds_refits")))
        alone = REFITS * float(np.nanmean(result.facts("seconds_alone")))
        rows.append((result.name, closed, batched, alone, batched / closed, alone / closed))
    names = ["data", "closed_form", "batched_refits", "refits_one_by_one", "ratio_batched", "ratio_one_by_one"]
    return pd.DataFrame(rows, columns=names)


def draw(frame: "pd.DataFrame") -> "Figure":
    """A figure of correlations and variance ratios, a column of dots for each data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(frame["data"]))
    shown = ("LinearRUE", "RUE", "Laplace, linearised", "Laplace", "Bootstrap SGD", "Kernel density")
    markers = ("o", "s", "^", "v", "D", "x")
    for j, (method, marker) in enumerate(zip(shown, markers, strict=True)):
        colour = STYLE[method][0]
        own = frame[frame["method"] == method].set_index("data").loc[names]
        place = np.arange(len(names)) + 0.11 * (j - 2.5)
        left.errorbar(place, own["spearman"], 2 * own["error"], fmt=marker, color=colour, label=method, markersize=6)
        if own["variance_ratio"].notna().all():
            reach = [own["variance_ratio"] - own["smallest"], own["largest"] - own["variance_ratio"]]
            right.errorbar(place, own["variance_ratio"], reach, fmt=marker, color=colour, markersize=6, linewidth=0.8)
    left.set_ylabel(f"Spearman correlation with {REFITS} refits")
    left.axhline(0.9, color="#999999", linewidth=0.8, linestyle=":")
    right.set_ylabel("variance over the refits' (range of splits)")
    right.set_yscale("log")
    right.axhline(1.0, color="#999999", linewidth=0.8)
    for panel in (left, right):
        panel.set_xticks(range(len(names)), [TITLES[name] for name in names], fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(shown), frameon=False)
    return figure


def _seconds(result: Results, method: str) -> float:
    return float(np.mean(result.each(method, "seconds")))
