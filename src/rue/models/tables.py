"""Raw tables as tree libraries take them, and as points that distances are measured on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rue.errors import DataError


def table(inputs: Any) -> Any:
    """A frame or an array, as an estimator takes it."""
    if isinstance(inputs, Tensor):
        inputs = inputs.detach().cpu().numpy()
    found = inputs if hasattr(inputs, "columns") or hasattr(inputs, "toarray") else np.asarray(inputs)
    if found.ndim != 2:
        raise DataError(f"inputs have {found.ndim} dimensions, expected a table of rows and features (n, p)")
    return found


def numbers(inputs: Any, dtype: Any = np.float64) -> NDArray[Any]:
    """The table as numbers (n, p), categories of a frame by their codes; what is neither has no place in distances.

    >>> numbers([[1, 2]])
    array([[1., 2.]])
    """
    found = table(inputs)
    if hasattr(found, "toarray"):
        return np.asarray(found.toarray(), dtype=dtype)
    if not hasattr(found, "columns"):
        return np.asarray(found, dtype=dtype) if found.dtype != object else _columns(list(found.T), len(found), dtype)
    if hasattr(found, "to_pandas"):  # polars
        found = found.to_pandas()
    return _columns([found[name] for name in found.columns], len(found), dtype)


def _columns(columns: list[Any], n: int, dtype: Any) -> NDArray[Any]:
    kept = []
    for column in columns:
        values = column.cat.codes.to_numpy() if hasattr(column, "cat") else column
        try:
            kept.append(np.asarray(values, dtype=dtype))
        except (TypeError, ValueError):
            continue
    return np.stack(kept, axis=1) if kept else np.zeros((n, 1), dtype=dtype)
