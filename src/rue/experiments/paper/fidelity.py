"""Fidelity: how well each method says what really refitting on resampled rows would have said."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rue.experiments.paper.parts import AUDITS, REFITS
from rue.experiments.paper.protocol import TITLES
from rue.experiments.paper.results import Results
from rue.plots import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

REFERENCE = "Refit bootstrap"
SHOWN = tuple(name for name in AUDITS if name != "Homoscedastic")  # a constant has no ranks


def table(results: Sequence[Results]) -> "pd.DataFrame":
    """Spearman correlation of scores and ratio of variances to the refits', means over splits, one row each."""
    import pandas as pd
    from scipy.stats import spearmanr

    rows = []
    for found in results:
        reference = found.each(REFERENCE, "std")
        for method in SHOWN:
            ranks = [
                float(spearmanr(score, std).statistic)
                for score, std in zip(found.each(method, "score"), reference, strict=True)
            ]
            ratio = np.nan
            if f"{method}/std" in next(iter(found.splits.values())):
                each = [
                    (own**2).mean() / (std**2).mean()
                    for own, std in zip(found.each(method, "std"), reference, strict=True)
                ]
                ratio = float(np.mean(each))
            error = np.std(ranks, ddof=1) / np.sqrt(len(ranks)) if len(ranks) > 1 else np.nan
            rows.append((found.name, method, float(np.mean(ranks)), float(error), ratio, _seconds(found, method)))
    return pd.DataFrame(rows, columns=["data", "method", "spearman", "error", "variance_ratio", "seconds"])


def costs(results: Sequence[Results]) -> "pd.DataFrame":
    """Seconds for a split by closed form, by batched refits and by refits one after another, from the same run."""
    import pandas as pd

    rows = []
    for found in results:
        closed = _seconds(found, "LinearRUE")
        batched = float(np.mean(found.facts("seconds_refits")))
        alone = REFITS * float(np.nanmean(found.facts("seconds_alone")))
        rows.append((found.name, closed, batched, alone, batched / closed, alone / closed))
    names = ["data", "closed_form", "batched_refits", "refits_one_by_one", "ratio_batched", "ratio_one_by_one"]
    return pd.DataFrame(rows, columns=names)


def draw(frame: "pd.DataFrame") -> "Figure":
    """Correlation and variance ratio, a column of dots for each data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(frame["data"]))
    shown = ("LinearRUE", "RUE", "Laplace, linearised", "Laplace", "Bootstrap SGD", "Kernel density")
    markers = ("o", "s", "^", "v", "D", "x")
    for j, (method, marker) in enumerate(zip(shown, markers, strict=True)):
        own = frame[frame["method"] == method].set_index("data").loc[names]
        place = np.arange(len(names)) + 0.11 * (j - 2.5)
        left.errorbar(
            place, own["spearman"], 2 * own["error"], fmt=marker, color=COLOURS[j], label=method, markersize=6
        )
        if own["variance_ratio"].notna().all():
            right.plot(place, own["variance_ratio"], marker, color=COLOURS[j], markersize=6)
    left.set_ylabel(f"Spearman correlation with {REFITS} refits")
    left.axhline(0.9, color="#999999", linewidth=0.8, linestyle=":")
    right.set_ylabel("variance over the refits' variance")
    right.set_yscale("log")
    right.axhline(1.0, color="#999999", linewidth=0.8)
    for panel in (left, right):
        panel.set_xticks(range(len(names)), [TITLES[name] for name in names], fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(shown), frameon=False)
    return figure


def _seconds(found: Results, method: str) -> float:
    return float(np.mean(found.each(method, "seconds")))
