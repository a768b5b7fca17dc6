"""Checks columns of numbers that a user hands in: all finite and of one length, or an error names the wrong one."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rue.core.errors import InputError
from rue.core.row_order import refuse_another_order


def columns(endless: bool = False, **named: ArrayLike) -> list[NDArray[np.float64]]:
    """Return the named arguments as float64 arrays of one length (m,), or say which one is wrong."""
    allowed = {"lower": -np.inf, "upper": np.inf} if endless else {}
    read = {name: _column(name, value, allowed.get(name)) for name, value in named.items()}
    first, m = next((name, column.size) for name, column in read.items())
    for name, column in read.items():
        if column.size != m:
            raise InputError(f"{name} has {column.size} rows and {first} has {m}, expected as many; pass the same rows")
    refuse_another_order(named[first], InputError, **{name: given for name, given in named.items() if name != first})
    if "std" in read:
        check_rows("std", read["std"], read["std"] <= 0, "above zero; add the noise variance")
    if "loss" in read:
        check_rows("loss", read["loss"], read["loss"] < 0, "at least zero; pass |error|, not error")
    if "lower" in read:
        crossed = read["lower"] > read["upper"]
        check_rows("lower", read["lower"], crossed, "at most upper; swap the two")
    return list(read.values())


def _column(name: str, value: ArrayLike, allowed: float | None = None) -> NDArray[np.float64]:
    """Return one argument as a float64 array (m,) of finite numbers; `allowed` may be an infinite value."""
    try:
        column = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as cause:  # RuntimeError: a tensor that requires grad
        raise InputError(f"{name} cannot be read as numbers ({cause}); pass an array of floats") from cause
    if column.ndim != 1:
        raise InputError(f"{name} has shape {column.shape}, expected one value per row (m,); pass one output at a time")
    if column.size == 0:
        raise InputError(f"{name} has no rows, expected at least one; pass the audited rows")
    good = np.isfinite(column) | (column == allowed)
    wanted = "a finite number" if allowed is None else f"a finite number or {allowed:g}"
    check_rows(name, column, ~good, f"{wanted}; drop or repair such rows")
    return column


def check_rows(name: str, column: NDArray[np.float64], bad: NDArray[np.bool_], wanted: str) -> None:
    """Raise for the first bad row (m,) of a column (m,), with the number of such rows."""
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"{name} is {column[row]:g} at row {row} ({bad.sum()} of {bad.size} rows), expected {wanted}")
