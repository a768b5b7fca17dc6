"""The experiments beyond the paper as Markdown: one network against deep ensembles, regions without training rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rue_paper import beyond, shift
from rue_paper.markdown import TableRows, crossed, markdown, read
from rue_paper.parts import SHIFTED
from rue_paper.protocol import REGIONS, TITLES

if TYPE_CHECKING:
    import pandas as pd

NLL = "Negative log likelihood ± standard error over splits"
PUBLISHED = "deep ensembles, published"
METHODS = (*beyond.METHODS, PUBLISHED)
SCORES = {
    "nll": (NLL, "{:.3f}"),
    "crps": ("Continuous ranked probability score ± standard error over splits", "{:.3g}"),
    "rmse": ("Root mean squared error ± standard error over splits", "{:.3g}"),
    "auc": ("Mean AUC over tolerances, all splits together", "{:.3f}"),
    "augrc": ("Area under the generalised risk–coverage curve of absolute errors, all splits together", "{:.3g}"),
}


def write(folder: Path) -> str:
    """The section of the page."""
    frame, costs, medians = (read(folder, name) for name in ("beyond", "beyond_costs", "shift"))
    parts = ["![One network against deep ensembles: NLL and coverage](beyond.svg)"]
    parts.append(_list(beyond.findings(frame, costs)))
    for column, (title, _) in SCORES.items():
        parts += [f"{title}.", markdown(scores(frame, column))]
    for level in beyond.LEVELS:
        title = f"{level:.0%} intervals: coverage, % (mean width in units of the target)."
        parts += [title, markdown(intervals(frame, level))]
    parts += ["Seconds for a split, one after the other in one process.", markdown(seconds(costs))]
    parts.append("![Regions without training rows: NLL beside constant noise, and flags](shift.svg)")
    parts.append(_list(shift.findings(medians)))
    for region in REGIONS:
        parts += [f"{region.capitalize()} splits: medians over features.", markdown(regions(medians, region))]
    return "\n\n".join(parts)


def scores(frame: "pd.DataFrame", column: str) -> TableRows:
    """A table of a score of every method, with its standard error where it is a mean over splits."""
    form = SCORES[column][1]

    def cell(row: dict[Any, Any]) -> str:
        mean = form.format(row[column])
        return f"{mean} ± {form.format(row[f'{column}_error'])}" if f"{column}_error" in row else mean

    rows = crossed(frame, cell)
    if column == "nll":
        each = frame.drop_duplicates("data")
        pairs = zip(each["published"], each["published_error"], strict=True)
        rows.append([PUBLISHED, *(f"{value:.2f} ± {error:.2f}" for value, error in pairs)])
    return rows


def intervals(frame: "pd.DataFrame", level: float) -> TableRows:
    """A table of coverage and mean width."""
    name = f"{100 * level:.0f}"
    return crossed(frame, lambda row: f"{100 * row[f'coverage_{name}']:.1f} ({row[f'width_{name}']:.3g})")


def seconds(frame: "pd.DataFrame") -> TableRows:
    """A table of the times of one network and of the ensemble."""
    rows = [["data", "one network, s", "of which audit, s", "ensemble, s", "ratio"]]
    for row in frame.to_dict("records"):
        times = [f"{row[name]:.1f}" for name in ("one_network", "of_which_audit", "ensemble")]
        rows.append([TITLES[row["data"]], *times, f"{row['ratio']:.2f}"])
    return rows


def regions(frame: "pd.DataFrame", region: str) -> TableRows:
    """A table of medians over features, and of flagged rows."""
    own = frame[frame["region"] == region]
    rows = [["", *(TITLES[name] for name in own["data"])]]
    rows += [[f"NLL, {method}", *(f"{value:.2f}" for value in own[method])] for method in SHIFTED]
    for label, name in (("flagged as scarce, %", "scarce"), ("in random splits, %", "scarce_random")):
        rows.append([label, *(f"{100 * share:.1f}" for share in own[name])])
    counted = zip(own["features"], own["skipped"], strict=True)
    return [*rows, ["features (left away)", *(f"{kept} ({skipped})" for kept, skipped in counted)]]


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
