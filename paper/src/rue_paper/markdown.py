"""Tables as Markdown, read back from the files they were written to."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rue_paper.protocol import TITLES

if TYPE_CHECKING:
    import pandas as pd

TableRows = list[list[str]]  # the first is the head


def read(folder: Path, name: str) -> "pd.DataFrame":
    """One of the tables that were written."""
    import pandas as pd

    return pd.read_csv(folder / f"{name}.csv")


def markdown(rows: TableRows) -> str:
    """A table in Markdown.

    >>> print(markdown([["a", "b"], ["1", "2"]]))
    | a | b |
    |---|---:|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---|" + "---:|" * (len(rows[0]) - 1), *lines[1:]])


def crossed(frame: "pd.DataFrame", cell: Callable[[dict[Any, Any]], str]) -> TableRows:
    """A row for each method, a column for each data set."""
    names = list(dict.fromkeys(frame["data"]))
    by = {(row["method"], row["data"]): cell(row) for row in frame.to_dict("records")}
    head = ["method", *(TITLES[name] for name in names)]
    methods = dict.fromkeys(frame["method"])
    return [head, *([method, *(by.get((method, name), "") for name in names)] for method in methods)]
