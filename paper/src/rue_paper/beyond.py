"""Beyond the paper: one network with a penalty chosen by leave-one-out and a calibrated audit; deep ensembles."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.evaluate import metrics as evaluate
from rue.plots import COLOURS
from rue_paper.parts import BESIDE, ONE, ONE_CONSTANT
from rue_paper.protocol import TITLES
from rue_paper.published import DEEP_ENSEMBLES
from rue_paper.results import Results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RECIPE = "DeepEnsemble"  # as published: 40 epochs, or about 2 000 steps where that is more
METHODS = (ONE, ONE_CONSTANT, BESIDE, RECIPE)
LEVELS = (0.5, 0.8, 0.9, 0.95)


def table(results: Sequence[Results]) -> "pd.DataFrame":
    """Means over splits and their standard errors, one row for each data set and method.

    AUC and AUGRC, of absolute errors, and coverage are of the rows of all splits together.
    """
    import pandas as pd

    rows = []
    for result in results:
        published = DEEP_ENSEMBLES[result.name]
        for method in METHODS:
            means = {"nll": nll(result, method), "crps": _crps(result, method), "rmse": _rmse(result, method)}
            row: dict[str, object] = {"data": result.name, "method": method, "splits": len(result.splits)}
            for name, each in means.items():
                row |= {name: float(np.mean(each)), f"{name}_error": standard_error(each)}
            score, size = np.concatenate(result.each(method, "score")), np.abs(np.concatenate(result.errors(method)))
            row |= {"auc": evaluate.mean_auc(score, size), "augrc": evaluate.augrc(score, size).value}
            row |= _intervals(result, method)
            row |= {"published": published.value, "published_error": published.error}
            rows.append(row)
    return pd.DataFrame(rows)


def costs(results: Sequence[Results]) -> "pd.DataFrame":
    """Seconds for a split, one after the other in one process, and the difference in NLL: one row for each set."""
    import pandas as pd

    rows = []
    for result in results:
        own, audit, beside = (
            float(np.mean(result.each(method, what)))
            for method, what in ((ONE, "seconds"), (ONE, "seconds_audit"), (BESIDE, "seconds"))
        )
        row: dict[str, object] = {"data": result.name, "one_network": own, "of_which_audit": audit, "ensemble": beside}
        row["ratio"] = own / beside
        for name, method in (("same_rule", BESIDE), ("recipe", RECIPE)):
            gap = nll(result, ONE) - nll(result, method)
            row |= {name: float(gap.mean()), f"{name}_error": standard_error(gap)}
        rows.append(row)
    return pd.DataFrame(rows)


def findings(frame: "pd.DataFrame", spent: "pd.DataFrame") -> list[str]:
    """The findings, in sentences with their numbers."""
    own = frame[frame["method"] == ONE].set_index("data")
    spent = spent.set_index("data")
    limit = own["published"] + own["published_error"]
    total = spent["one_network"].sum() / spent["ensemble"].sum()
    return [
        _count("NLL at most the published deep ensembles' (final version) and one standard error", own["nll"] <= limit),
        _count("NLL below the published deep ensembles'", own["nll"] < own["published"]),
        _count("NLL below the deep ensemble's that was trained beside it under the same rule", spent["same_rule"] < 0),
        _count("NLL below the deep ensemble's that was trained here by the published recipe", spent["recipe"] < 0),
        _count("training of all candidates, leave-one-out and audit within that ensemble's time", spent["ratio"] <= 1),
        f"Over all sets together they took {total:.2f} times as long as training the ensembles.",
    ]


def draw(frame: "pd.DataFrame", spent: "pd.DataFrame") -> "Figure":
    """A figure of differences in NLL, and of coverage against its nominal level."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_differences(left, frame[frame["method"] == ONE].set_index("data"), spent.set_index("data"))
    _draw_coverage(right, frame)
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=9)
    return figure


def nll(result: Results, method: str) -> Array:
    """The NLL of each split, averaged over its rows."""
    return _mean_scores(result, method, evaluate.nll)


