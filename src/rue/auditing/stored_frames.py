"""Data frames as data: numbers, words, categories and times by columns, for audits that keep their training rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.errors import SettingError
from rue.core.stored import storable

PLAIN = (str, bool, int, float, type(None))  # what cells that are no numbers may hold


@storable
@dataclass(frozen=True)
class StoredColumn:
    """The values of a column, or the codes of its categories, and what pandas calls its type."""

    dtype: str
    values: NDArray[Any] = field(repr=False)
    categories: "StoredColumn | None" = field(default=None, repr=False)
    ordered: bool = False

    @classmethod
    def of(cls, column: Any) -> "StoredColumn":
        """A column, or an index."""
        if hasattr(column, "cat") or hasattr(column, "codes"):
            held = column.cat if hasattr(column, "cat") else column
            return cls("category", np.asarray(held.codes), cls.of(held.categories), bool(held.ordered))
        dtype = column.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "iufbmM":
            return cls(str(dtype), column.to_numpy())
        cells = np.asarray(column.astype(object), dtype=object)
        if str(dtype) in ("object", "str") and all(isinstance(cell, PLAIN) for cell in cells):
            return cls(str(dtype), cells)
        raise SettingError(
            f'rows="all" stores columns of numbers, words, categories and times, and {column.name!r} holds {dtype}; '
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
        parts = tuple(StoredColumn.of(frame.iloc[:, place]) for place in range(frame.shape[1]))
        name = frame.index.name
        named = tuple(each if isinstance(each, PLAIN) else str(each) for each in frame.columns)
        return cls(named, parts, StoredColumn.of(frame.index), None if name is None else str(name), single)

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
