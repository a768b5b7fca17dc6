"""New rows as the training table had them: cells of text become numbers, categories and times, or are named as bad."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.cli.csv_cells import MISSING, TRUTH, TablePart
from rue.core.errors import DataError
from rue.core.schema import Schema, TableColumn
from rue.reports.phrases import listing

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 40  # characters of a cell in a message


class Typed(NamedTuple):
    """Rows with the columns of training, and for every row why it cannot be used: "" where it can."""

    frame: Any  # a data frame, or an array for a model that knows no names
    problem: NDArray[np.object_]


def typed(part: TablePart, schema: Schema, name: str) -> Typed:
    """The columns of training in their order, of some rows of the table with this name."""
    import pandas as pd

    raw = part.frame

    places = {str(column): column for column in raw.columns}
    underscored = {own.replace(" ", "_"): column for own, column in places.items()}  # LightGBM keeps no spaces
    found = [places.get(own, underscored.get(own)) for own in schema.names]
    lacking = [own for own, column in zip(schema.names, found, strict=True) if column is None]
    if lacking:
        raise DataError(
            f"{name} lacks {listing(lacking)}, which the model was trained with; its columns are "
            f"{listing([str(column) for column in raw.columns])}; add what is missing"
        )
    problem = part.problem.copy()
    columns = schema.columns or (None,) * len(found)
    made = {}
    for own, place, column in zip(schema.names, found, columns, strict=True):
        values = raw[place].reset_index(drop=True)
        made[own] = values if column is None and not _of_text(values) else _column(values, column, problem)
    return Typed(pd.DataFrame(made), problem)


def _column(values: "pd.Series[Any]", column: TableColumn | None, problem: NDArray[np.object_]) -> "pd.Series[Any]":
    import pandas as pd

    kind = "numbers" if column is None else column.kind
    if kind == "nothing":
        return pd.Series(np.full(len(values), np.nan))
    if kind == "numbers":
        return _numbers(values, problem) if _of_text(values) else values
    if kind == "categories" and column is not None and column.levels is not None:
        return _categories(values, column.levels, problem)
    if kind == "times":
        return _times(values, problem) if _of_text(values) else values
    return values.astype(object).where(values.notna(), np.nan) if _of_text(values) else values


def _of_text(values: "pd.Series[Any]") -> bool:
    return values.dtype.kind not in "iufbmM" and not hasattr(values, "cat")


def _numbers(values: "pd.Series[Any]", problem: NDArray[np.object_]) -> "pd.Series[Any]":
    import pandas as pd

    read = pd.to_numeric(values, errors="coerce")
    if not read.isna().any():
        return read
    words = values.astype(object).where(read.isna() & values.notna(), "").astype(str).str.strip()
    strange = ~words.isin(MISSING)
    said = words.map(TRUTH).astype(float)
    _mark(problem, strange & said.isna(), values, "no number, as in training")
    return read.where(said.isna(), said)


def _times(values: "pd.Series[Any]", problem: NDArray[np.object_]) -> "pd.Series[Any]":
    import pandas as pd

    read = pd.to_datetime(values, errors="coerce")
    _mark(problem, read.isna() & ~values.isin(MISSING) & values.notna(), values, "no date or time, as in training")
    return read


def _categories(values: "pd.Series[Any]", levels: tuple[Any, ...], problem: NDArray[np.object_]) -> "pd.Series[Any]":
    """Codes of the categories of training; texts of a CSV stand for categories that are numbers, too."""
    import pandas as pd

    given = values.astype(object)
    truth = {word: value for word, value in TRUTH.items() if any(level is value for level in levels)}
    known = truth | {str(level): level for level in levels} | {level: level for level in levels}
    absent = MISSING - {level for level in levels if isinstance(level, str)}
    missing = given.isna() | given.isin(absent)
    read = given.map(known)
    _mark(problem, read.isna() & ~missing, values, "no category that training had")
    return pd.Series(pd.Categorical(read, dtype=pd.CategoricalDtype(pd.Index(levels))))


def _mark(problem: NDArray[np.object_], bad: "pd.Series[Any]", values: "pd.Series[Any]", what: str) -> None:
    for row in np.flatnonzero(bad.to_numpy()):
        if not problem[row]:
            problem[row] = f"{values.name} is {str(values.iloc[row])[:SHOWN]!r}, {what}"
