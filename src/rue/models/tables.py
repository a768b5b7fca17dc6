"""Raw tables as tree libraries take them, with the columns of stored models, and as points for distances."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.concepts import LEVELS, POINTS
from rue.core.errors import DataError, ModelError

SHOWN_NAMES = 5  # of a dict's entries in a message
SHOWN = 64  # bytes that are read of a file that begins as no model file does


def table(inputs: Any) -> Any:
    """Inputs as a frame or an array with two dimensions, as estimators take them."""
    if isinstance(inputs, Tensor):
        inputs = inputs.detach().cpu().numpy()
    refuse_dict(inputs)
    raw = inputs if hasattr(inputs, "columns") or hasattr(inputs, "toarray") else np.asarray(inputs)
    if len(raw.shape) != 2:
        raise DataError(f"inputs have {len(raw.shape)} dimensions, expected a table of rows and features (n, p)")
    return raw


def refuse_dict(inputs: Any) -> None:
    """Raise for a dict of columns, which estimators do not take."""
    if isinstance(inputs, Mapping):
        raise DataError(
            f"inputs are a dict with {', '.join(map(repr, list(inputs)[:SHOWN_NAMES]))}, expected a table of rows and "
            "features (n, p); give a frame of these columns: pandas.DataFrame(inputs)"
        )


def stored(path: Path, begins: bytes) -> bytes:
    """The contents of a model file, or an error with advice; a file that begins otherwise is not read any further."""
    try:
        if not S_ISREG(path.stat().st_mode):  # a pipe would wait, a device never end
            raise ModelError(f"{path} is no file; give the path of a stored model")
        with path.open("rb") as file:
            first = file.read(len(begins))
            return first + file.read() if first == begins else first + file.read(SHOWN)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        if isinstance(error, ModelError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path} cannot be read ({reason}); give the path of a stored model") from error


def recoded(raw: Any, categories: Sequence[Sequence[Any]]) -> Any:
    """A frame whose categorical columns have the codes they had in training."""
    categorical = [name for name in getattr(raw, "columns", []) if hasattr(raw[name], "cat")]
    if not categorical:
        return raw
    if len(categorical) != len(categories):
        raise DataError(
            f"the inputs have {len(categorical)} categorical columns, the stored model {len(categories)}; give the "
            "columns of training with the types they had"
        )
    return raw.assign(
        **{name: raw[name].cat.set_categories(levels) for name, levels in zip(categorical, categories, strict=True)}
    )


def numbers(inputs: Any, dtype: Any = np.float64) -> NDArray[Any]:
    """The table as numbers (n, p), with categories of a frame as their codes; other columns are left out.

    >>> numbers([[1, 2]])
    array([[1., 2.]])
    """
    raw = table(inputs)
    if hasattr(raw, "toarray"):
        return np.asarray(raw.toarray(), dtype=dtype)
    if not hasattr(raw, "columns"):
        return np.asarray(raw, dtype=dtype) if raw.dtype != object else _columns(list(raw.T), len(raw), dtype)
    if hasattr(raw, "to_pandas"):  # polars
        raw = raw.to_pandas()
    return _columns([raw[name] for name in raw.columns], len(raw), dtype)


def described(inputs: Any) -> dict[str, NDArray[Any]]:
    """The table as points to measure distances on (n, p), missing numbers NaN, and its categories as levels (n, q).

    The same category is the same number in every table.
    """
    raw = table(inputs)
    raw = raw.to_pandas() if hasattr(raw, "to_pandas") else raw  # polars
    if hasattr(raw, "toarray") or not (hasattr(raw, "columns") or raw.dtype == object):
        return {POINTS: numbers(raw)}
    columns = [raw[name] for name in raw.columns] if hasattr(raw, "columns") else list(raw.T)
    read = [(_number(column), column) for column in columns]
    numbered = [values for values, _ in read if values is not None]
    named = [_levels(column) for values, column in read if values is None]
    parts = {POINTS: np.stack(numbered, axis=1) if numbered else np.zeros((len(raw), 0))}
    return {**parts, LEVELS: np.stack(named, axis=1)} if named else parts


def numbered(inputs: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Every column as numbers in its own place (n, p), with NaN for missing ones, and which are levels (p,).

    >>> numbered([["1", "b"], ["2", "b"]])[1]
    array([False,  True])
    """
    raw = table(inputs)
    raw = raw.to_pandas() if hasattr(raw, "to_pandas") else raw  # polars
    if not (hasattr(raw, "columns") or raw.dtype.kind in "OSU"):
        return numbers(raw), np.zeros(raw.shape[1], dtype=bool)
    frame = hasattr(raw, "columns")
    columns = (
        [raw.iloc[:, place] for place in range(raw.shape[1])] if frame else list(raw.T)
    )  # names may be there twice
    read = [_number(column) for column in columns]
    filled = [_levels(column) if values is None else values for values, column in zip(read, columns, strict=True)]
    return np.stack(filled, axis=1), np.array([values is None for values in read])


def as_points(inputs: dict[str, Any]) -> dict[str, Tensor]:
    """Points and levels from `described`, as tensors without NaN."""
    parts = {
        name: torch.from_numpy(np.array(inputs[name], dtype=np.float64))  # a copy: a table may be read-only
        for name in (POINTS, LEVELS)
        if name in inputs
    }
    return {name: torch.nan_to_num(part, torch.nan, 0.0, 0.0) for name, part in parts.items()}


def _number(column: Any) -> NDArray[np.float64] | None:
    """A column as numbers (n,), missing ones NaN; None for categories and text."""
    if hasattr(column, "cat"):
        return None
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _levels(column: Any) -> NDArray[np.float64]:
    """Categories (n,) as hashes of their labels, missing as −1: codes would depend on the other rows of the table."""
    from pandas import factorize

    codes, labels = factorize(np.asarray(column, dtype=object))
    return np.array([*(float(crc32(str(label).encode(errors="surrogatepass"))) for label in labels), -1.0])[codes]


def _columns(columns: list[Any], n: int, dtype: Any) -> NDArray[Any]:
    kept = []
    for column in columns:
        values = column.cat.codes.to_numpy() if hasattr(column, "cat") else column
        try:
            kept.append(np.asarray(values, dtype=dtype))
        except (TypeError, ValueError):
            continue
    return np.stack(kept, axis=1) if kept else np.zeros((n, 1), dtype=dtype)