def standard_error(each: Array) -> float:
    """The standard error of a mean over splits."""
    return float(np.std(each, ddof=1) / np.sqrt(len(each))) if len(each) > 1 else np.nan


def _crps(result: Results, method: str) -> Array:
    return _mean_scores(result, method, evaluate.crps)


def _rmse(result: Results, method: str) -> Array:
    return np.array([np.sqrt((error**2).mean()) for error in result.errors(method)])


def _mean_scores(result: Results, method: str, rule: Callable[..., Array]) -> Array:
    predicted = zip(result.errors(method), result.each(method, "total_std"), result.degrees(method), strict=True)
    return np.array([rule(error, np.zeros_like(error), spread, degrees).mean() for error, spread, degrees in predicted])


def _intervals(result: Results, method: str) -> dict[str, object]:
    """Coverage and mean width of central intervals."""
    from scipy.stats import norm, t

    inside: dict[float, list[NDArray[np.bool_]]] = {level: [] for level in LEVELS}
    widths: dict[float, list[Array]] = {level: [] for level in LEVELS}
    predicted = zip(result.errors(method), result.each(method, "total_std"), result.degrees(method), strict=True)
    for error, spread, degrees in predicted:
        for level in LEVELS:
            if np.isinf(degrees):
                reach = spread * norm.ppf(0.5 + level / 2)
            else:
                reach = spread * np.sqrt((degrees - 2) / degrees) * t.ppf(0.5 + level / 2, degrees)
            inside[level].append(np.abs(error) <= reach)
            widths[level].append(2 * reach)
    covered: dict[str, object] = {
        f"coverage_{100 * level:.0f}": float(np.concatenate(inside[level]).mean()) for level in LEVELS
    }
    return covered | {f"width_{100 * level:.0f}": float(np.concatenate(widths[level]).mean()) for level in LEVELS}


def _draw_differences(panel: "Axes", own: "pd.DataFrame", spent: "pd.DataFrame") -> None:
    names = list(own.index)
    published = own["nll"] - own["published"], own["published_error"]
    shown = {
        "published, final version (± its standard error)": published,
        "trained beside it, same rule (± 2 standard errors)": (spent["same_rule"], 2 * spent["same_rule_error"]),
        "trained here, published recipe (± 2 standard errors)": (spent["recipe"], 2 * spent["recipe_error"]),
    }
    markers = zip(("o", "s", "^"), COLOURS, strict=False)
    for j, ((label, (gap, error)), (marker, colour)) in enumerate(zip(shown.items(), markers, strict=True)):
        place = np.arange(len(names)) + 0.18 * (j - 1)
        panel.errorbar(place, gap, error, fmt=marker, color=colour, label=label, markersize=6)
    panel.axhline(0.0, color="#999999", linewidth=0.8)
    panel.set_yscale("symlog", linthresh=0.2)
    panel.set_ylabel("NLL of one network − NLL of a deep ensemble")
    panel.set_xticks(range(len(names)), [TITLES[name] for name in names], fontsize=9)


def _draw_coverage(panel: "Axes", frame: "pd.DataFrame") -> None:
    """Draw a line for each data set."""
    for method, colour, dash in ((ONE, COLOURS[0], "-"), (BESIDE, COLOURS[1], "--")):
        for i, (_, row) in enumerate(frame[frame["method"] == method].iterrows()):
            observed = [100 * row[f"coverage_{100 * level:.0f}"] for level in LEVELS]
            label = method if i == 0 else None
            panel.plot(100 * np.array(LEVELS), observed, dash, color=colour, linewidth=1.2, alpha=0.8, label=label)
    panel.plot([50, 95], [50, 95], color="#999999", linewidth=0.8)
    panel.set_xlabel("nominal level of central intervals, %")
    panel.set_ylabel("rows inside, %")


def _count(claim: str, holds: "pd.Series") -> str:
    """A sentence: on how many data sets a claim holds, and on which it does not."""
    failing = ", ".join(TITLES[str(name)] for name in holds.index[~holds])
    sentence = f"{claim[0].upper()}{claim[1:]}: on {int(holds.sum())} of {len(holds)} sets"
    return sentence + (f" (not on {failing})." if failing else ".")
