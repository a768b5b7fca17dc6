"""The columns of the table a model was fitted with; later tables are brought into that form, or refused by name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rue.core.errors import DataError
from rue.core.stored import storable

ColumnKind = Literal["numbers", "categories", "text", "times", "nothing"]
"""The kind of a column's values; "nothing" where all of them are missing."""

GENERIC = re.compile(r"(Column_|column_|f|x|X|)\d+")  # names that libraries give to the columns of an array
SHOWN = 5  # names in a message
MISSING = {"", "NA", "N/A", "NaN", "nan", "None", "null"}  # texts for a missing category, unless it is one


@storable
@dataclass(frozen=True)
class TableColumn:
    """The name, the kind of values and the categories of a column, in the order of their codes."""

    name: str
    kind: ColumnKind
    levels: tuple[Any, ...] | None = field(default=None, repr=False)


@storable
@dataclass(frozen=True)
class Schema:
    """The columns of the training table, or only their names where no more is known.

    >>> import pandas as pd
    >>> schema = Schema.of(pd.DataFrame({"age": [40, 50], "sex": pd.Categorical(["f", "m"])}))
    >>> schema.aligned(pd.DataFrame({"sex": ["m"], "age": [60.0]}))
        age sex
    0  60.0   m
    """

    names: tuple[str, ...]
    columns: tuple[TableColumn | None, ...] = field(default=(), repr=False)  # None where the name alone is known

    @classmethod
    def of(cls, frame: Any) -> "Schema":
        """The schema of a training table: of a pandas frame in full, of others the names."""
        names = tuple(str(name) for name in frame.columns)
        if not hasattr(frame, "iloc"):
            return cls(names)
        parts = (frame.iloc[:, place] for place in range(len(names)))
        return cls(names, tuple(TableColumn(name, *_kind(part)) for name, part in zip(names, parts, strict=True)))

    def aligned(self, table: Any) -> Any:
        """The table with these columns in their order and with their categories; anything but a frame is unchanged."""
        if not is_frame(table):
            return table
        frame = self._ordered(table)
        if not hasattr(frame, "iloc"):
            return frame
        changed = {}
        for place, column in enumerate(self.columns):
            values = None if column is None else _as_trained(frame.iloc[:, place], column)
            if values is not None:
                changed[place] = values
        if not changed:
            return frame
        new = frame.copy(deep=False)
        for place, values in changed.items():
            new.isetitem(place, values)
        return new

    def takes(self, name: Any) -> bool:
        """Whether one of the columns has this name."""
        return str(name) in self.names or str(name).replace(" ", "_") in self.names

    def _ordered(self, frame: Any) -> Any:
        own = [str(name) for name in frame.columns]
        if own == list(self.names):
            return frame
        twice = next((name for name in own if own.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"the inputs have the column {twice!r} twice; give each column of training once")
        places = {name: place for place, name in enumerate(own)}
        underscored = {name.replace(" ", "_"): place for name, place in places.items()}  # LightGBM keeps no spaces
        found = [places.get(name, underscored.get(name)) for name in self.names]
        missing = [name for name, place in zip(self.names, found, strict=True) if place is None]
        extra = [name for place, name in enumerate(own) if place not in set(found)]
        if missing or extra:
            lacks = f"lack {_listed(missing)}" if missing else ""
            has = f"have {_listed(extra)}, which training had not" if extra else ""
            both = " and ".join(part for part in (lacks, has) if part)
            raise DataError(f"the inputs {both}; give the columns of training by their names, in any order")
        return frame[[frame.columns[place] for place in found if place is not None]]


def is_frame(table: Any) -> bool:
    """Whether a table has named columns: of pandas, polars and the like."""
    return hasattr(table, "columns") and hasattr(table, "to_numpy")


def remembered(names: Sequence[str], levels: Mapping[int, Sequence[Any]] | None = None) -> Schema | None:
    """The schema that a trained model keeps itself: names, and the categories of columns by their place.

    None where there are no names, or such as libraries give to the columns of an array.
    """
    if all(GENERIC.fullmatch(name) for name in names):
        return None
    known = {place: TableColumn(names[place], "categories", tuple(of)) for place, of in (levels or {}).items()}
    return Schema(tuple(names), tuple(known.get(place) for place in range(len(names))))


def fitted_schema(table: Any, own: Schema | None) -> Schema | None:
    """The schema of a training table in the order that the model itself remembers; `own` for an array."""
    if not is_frame(table):
        return own
    return Schema.of(table if own is None else own.aligned(table))


def _kind(column: Any) -> tuple[ColumnKind, tuple[Any, ...] | None]:
    """The kind of a pandas column, and its categories."""
    if hasattr(column, "cat"):
        return "categories", tuple(column.cat.categories)
    letter = getattr(column.dtype, "kind", "O")
    if letter in "iub":
        return "numbers", None
    if letter in "mM":
        return "times", None
    if len(column) and bool(column.isna().all()):
        return "nothing", None
    if letter == "f":
        return "numbers", None
    from pandas.api.types import infer_dtype

    inferred = infer_dtype(column, skipna=True)
    if inferred in ("integer", "floating", "mixed-integer-float", "boolean", "decimal"):
        return "numbers", None
    return ("times" if inferred.startswith(("date", "time")) else "text"), None


def _as_trained(values: Any, column: TableColumn) -> Any:
    """The values as the column had them in training; None if they are so already."""
    kind, levels = _kind(values)
    if column.kind == "categories" and column.levels is not None:
        return None if levels == column.levels else _recoded(values, column.levels, column.name)
    if "nothing" in (kind, column.kind) or kind == column.kind:
        return None
    if column.kind == "text" and kind == "categories":
        return values.astype(object)
    present = np.flatnonzero(values.notna())
    row = int(present[0]) if len(present) else 0
    raise DataError(
        f"the column {column.name!r} had {column.kind} in training and has {kind} now, the first "
        f"{str(values.iloc[row])!r} at row {row}; give it the type it had in training"
    )


def _recoded(values: Any, levels: tuple[Any, ...], name: str) -> Any:
    """A column with the categories of training in their order; one that training had not is refused."""
    import pandas as pd

    given = np.asarray(values.astype(object), dtype=object)
    absent = MISSING - {level for level in levels if isinstance(level, str)}
    missing = np.array([value in absent if isinstance(value, str) else bool(pd.isna(value)) for value in given], bool)
    codes = pd.Index(levels, dtype=object).get_indexer(pd.Index(given, dtype=object))
    unseen = np.flatnonzero((codes < 0) & ~missing)
    if len(unseen):
        row = int(unseen[0])
        raise DataError(
            f"the column {name!r} has the category {str(given[row])!r} at row {row}, and {len(unseen)} of {len(given)} "
            f"rows have one that training had not: it had {_listed(levels)}; the model knows nothing of others, so "
            "that there is nothing to audit such rows by: leave them out"
        )
    dtype = pd.CategoricalDtype(pd.Index(levels))
    return pd.Series(pd.Categorical.from_codes(np.where(missing, -1, codes), dtype=dtype), index=values.index)


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
