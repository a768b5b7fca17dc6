"""What the commands show: rows for people at a terminal, summaries, explanations."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rue.auditing.auditor import Auditor
from rue.cli.auditing import PROBLEM, ROW, TIER, RowsAudit, Tally
from rue.cli.fitting import all_usable
from rue.cli.tables import Table
from rue.core.errors import DataError
from rue.reports.phrases import of

if TYPE_CHECKING:
    import pandas as pd

WIDE = 7  # columns that fit into 80 characters
DIGITS = 4

Told = tuple[str, dict[str, Any]]
"""A text for people and the same for programs."""


def table_of_rows(tally: Tally) -> None:
    """The rows with the highest scores, as a table."""
    from rich.console import Console
    from rich.table import Table as Drawn

    if tally.worst is None:
        return
    frame = tally.worst
    if "total_std" in frame and np.allclose(frame["total_std"], frame["score"], equal_nan=True):
        frame = frame.drop(columns="score")  # the same number
    frame = frame.iloc[:, :WIDE]
    drawn = Drawn(title=f"The {len(frame)} most doubtful of {tally.rows} rows", title_justify="left")
    for name in frame.columns:
        drawn.add_column(str(name), justify="left" if frame[name].dtype.kind not in "iuf" else "right")
    for values in frame.itertuples(index=False):
        drawn.add_row(*(_cell(value) for value in values))
    Console().print(drawn)


def summary(job: RowsAudit, out: str | None, seconds: float) -> Told:
    """How many rows were audited, and what became of them."""
    tally = job.tally
    facts = {
        "method": job.auditor.method,
        "rows": tally.rows,
        "marked": tally.marked,
        "scarce": tally.scarce,
        "tiers": dict(tally.tiers) if tally.tiers else None,
        "share_refused": tally.share_refused if tally.tiers else None,
        "level": job.level,
        "guarantee": tally.guarantee or None,
        "out": out,
        "seconds": seconds,
        "warnings": list(tally.warned),
    }
    lines = [f"{tally.rows:,} rows audited by {job.auditor.method} in {seconds:.1f} s" + (f": {out}" if out else "")]
    if tally.tiers:
        lines.append(", ".join(f"{tier} {of(count, tally.rows)}" for tier, count in tally.tiers.items()))
    if tally.scarce:
        lines.append(f"{of(tally.scarce, tally.rows)} are unlike the training rows")
    if tally.marked:
        lines.append(f"{of(tally.marked, tally.rows)} could not be audited: the column {PROBLEM!r} says why")
    if tally.guarantee:
        lines.append(f"{job.level:.0%} intervals: {tally.guarantee}")
    return "\n".join(lines), facts


def explained(
    auditor: Auditor, table: Table, row: int | None, who: tuple[str | None, str | None], top: int, noun: str
) -> Told:
    """Why the prediction of one row is uncertain."""
    found, number = _row(table, row, who)
    audit = auditor.audit(all_usable(found, auditor, table.name, [each for each in who[:1] if each], number))
    why = audit.explain(0, top=top, noun=noun)
    frame = audit.to_frame().drop(columns="percentile")
    rows = why.to_frame(top=top)
    facts = {
        ROW: number,
        "prediction": audit.prediction[0],
        "score": audit.score[0],
        "sentence": why.sentence,
        "training": rows.to_dict("records"),
    }
    said = "\n".join(f"  {name}: {_cell(frame[name].iloc[0])}" for name in frame.columns)
    return f"row {number} of {table.name}\n{said}\n{why.sentence}\n{rows.round(DIGITS).to_string()}", facts


def _row(table: Table, row: int | None, who: tuple[str | None, str | None]) -> "tuple[pd.DataFrame, int]":
    """One row of a table, by its number or its id."""
    before = 0
    column, value = who
    for part, problem in table.parts():
        if column is not None and value is not None and column not in part:
            raise DataError(f"{table.name} has no column {column!r}, in which --who looks")
        places = [row - before] if row is not None else np.flatnonzero(part[column].astype(str) == value).tolist()
        if places and places[0] < len(part) and problem[places[0]]:
            raise DataError(f"row {before + places[0]} of {table.name} (the first is 0): {problem[places[0]]}")
        if places and places[0] < len(part):
            return part.iloc[[places[0]]].reset_index(drop=True), before + places[0]
        before += len(part)
    raise DataError(f"{table.name} has {before} rows, and no row {row if row is not None else value!r}")


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.{DIGITS}g}"
    return str(value)


__all__ = ["TIER", "Told", "explained", "summary", "table_of_rows"]
