"""Inputs and targets as tensors, read from arrays, tensors, data frames and columns."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.core.errors import DataError, DeviceError


def read_leaf(leaf: Any, like: Tensor, *, whole_numbers_in_frames: bool) -> Tensor:
    """A tensor on the device of `like`, with floating values in its dtype; values that are not finite are refused.

    Integers stay integers, as tokens and labels must. `whole_numbers_in_frames` says whether they do in data frames
    too, where they are otherwise features.
    """
    tensor = leaf if isinstance(leaf, Tensor) else _as_tensor(leaf, whole_numbers_in_frames)
    if tensor.layout is not torch.strided:
        raise DataError(f"a tensor is sparse ({tensor.layout}); give a dense one: X.to_dense()")
    if tensor.is_complex():
        raise DataError("complex data cannot be audited; give real and imaginary parts as features")
    if tensor.device.type != "cpu" and tensor.device != like.device:
        raise DeviceError(f"data lives on {tensor.device}, the model on {like.device}; move one of them")
    if tensor.is_inference():
        tensor = tensor.clone()  # made in inference mode: no derivative could be taken through it
    tensor = tensor.detach().to(like.device)
    if not tensor.is_floating_point():
        return tensor
    finite = torch.isfinite(tensor)
    if not bool(finite.all()):
        rows = (~finite).reshape(len(tensor), -1).any(-1).nonzero().squeeze(-1) if tensor.dim() else finite.new_zeros(1)
        raise DataError(
            f"{len(rows)} rows have NaN or infinite values, the first being row {int(rows[0])} of its batch; "
            "drop or impute them as for the model itself"
        )
    return tensor.to(like.dtype)


def _as_tensor(leaf: Any, whole_numbers_in_frames: bool) -> Tensor:
    if hasattr(leaf, "toarray"):
        raise DataError(f"{type(leaf).__name__} is sparse; give a dense array: X.toarray()")
    frame = hasattr(leaf, "to_numpy")  # pandas and polars tables and columns
    array = _frame_values(leaf) if frame else leaf
    if isinstance(array, np.ma.MaskedArray):
        raise DataError("an array is masked, but masked values would be used like others; drop or impute them")
    if not isinstance(array, np.ndarray):
        raise DataError(
            f"cannot read {type(leaf).__name__}; give an array, a tensor or a data frame (np.asarray of a list, a "
            'tokenizer\'s return_tensors="pt"), and leave out texts and names that the model does not take'
        )
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"cannot read values of type {array.dtype}{_named(leaf)}; encode text and categories as the model "
            "expects them"
        )
    kind = array.dtype.kind
    if (frame and not whole_numbers_in_frames and kind in "iub") or (kind == "f" and array.dtype.itemsize > 8):
        array = array.astype(np.float64)
    elif kind == "u":
        array = array.astype(np.int64)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=")))  # a copy: it may be read-only


def _frame_values(table: Any) -> Any:
    """A table's values; columns of numbers, booleans and nullable numbers together are numbers."""
    array = table.to_numpy()
    if array.dtype != object:
        return array
    kinds = list(getattr(table, "dtypes", [])) if getattr(table, "ndim", 1) == 2 else [table.dtype]
    if kinds and all(getattr(kind, "kind", "O") in "fiub" for kind in kinds):
        return table.to_numpy(dtype=np.float64, na_value=np.nan)
    return array


def _named(table: Any) -> str:
    """The columns of a frame that are not numbers, for a message."""
    kinds = getattr(table, "dtypes", None)
    if kinds is None or not hasattr(kinds, "items"):
        return ""
    return (
        f" (columns {', '.join(str(name) for name, kind in kinds.items() if getattr(kind, 'kind', 'O') not in 'fiub')})"
    )
