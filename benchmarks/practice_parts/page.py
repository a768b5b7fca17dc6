"""The tables of docs/practice.md, from the results kept beside it.

A table stands in the page between `<!-- table NAME -->` and `<!-- end of table -->`; a name is `data`, `label`,
or a half and a kind.
"""

from pathlib import Path

import pandas as pd

from practice_parts.summary import markdown
from practice_parts.tables import CLASSES, HALVES, REGRESSION

DOCS = Path(__file__).parents[2] / "docs"
PAGE, DATA, RESULTS = DOCS / "practice.md", DOCS / "practice" / "data.csv", DOCS / "practice" / "results.csv"
END = "<!-- end of table -->\n"


def keep(data: pd.DataFrame, results: pd.DataFrame) -> None:
    """Keep what the page is made of: the tables of data, and a row for each of them and each audit."""
    DATA.parent.mkdir(exist_ok=True)
    data.to_csv(DATA, index=False)
    results.to_csv(RESULTS, index=False, float_format="%.5g")


def renewed() -> str:
    """The page with its tables made anew."""
    results, text = pd.read_csv(RESULTS), PAGE.read_text()
    made = {f"{half} {kind}": markdown(results, half, kind) for half in HALVES for kind in (REGRESSION, CLASSES)}
    made["data"] = _listed(pd.read_csv(DATA, dtype=str).fillna(""))
    made["label"] = f"The audits below are those of the run labelled *{results['label'].iloc[0]}*.\n"
    for name, table in made.items():
        text = with_table(text, name, table)
    return text


def with_table(text: str, name: str, table: str) -> str:
    """The text with the table of this name in place of the one it has."""
    start = f"<!-- table {name} -->\n"
    before, rest = text.split(start)
    return before + start + (table or "Not run yet.\n") + END + rest.split(END, 1)[1]


def _listed(data: pd.DataFrame) -> str:
    lines = ["| " + " | ".join(data.columns) + " |", "|" + "---|" * len(data.columns)]
    lines += ["| " + " | ".join(row) + " |" for row in data.itertuples(index=False)]
    return "\n".join(lines) + "\n"
