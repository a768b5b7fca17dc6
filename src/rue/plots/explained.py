"""Columns and names that the figures of one prediction take from an explanation."""

from typing import Any

import numpy as np

from rue.core.arrays import Array
from rue.core.columns import columns
from rue.core.errors import ShapeError
from rue.explain import Explanation


def of_rows(explanation: Explanation, **named: Any) -> list[Array]:
    """Columns (n,), checked to have a value for each training row of the explanation."""
    n = np.size(explanation.kernel)
    for name, values in named.items():
        shape = tuple(np.shape(values))
        if shape != (n,):
            raise ShapeError(
                f"{name} has shape {shape}, expected one value for each of the n = {n} training rows, "
                f"({n},); pass a column of the data that the auditor was fitted to"
            )
    return columns(**named)


def row_names(explanation: Explanation) -> list[str]:
    """The user's name of each training row: that of its unit, with the row's number where a unit has several."""
    names = [str(explanation.label[unit]) for unit in explanation.unit]
    if len(set(names)) == len(names):
        return names
    return [f"{name}, row {row}" for row, name in enumerate(names)]
