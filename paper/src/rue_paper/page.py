"""The results of `rue paper` as Markdown and in the terminal, read back from the files it wrote."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from rue_paper import beyond_page
from rue_paper.coverage import LEVEL, MARKS
from rue_paper.coverage import METHODS as KINDS
from rue_paper.coverage import findings as coverage_findings
from rue_paper.fidelity import SHOWN
from rue_paper.figure2 import METHODS
from rue_paper.intervals import CONSTANT, LEVELS
from rue_paper.markdown import TableRows, crossed, markdown, read
from rue_paper.parts import REFITS
from rue_paper.protocol import LARGE, TITLES
from rue_paper.published import COLUMNS
from rue_paper.table1 import INTEGRATED

if TYPE_CHECKING:
    import pandas as pd

NLL_TITLE = "Negative log likelihood ± standard error (the paper's)"
COVERAGE_TITLE = "coverage, % ± standard error over splits, which share rows (target); ✗ missed, ⚠ but warned"
WIDTH_TITLE = f"mean width in units of the target (over that of {CONSTANT})"


def write(folder: Path, outputs: Sequence[str]) -> str:
    """Some of a folder's results as one page."""
    parts = ["# The paper's experiments, by `rue paper`", times(folder)]
    for name in outputs:
        title, sections = SECTIONS[name]
        parts += [f"## {title}", *(section(folder) for section in sections)]
    return "\n\n".join(parts) + "\n"


def show(folder: Path, outputs: Sequence[str], console: Console) -> None:
    """The tables compared with the paper's numbers, a row for each data set."""
    shown: list[tuple[str, str, Callable[[pd.DataFrame], TableRows], Sequence[str]]] = [
        ("table1", NLL_TITLE, lambda frame: nll(frame, "paper"), COLUMNS),
        ("table1", f"{NLL_TITLE}, nine tenths of every set train", lambda frame: nll(frame, "standard"), COLUMNS),
        ("figure2", "Mean AUC over tolerances, pooled over splits", lambda frame: auc(frame, "{auc:.3f}"), METHODS[:7]),
        (
            "fidelity",
            f"Spearman correlation with {REFITS} refits",
            lambda frame: by_data(frame, "spearman", "{:.3f}"),
            SHOWN,
        ),
        ("coverage", f"{LEVEL:.0%} intervals: {COVERAGE_TITLE}", lambda frame: covered(frame, LEVEL), KINDS),
        ("coverage", f"{LEVEL:.0%} intervals: {WIDTH_TITLE}", widths, KINDS),
        ("beyond", beyond_page.NLL, lambda frame: beyond_page.scores(frame, "nll"), beyond_page.METHODS),
    ]
    for name, title, rows, columns in shown:
        if name in outputs:
            lines = rows(read(folder, name))
            kept = [lines[0], *(row for row in lines if row[0] in columns)]
            table = Table(title=title, title_justify="left")
            for column in ["data", *(row[0] for row in kept[1:])]:
                table.add_column(column, justify="left" if column == "data" else "right")
            for cells in list(zip(*kept, strict=True))[1:]:
                table.add_row(*cells)
            console.print(table)


def nll(frame: "pd.DataFrame", protocol: str) -> TableRows:
    """Table 1: a row for each method, a column for each data set; a small set is the same under both protocols."""
    names = list(dict.fromkeys(frame["data"]))
    rows = [["method", *(TITLES[name] for name in names)]]
    for method in dict.fromkeys(frame["method"]):
        published = protocol == "paper" or method in INTEGRATED
        cells = [_beside(frame, protocol if name in LARGE else "paper", name, method, published) for name in names]
        if any(cells):
            rows.append([method, *cells])
    return rows


def auc(frame: "pd.DataFrame", form: str = "{auc:.3f} ({low:.2f}–{high:.2f})") -> TableRows:
    """Mean AUC, with its band over splits."""
    means = frame[frame["percentile"] == "mean"]
    return crossed(means, lambda row: form.format(**row))


def by_data(frame: "pd.DataFrame", column: str, form: str) -> TableRows:
    """A column of a table, a row for each method."""
    kept = frame[frame[column].notna()]
    return crossed(kept, lambda row: form.format(row[column]))


def variances(frame: "pd.DataFrame") -> TableRows:
    """Variance over the refits', median over splits (smallest to largest), and in how many splits members drifted."""

    def cell(row: dict[Any, Any]) -> str:
        median, low, high = (_short(row[name]) for name in ("variance_ratio", "smallest", "largest"))
        return f"{median} ({low}–{high})" + (f" ⚠ {row['drifted']}" if row["drifted"] else "")

    return crossed(frame[frame["variance_ratio"].notna()], cell)


