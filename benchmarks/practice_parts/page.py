"""The tables of docs/practice.md, from the results kept beside it.

A table stands in the page between `<!-- table HALF KIND -->` and `<!-- end of table -->`.
"""

from pathlib import Path

import pandas as pd

from practice_parts.summary import markdown
from practice_parts.tables import CLASSES, HALVES, REGRESSION

DOCS = Path(__file__).parents[2] / "docs"
PAGE, RESULTS = DOCS / "practice.md", DOCS / "practice" / "tables.csv"
END = "<!-- end of table -->\n"


def keep(tables: pd.DataFrame) -> None:
    """Keep what the page is made of: a row for each table of data and audit."""
    RESULTS.parent.mkdir(exist_ok=True)
    tables.to_csv(RESULTS, index=False, float_format="%.5g")


def renewed() -> str:
    """The page with its tables made anew."""
    tables, text = pd.read_csv(RESULTS), PAGE.read_text()
    for half in HALVES:
        for kind in (REGRESSION, CLASSES):
            start = f"<!-- table {half} {kind} -->\n"
            before, rest = text.split(start)
            text = before + start + markdown(tables, half, kind) + END + rest.split(END, 1)[1]
    return text
