"""What the figures of one prediction read off an explanation, so that any object with these parts can be drawn."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rue.columns import columns
from rue.errors import ShapeError
from rue.result import Array


class Explained(Protocol):
    """Why one prediction would move: parts by training row (n,) and by resampling unit (u,)."""

    @property
    def of(self) -> str:
        """What is explained, in words."""
        ...

    @property
    def kernel(self) -> Array:
        """How relevant each training row is, at least zero: k(x, xᵢ), (n,)."""
        ...

    @property
    def residual(self) -> Array:
        """Of each training row, left out: (n,)."""
        ...

    @property
    def unit(self) -> NDArray[np.int64]:
        """The resampling unit of each training row, (n,)."""
        ...

    @property
    def contribution(self) -> Array:
        """Each unit's part of the variance, (u,)."""
        ...

    @property
    def change(self) -> Array:
        """By how much the prediction would change without each unit, (u,)."""
        ...

    @property
    def label(self) -> NDArray[Any]:
        """The user's own name of each unit, (u,)."""
        ...


def of_rows(explanation: Explained, **named: Any) -> list[Array]:
    """Columns that must have a value for each training row (n,) of the explanation."""
    n = np.size(explanation.kernel)
    for name, values in named.items():
        shape = tuple(np.shape(values))
        if shape != (n,):
            raise ShapeError(
                f"{name} has shape {shape}, expected one value for each of the n = {n} training rows, "
                f"({n},); pass a column of the data that the auditor was fitted to"
            )
    return columns(**named)


def row_names(explanation: Explained) -> list[str]:
    """The user's own name of each training row, (n,): its unit's, with the row's number where units hold several."""
    names = [str(explanation.label[unit]) for unit in explanation.unit]
    if len(set(names)) == len(names):
        return names
    return [f"{name}, row {row}" for row, name in enumerate(names)]