def covered(frame: "pd.DataFrame", level: float) -> TableRows:
    """A table of the coverage of intervals, with its target."""

    def cell(row: dict[Any, Any]) -> str:
        numbers = (f"{100 * row[name]:.1f}" for name in ("coverage", "error", "target"))
        return "{} ± {} ({})".format(*numbers) + MARKS[row["verdict"]]

    return crossed(frame[frame["level"] == level], cell)


def widths(frame: "pd.DataFrame") -> TableRows:
    """A table of mean widths of intervals, and their ratio to intervals of one width for all rows."""
    main = frame[frame["level"] == LEVEL]
    return crossed(main, lambda row: f"{row['width']:.3g} ({row['relative_width']:.2f})")


def costs(frame: "pd.DataFrame") -> TableRows:
    """A table of seconds and ratios."""
    head = [
        "data",
        "closed form, s",
        "refits batched, s",
        "refits one by one, s",
        "batched / closed",
        "one by one / closed",
    ]
    forms = ("{:.3f}", "{:.2f}", "{:.0f}", "{:.0f}", "{:,.0f}")
    return [
        head,
        *(
            [TITLES[str(name)], *(form.format(value) for form, value in zip(forms, values, strict=True))]
            for name, *values in frame.itertuples(index=False)
        ),
    ]


def times(folder: Path) -> str:
    """How the run was made, in a sentence."""
    facts = json.loads((folder / "facts.json").read_text())
    parts = ", ".join(f"{part} {value:,.0f} s" for part, value in facts["seconds_by_part"].items())
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    resumed = " (some of the work was found finished)" if facts["resumed"] else ""
    return (
        f"{facts['splits']} splits, {facts['processes']} processes on {facts['device']}, "
        f"{facts['wall_seconds']:,.0f} s in all{resumed}. "
        f"Seconds by part, summed over processes: {parts or 'none'}. {versions}."
    )


def findings(folder: Path) -> str:
    """Claim 1 in sentences."""
    return "\n".join(f"- {line}" for line in (folder / "claim1.txt").read_text().splitlines())


def _picture(name: str, text: str) -> Callable[[Path], str]:
    return lambda _: f"![{text}]({name}.svg)"


def _coverage_at(level: float) -> Callable[[Path], str]:
    title = f"{level:.0%} intervals: {COVERAGE_TITLE}."
    return lambda folder: f"{title}\n\n{markdown(covered(read(folder, 'coverage'), level))}"


SECTIONS: dict[str, tuple[str, list[Callable[[Path], str]]]] = {
    "figure1": ("Figure 1", [_picture("figure1", "The simulated illustration: data, gradients, kernel")]),
    "claim1": ("Claim 1", [_picture("claim1", "Errors of the closed form by cause"), findings]),
    "figure2": (
        "Figure 2",
        [
            _picture("figure2", "AUC against tolerance, the paper's methods"),
            _picture("figure2_more", "AUC against tolerance, more methods"),
            lambda folder: markdown(auc(read(folder, "figure2"))),
        ],
    ),
    "fidelity": (
        "Fidelity",
        [
            _picture("fidelity", "Agreement with real refits"),
            lambda folder: markdown(by_data(read(folder, "fidelity"), "spearman", "{:.3f}")),
            lambda folder: markdown(variances(read(folder, "fidelity"))),
            lambda folder: markdown(costs(read(folder, "costs"))),
        ],
    ),
    "table1": (
        "Table 1",
        [
            lambda folder: markdown(nll(read(folder, "table1"), "paper")),
            lambda folder: markdown(nll(read(folder, "table1"), "standard")),
        ],
    ),
    "coverage": (
        "Coverage of intervals",
        [
            _picture("coverage", "Coverage minus target, and widths"),
            lambda folder: "\n".join(f"- {line}" for line in coverage_findings(read(folder, "coverage"))),
            *(_coverage_at(level) for level in LEVELS),
            lambda folder: f"{LEVEL:.0%} intervals: {WIDTH_TITLE}.\n\n{markdown(widths(read(folder, 'coverage')))}",
        ],
    ),
    "beyond": ("Beyond the paper", [beyond_page.write]),
}


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def _beside(frame: "pd.DataFrame", protocol: str, name: str, method: str, published: bool) -> str:
    """Our number ± error (the paper's in brackets); empty where there is none."""
    matching = frame[(frame["protocol"] == protocol) & (frame["data"] == name) & (frame["method"] == method)]
    if matching.empty:
        return ""
    row = matching.iloc[0]
    ours = f"{row['nll']:.2f} ± {row['error']:.2f}"
    if not published or np.isnan(row["published"]):
        return ours
    return f"{ours} ({row['published']:.2f} ± {row['published_error']:.2f})"
