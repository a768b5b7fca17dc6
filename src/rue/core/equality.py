"""Tells whether results are equal: `==` of arrays is an array, and of dataclasses that hold them an error."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays entry by entry; functions are not compared.

    >>> same((1, np.array([np.nan])), (1, np.array([np.nan])))
    True
    >>> same({"a": np.zeros(2)}, {"a": np.zeros(3)})
    False
    """
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return _same_arrays(np.asarray(one), np.asarray(other))
    if type(one) is not type(other):
        return False
    if hasattr(one, "equals"):  # of pandas
        return bool(one.equals(other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        return all(same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one) if part.compare)
    return callable(one) or bool(one == other)


def _same_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if one.shape != other.shape:
        return False
    numbers = one.dtype.kind == "f" and other.dtype.kind == "f"
    return bool(np.array_equal(one, other, equal_nan=numbers))
