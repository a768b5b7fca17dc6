"""Data frames as data: numbers, words, categories and times by columns, for audits that keep their training rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.errors import SettingError
from rue.core.stored import storable

PLAIN = (str, bool, int, float, type(None))  # what cells that are no numbers may hold
LARGEST = 8  # bytes of a number


def _plain(cell: Any) -> bool:
    """Whether a cell can stand in a file; texts with half of a surrogate pair cannot."""
    if isinstance(cell, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in cell)
    return isinstance(cell, PLAIN)


@storable
@dataclass(frozen=True)
class StoredColumn:
    """The values of a column, or the codes of its categories, and what pandas calls its type."""

    dtype: str
    values: NDArray[Any] = field(repr=False)
    categories: "StoredColumn | None" = field(default=None, repr=False)
    ordered: bool = False

    @classmethod
    def of(cls, column: Any, what: str) -> "StoredColumn":
        """A column, or an index; `what` it is, for an error."""
        if not hasattr(column, "levels") and (hasattr(column, "cat") or hasattr(column, "codes")):
            held = column.cat if hasattr(column, "cat") else column
            levels = cls.of(held.categories, f"the categories of {what}")
            return cls("category", np.asarray(held.codes), levels, bool(held.ordered))
        dtype = column.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "iufbmM" and dtype.itemsize <= LARGEST:
            return cls(str(dtype), column.to_numpy())
        if str(dtype) in ("object", "str"):
            cells = np.asarray(column.astype(object), dtype=object)
            if all(_plain(cell) for cell in cells):
                return cls(str(dtype), cells)
        raise SettingError(
            f'rows="all" stores numbers, words, categories and times, and {what} holds {dtype} or other cells; '
            'save with rows="ids", and hand rue.load(path, model, data=...) the same rows where they are needed'
        )

    def read(self) -> Any:
        """The values as pandas takes them."""
        import pandas as pd

        if self.categories is not None:
            levels = pd.Index(self.categories.read())
            return pd.Categorical.from_codes(self.values, dtype=pd.CategoricalDtype(levels, self.ordered))
        if self.dtype in ("str", "object"):
            return pd.Series(self.values, dtype="str" if self.dtype == "str" else object).array
        return np.asarray(self.values)


@storable
@dataclass(frozen=True)
class StoredFrame:
    """A data frame, or with `single` its one column, a Series."""

    names: tuple[Any, ...]
    columns: tuple[StoredColumn, ...] = field(repr=False)
    index: StoredColumn = field(repr=False)
    index_name: str | None
    single: bool = False

    @classmethod
    def of(cls, table: Any) -> "StoredFrame":
        """A frame or Series of pandas."""
        single = table.ndim == 1
        frame = table.to_frame() if single else table
        names = ["the targets"] if single else [f"the column {name!r}" for name in frame.columns]
        parts = tuple(StoredColumn.of(frame.iloc[:, place], what) for place, what in enumerate(names))
        name = frame.index.name
        named = tuple(each if isinstance(each, PLAIN) else str(each) for each in frame.columns)
        return cls(named, parts, StoredColumn.of(frame.index, "the index"), None if name is None else str(name), single)

    def read(self) -> Any:
        """The table again."""
        import pandas as pd

        index = pd.Index(self.index.read(), name=self.index_name)
        frame: Any = pd.DataFrame(index=index)
        for place, column in enumerate(self.columns):
            values = column.read()
            frame.insert(place, place, pd.Series(values, index=index, dtype=values.dtype))
        frame.columns = pd.Index(np.array(self.names, dtype=object))
        return frame[self.names[0]] if self.single else frame
