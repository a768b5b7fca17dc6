"""Refuses columns of pandas whose index says that their rows are in another order than those beside them."""

from collections import Counter
from typing import Any

from rue.core.errors import DataError, RueError


def refuse_another_order(rows: Any, wrong: type[RueError] = DataError, **beside: Any) -> None:
    """Raise `wrong` if a column has the index of the `rows`, a table or an index, in another order.

    Other labels are no mistake, for targets of a forecast have the dates of later rows; nor is a column that counts
    its rows from zero, for one that was made anew does so.

    >>> import pandas as pd
    >>> refuse_another_order(pd.DataFrame({"x": [1, 2]}), group=pd.Series(["a", "b"], index=[7, 8]))
    """
    index = _index(rows)
    if index is None:
        return
    for name, column in beside.items():
        own = _index(column)
        if own is None or len(own) != len(index) or own.equals(index) or _counts(own) or Counter(own) != Counter(index):
            continue
        pairs = enumerate(zip(map(str, own), map(str, index), strict=True))  # missing labels cannot be compared
        row = next((row for row, (here, there) in pairs if here != there), 0)
        raise wrong(
            f"the index of {name} has the labels of the rows in another order, the first difference at row {row}: "
            f"{str(own[row])!r} beside {str(index[row])!r}; rows go by position: give {name}.loc[rows.index], or "
            f"{name}.to_numpy() if the order is right and the index is not"
        )


def _counts(index: Any) -> bool:
    from pandas import RangeIndex

    return bool(index.equals(RangeIndex(len(index))))


def _index(column: Any) -> Any:
    """The index of a frame or a Series, or an index itself; None for anything else."""
    if hasattr(column, "iloc"):
        return column.index
    return column if hasattr(column, "get_indexer") else None
