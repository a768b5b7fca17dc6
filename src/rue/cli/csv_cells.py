"""CSV cell by cell: rows of another length are known, empty cells missing, and types told as pandas tells them."""

import csv
import io
import re
import warnings
from collections.abc import Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from rue.core.errors import DataError, RueWarning

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PART = 16_384  # rows at once: a whole number of the batches that an audit is made in, so that parts change no bits
# What pandas takes for a missing number in CSV.
MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"}
MISSING |= {"NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
TRUTH = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
PADDED = re.compile(r"0\d+")


class TablePart(NamedTuple):
    """Some rows of a table, and what is wrong with the way in which they are written: "" where nothing is."""

    frame: "pd.DataFrame"
    problem: "NDArray[np.object_]"


def joined(parts: list[TablePart]) -> TablePart:
    """Parts as one."""
    import pandas as pd

    if len(parts) == 1:
        return TablePart(parts[0].frame.reset_index(drop=True), parts[0].problem)
    if not parts:
        return TablePart(pd.DataFrame(), np.empty(0, dtype=object))
    frames, problems = zip(*parts, strict=True)
    return TablePart(pd.concat(frames, ignore_index=True), np.concatenate(problems))


def csv_table(content: bytes, texts: Collection[str], name: str) -> "pd.DataFrame":
    """A table of CSV; in columns of text only empty cells are missing, because NA may be a category there."""
    import pandas as pd

    written = joined(list(csv_parts(io.BytesIO(content), name)))
    wrong = np.flatnonzero(written.problem != "")
    if len(wrong):
        raise DataError(f"row {wrong[0]} of {name} (the first is 0): {written.problem[wrong[0]]}")
    typed = {column: _told(written.frame[column], column, name) for column in written.frame if column not in texts}
    return pd.DataFrame({column: typed.get(column, written.frame[column]) for column in written.frame})


def _told(cells: "pd.Series[Any]", column: Any, name: str) -> "pd.Series[Any]":
    """A column of cells as pandas tells its type: numbers, or truth values, or text."""
    import pandas as pd

    present = cells.dropna()
    if len(present) and present.isin(TRUTH).all():
        said = cells.map(TRUTH)
        return said.astype(bool) if len(present) == len(cells) else said.astype(object)
    known = cells.where(~cells.isin(MISSING))
    numbers = pd.to_numeric(known, errors="coerce")
    if (numbers.isna() & known.notna()).any() or not known.notna().any():
        return cells if known.notna().any() else numbers
    padded = present[present.str.fullmatch(PADDED)]
    if len(padded):
        warnings.warn(
            f"{column} of {name} is read as numbers, and {padded.iloc[0]!r} is written with a zero before it: if these "
            f"are codes, say --text {column}",
            RueWarning,
            stacklevel=2,
        )
    return numbers


def csv_parts(file: BinaryIO, name: str) -> Iterator[TablePart]:
    """Rows of CSV as they are written, empty cells missing; a row with too few or too many cells says so."""
    import pandas as pd

    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    lines = csv.reader(text, strict=True)  # a quote that is not closed would swallow rows
    try:
        header = next(lines, [])
        _refuse_header(header, name)
        wide = len(header)
        while rows := list(islice((row or [""] for row in lines if row or wide == 1), PART)):
            problem = np.full(len(rows), "", dtype=object)
            for number, row in enumerate(rows):
                if len(row) != wide:
                    problem[number] = f"it has {len(row)} cells, and the header {wide}"
                    rows[number] = (row + [""] * wide)[:wide]
            cells = np.array(rows, dtype=object).reshape(len(rows), wide)
            cells[cells == ""] = None
            yield TablePart(pd.DataFrame(dict(zip(header, cells.T, strict=True)), dtype=object), problem)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DataError(f"{name} is not written in UTF-8 ({byte:#x}); as by iconv -f latin1 -t utf8") from error
    except csv.Error as error:
        raise DataError(f"{name} is no CSV ({error}): is a quote opened and not closed? Write it again") from error
    finally:
        text.detach()


def _refuse_header(header: list[str], name: str) -> None:
    other = next((mark for mark in (";", "\t") if len(header) == 1 and mark in header[0]), None)
    if other is not None:
        raise DataError(f"the cells of {name} seem to be separated by {other!r}; write them with commas between")
    refuse_twice(header, name)


def refuse_twice(names: list[Any], name: str) -> None:
    """Raise for a column that comes twice."""
    twice = next((each for place, each in enumerate(names) if each in names[:place]), None)
    if twice is not None:
        raise DataError(f"{name} has the column {twice!r} twice; give each column a name of its own")
