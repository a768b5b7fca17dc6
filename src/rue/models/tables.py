"""Raw tables as tree libraries take them, as stored models number them, and as points to measure distances on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.concepts import LEVELS, POINTS
from rue.core.errors import DataError, ModelError


def table(inputs: Any) -> Any:
    """A frame or an array, as an estimator takes it."""
    if isinstance(inputs, Tensor):
        inputs = inputs.detach().cpu().numpy()
    found = inputs if hasattr(inputs, "columns") or hasattr(inputs, "toarray") else np.asarray(inputs)
    if found.ndim != 2:
        raise DataError(f"inputs have {found.ndim} dimensions, expected a table of rows and features (n, p)")
    return found


def stored(path: Path) -> bytes:
    """A model file, or what to do where there is none."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}); give the path of a stored model") from error


def named(raw: Any, names: Sequence[str], where: str) -> Any:
    """A frame with the columns that a stored model was trained on, in its order; arrays go by position."""
    if not hasattr(raw, "columns"):
        return raw
    own = [str(name).replace(" ", "_") for name in raw.columns]
    if not names or own == list(names) or not set(own) & set(names):
        return raw  # the same, or names that say nothing (Column_0, f0)
    missing = [name for name in names if name not in own]
    if missing:
        raise DataError(f"{where} was trained on columns that the inputs lack: {', '.join(missing[:5])}")
    return raw[[raw.columns[own.index(name)] for name in names]]


def recoded(raw: Any, categories: Sequence[Sequence[Any]]) -> Any:
    """A frame whose categorical columns are numbered as in training."""
    found = [name for name in getattr(raw, "columns", []) if hasattr(raw[name], "cat")]
    if not found:
        return raw
    if len(found) != len(categories):
        raise DataError(
            f"the inputs have {len(found)} categorical columns, the stored model {len(categories)}; give the columns "
            "of training with the types they had"
        )
    return raw.assign(
        **{name: raw[name].cat.set_categories(known) for name, known in zip(found, categories, strict=True)}
    )


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


def described(inputs: Any) -> dict[str, NDArray[Any]]:
    """The table as points to measure distances on (n, p), missing numbers NaN, and its categories as levels (n, q).

    The same category is the same number in every table.
    """
    found = table(inputs)
    found = found.to_pandas() if hasattr(found, "to_pandas") else found  # polars
    if hasattr(found, "toarray") or not (hasattr(found, "columns") or found.dtype == object):
        return {POINTS: numbers(found)}
    columns = [found[name] for name in found.columns] if hasattr(found, "columns") else list(found.T)
    read = [(_number(column), column) for column in columns]
    numbered = [values for values, _ in read if values is not None]
    named = [_levels(column) for values, column in read if values is None]
    parts = {POINTS: np.stack(numbered, axis=1) if numbered else np.zeros((len(found), 0))}
    return {**parts, LEVELS: np.stack(named, axis=1)} if named else parts


def as_points(inputs: dict[str, Any]) -> dict[str, Tensor]:
    """What `described` found, as tensors."""
    found = {
        name: torch.as_tensor(np.ascontiguousarray(inputs[name]), dtype=torch.float64)
        for name in (POINTS, LEVELS)
        if name in inputs
    }
    return {name: torch.nan_to_num(part, torch.nan, 0.0, 0.0) for name, part in found.items()}


def _number(column: Any) -> NDArray[np.float64] | None:
    """A column of numbers (n,), missing ones NaN; None for categories and words."""
    if hasattr(column, "cat"):
        return None
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _levels(column: Any) -> NDArray[np.float64]:
    """Categories (n,) by their labels: codes would change with the other rows of their table; missing is −1."""
    from pandas import factorize

    codes, labels = factorize(np.asarray(column, dtype=object))
    return np.array([*(float(crc32(str(label).encode())) for label in labels), -1.0])[codes]


def _columns(columns: list[Any], n: int, dtype: Any) -> NDArray[Any]:
    kept = []
    for column in columns:
        values = column.cat.codes.to_numpy() if hasattr(column, "cat") else column
        try:
            kept.append(np.asarray(values, dtype=dtype))
        except (TypeError, ValueError):
            continue
    return np.stack(kept, axis=1) if kept else np.zeros((n, 1), dtype=dtype)
