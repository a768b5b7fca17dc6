"""The training rows as the user knows them: ids, groups, columns."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rue.core.arrays import Array, Whole
from rue.data.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = 200  # maximum number of columns shown beside an influence; wider tables are images and the like


@dataclass(frozen=True)
class TrainingTable:
    """The training data as the user gave it, by row and by unit."""

    data: Rows = field(repr=False)
    noun: str  # the user's word for the units

    @cached_property
    def unit(self) -> Whole:
        """The unit of each row: (n,)."""
        return self.data.unit.numpy().astype(np.int64)

    @property
    def grouped(self) -> bool:
        """Whether the units are groups the user gave."""
        return self.data.source.group is not None

    @property
    def called(self) -> str:
        """The name of the column of labels."""
        return "group" if self.grouped else "row"

    @cached_property
    def label(self) -> NDArray[Any]:
        """The user's name of each unit: (u,)."""
        first = np.zeros(self.data.units, dtype=np.int64)
        first[self.unit[::-1]] = np.arange(self.data.n)[::-1]
        if not self.grouped:
            return row_ids(self.data)[first]
        return np.asarray(self.data.source.group)[self.data.ids.numpy()][first]

    def largest(self, values: Array) -> Whole:
        """The row of each unit whose value (n,) is largest: (u,)."""
        if self.data.units == self.data.n:
            return self._only
        order = np.lexsort((values, self.unit))  # by unit, then by value
        last = np.cumsum(np.bincount(self.unit, minlength=self.data.units)) - 1
        return order[last]

    @cached_property
    def _only(self) -> Whole:
        """The row of each unit, if every unit has one row."""
        return np.argsort(self.unit)

    def columns(self, rows: Whole) -> "pd.DataFrame | None":
        """The user's columns and target of some rows; None if the data is no table or too wide."""
        import pandas as pd

        taken, X = self.data.ids.numpy()[rows], self.data.source.X
        if isinstance(X, pd.DataFrame):
            frame = X.iloc[taken]
        else:
            table = X.detach().cpu().numpy() if isinstance(X, Tensor) else X
            if not isinstance(table, np.ndarray) or table.ndim != 2 or table.shape[1] > COLUMNS:
                return None
            frame = pd.DataFrame(table[taken], columns=[f"x{j}" for j in range(table.shape[1])])
        if len(frame.columns) > COLUMNS:
            return None
        return pd.concat([frame.reset_index(drop=True), *self._target(taken)], axis=1)

    def _target(self, taken: Whole) -> "list[pd.Series]":
        import pandas as pd

        y = self.data.source.y
        values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)[taken]
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        name = y.name if isinstance(y, pd.Series) else y.columns[0] if isinstance(y, pd.DataFrame) else None
        return [pd.Series(values, name="target" if name is None else name)] if values.ndim == 1 else []


def row_ids(data: Rows) -> NDArray[Any]:
    """The user's id of each training row (n,)."""
    return named(data.source.X, data.ids.numpy())


def named(source: Any, numbers: Whole) -> NDArray[Any]:
    """The index entries of these rows for a data frame, else the numbers themselves."""
    index = getattr(source, "index", None)
    return numbers if index is None or callable(index) else np.asarray(index)[numbers]
