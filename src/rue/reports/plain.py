"""Conversion of values to plain JSON types, with six significant digits and without NaN."""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGITS = 6
HIDDEN = re.compile(  # control characters, surrogates, and what sets the direction of writing
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
EXACT = 2**53  # a browser's whole numbers are exact up to here


def plain(value: Any) -> Any:
    """Dicts, lists, strings, whole numbers, truth values and finite floats; NaN and infinity become None.

    >>> plain({"a": np.array([1 / 3, np.nan]), "b": np.int64(2)})
    {'a': [0.333333, None], 'b': 2}
    """
    if isinstance(value, str):
        return visible(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, Mapping):
        return {visible(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return _missing(value)


def visible(text: str) -> str:
    """The text with the numbers of characters that no page can show, or that turn the text around them about.

    >>> visible("a\\u202eb\\x00"), visible("\\ud800"), visible("two\\nlines")
    ('a[U+202E]b[U+0000]', '[U+D800]', 'two\\nlines')
    """
    return HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", str(text))  # a NumPy string is a subclass of str


def shortened(values: NDArray[np.float64], digits: int = 4) -> NDArray[np.float64]:
    """Values with fewer significant digits, for large tables that are only shown.

    >>> shortened(np.array([0.0123456, -9876.54])).tolist()
    [0.01235, -9877.0]
    """
    size = np.floor(np.log10(np.abs(np.where(values == 0, 1.0, values))))
    factor = 10.0 ** (digits - 1 - size)
    return np.asarray(np.round(values * factor) / factor)


def identifiers(ids: Any) -> list[str | int]:
    """Names of rows: whole numbers as they are, unless a browser would round them; all else as text.

    >>> identifiers(np.array([1.0, 2.5])), identifiers(["a", 2**53 + 1])
    ([1, '2.5'], ['a', '9007199254740993'])
    """
    return [_identifier(name) for name in (ids.tolist() if isinstance(ids, np.ndarray) else ids)]


def _identifier(name: Any) -> str | int:
    number = isinstance(name, int | float) and not isinstance(name, bool) and isfinite(name)
    return int(name) if number and name == int(name) and abs(name) <= EXACT else str(name)


def _missing(value: Any) -> Any:
    """A date, a category and the like as text; a missing value as None."""
    import pandas as pd

    missing = pd.isna(value)
    return None if isinstance(missing, bool) and missing else visible(str(value))
