"""Inputs of a region that no training row came from: the middle third of a feature, or its lowest and highest sixth."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rue.plots import COLOURS
from rue_paper.beyond import nll
from rue_paper.parts import SHIFTED
from rue_paper.protocol import REGIONS, TITLES, Protocol
from rue_paper.results import Results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GUARDED, CONSTANT = "CalibratedRUE", "Homoscedastic"
HARM = 0.1  # an NLL of so many nats per row above constant noise counts as harm
OFTEN = 3.0  # so many times as many scarce rows as in a random split count as often


def table(results: Sequence[Results]) -> "pd.DataFrame":
    """NLL in a feature's region, and the share of its rows that are flagged as scarce: one row for each method."""
    import pandas as pd

    rows = []
    for result in results:
        features = [int(feature) for feature in result.facts("feature")]
        for method in SHIFTED:
            flagged = _flagged(result) if method == GUARDED else [np.nan] * len(features)
            for feature, value, share in zip(features, nll(result, method), flagged, strict=True):
                rows.append((result.protocol, result.name, feature, method, float(value), share))
    return pd.DataFrame(rows, columns=["region", "data", "feature", "method", "nll", "scarce"])


def summary(
    frame: "pd.DataFrame", random: Sequence[Results], skipped: Mapping[tuple[Protocol, str], int]
) -> "pd.DataFrame":
    """Medians over features, and how often rows are flagged there and in random splits: one row for each data set.

    `skipped` counts the features of a data set that have no such region.
    """
    import pandas as pd

    usual = {result.name: float(np.mean(_flagged(result))) for result in random}
    rows = []
    for (region, name), lacking in skipped.items():
        own = frame[(frame["region"] == region) & (frame["data"] == name)]
        row: dict[str, object] = {"region": region, "data": name, "features": int(own["feature"].nunique())}
        row["skipped"] = lacking
        row |= {method: float(own.loc[own["method"] == method, "nll"].median()) for method in SHIFTED}
        share = float(own.loc[own["method"] == GUARDED, "scarce"].mean())
        row |= {"scarce": share, "scarce_random": usual[name]}
        row["times"] = share / usual[name] if usual[name] > 0 else np.inf
        rows.append(row)
    return pd.DataFrame(rows)


def findings(frame: "pd.DataFrame") -> list[str]:
    """The findings, in sentences with their numbers."""
    sentences = []
    for region, own in frame.groupby("region", sort=False):
        above = (own[GUARDED] - own[CONSTANT]).to_numpy()
        worst = int(np.argmax(above))
        sentences.append(
            f"{str(region).capitalize()} splits: the median NLL of {GUARDED} is below that of constant noise on "
            f"{int((above < 0).sum())} of {len(own)} sets, and more than {HARM:g} above it on "
            f"{int((above > HARM).sum())}; at worst {above[worst]:+.2f} ({TITLES[own['data'].iloc[worst]]})."
        )
        often = own["times"].to_numpy() >= OFTEN
        short = ", ".join(
            f"{TITLES[n]} {t:.1f}" for n, t in zip(own["data"][~often], own["times"][~often], strict=True)
        )
        sentences.append(
            f"Rows there are flagged as scarce at least {OFTEN:g} times as often as rows of random splits on "
            f"{int(often.sum())} of {len(own)} sets" + (f" (not on {short})." if short else ".")
        )
    return sentences


def draw(frame: "pd.DataFrame") -> "Figure":
    """A figure of NLL compared with constant noise in either region, and of the share of flagged rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), layout="constrained")
    panels = figure.subplots(2, 2)
    for (above, below), region in zip(panels.T, REGIONS, strict=True):
        own = frame[frame["region"] == region]
        _draw_differences(above, own)
        _draw_flags(below, own)
        above.set_title(f"{region} splits", fontsize=11)
        for panel in (above, below):
            panel.set_xticks(range(len(own)), [TITLES[name] for name in own["data"]], fontsize=9)
            panel.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylabel("median NLL − that of constant noise")
    panels[1, 0].set_ylabel("rows flagged as scarce, %")
    panels[0, 1].legend(frameon=False, fontsize=9)
    panels[1, 1].legend(fontsize=9, loc="center right", framealpha=1)
    return figure


def _flagged(result: Results) -> list[float]:
    return [float(flags.mean()) for flags in result.each(GUARDED, "scarce")]


def _draw_differences(panel: "Axes", own: "pd.DataFrame") -> None:
    for j, (method, marker, colour) in enumerate(zip(SHIFTED[:-1], ("o", "s", "^"), COLOURS, strict=False)):
        place = np.arange(len(own)) + 0.18 * (j - 1)
        panel.plot(place, own[method] - own[CONSTANT], marker, color=colour, label=method, markersize=6)
    panel.axhline(0.0, color="#999999", linewidth=0.8)
    panel.axhline(HARM, color="#999999", linewidth=0.8, linestyle=":")
    panel.set_yscale("symlog", linthresh=0.2)


def _draw_flags(panel: "Axes", own: "pd.DataFrame") -> None:
    place = np.arange(len(own))
    panel.bar(place - 0.2, 100 * own["scarce_random"], 0.4, color=COLOURS[7], label="random splits")
    panel.bar(place + 0.2, 100 * own["scarce"], 0.4, color=COLOURS[0], label="this region")
