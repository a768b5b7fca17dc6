"""Losses between 0 and 1, one for each row; without a bound nothing could be guaranteed."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.core.errors import InputError, SettingError, ShapeError
from rue.core.stored import storable


class BoundedLoss(Protocol):
    """The loss of an error, from 0 to 1; for binary losses tests are sharper."""

    @property
    def binary(self) -> bool:
        """Whether every loss is either 0 or 1."""

    def __call__(self, prediction: Array, y: Array, /) -> Array:
        """Loss of each row, (m,), of predictions (m,) or (m, k)."""

    def __str__(self) -> str:
        """What counts as a loss, in words."""


@storable
@dataclass(frozen=True)
class Exceeds:
    """1 where |error| is above the tolerance in any output, else 0.

    >>> Exceeds(2.0)(np.array([0.0, 0.0, 0.0]), np.array([1.0, -2.0, 3.0])).tolist()
    [0.0, 0.0, 1.0]
    """

    tolerance: float

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < np.inf:
            raise SettingError(f"tolerance is {self.tolerance}, expected at least 0; give the largest |error| allowed")

    @property
    def binary(self) -> bool:
        """True: an error is either above the tolerance or not."""
        return True

    def __call__(self, prediction: Array, y: Array, /) -> Array:
        """Loss of each row, (m,)."""
        return (_largest_error(prediction, y) > self.tolerance).astype(np.float64)

    def __str__(self) -> str:
        return f"1 where |error| > {self.tolerance:g}"


@storable
@dataclass(frozen=True)
class Wrong:
    """1 where the predicted class is not the right one, in any label, else 0.

    >>> Wrong()(np.array(["a", "b"]), np.array(["a", "c"])).tolist()
    [0.0, 1.0]
    """

    @property
    def binary(self) -> bool:
        """True: a class is right or not."""
        return True

    def __call__(self, prediction: NDArray[Any], y: NDArray[Any], /) -> Array:
        """Loss of each row, (m,)."""
        for name, values in (("predictions", prediction), ("targets", y)):
            _refuse_measurements(name, values)
        return (prediction != y).reshape(len(y), -1).any(axis=1).astype(np.float64)

    def __str__(self) -> str:
        return "1 where the class is wrong"


@storable
@dataclass(frozen=True)
class Clipped:
    """min(|error|, limit) / limit of the output with the largest error.

    >>> Clipped(2.0)(np.array([0.0, 0.0, 0.0]), np.array([1.0, -2.0, 3.0])).tolist()
    [0.5, 1.0, 1.0]
    """

    limit: float

    def __post_init__(self) -> None:
        if not 0 < self.limit < np.inf:
            raise SettingError(f"limit is {self.limit}, expected above 0; give the |error| from which all are as bad")

    @property
    def binary(self) -> bool:
        """False: losses lie anywhere from 0 to 1."""
        return False

    def __call__(self, prediction: Array, y: Array, /) -> Array:
        """Loss of each row, (m,)."""
        return np.minimum(_largest_error(prediction, y), self.limit) / self.limit

    def __str__(self) -> str:
        return f"|error| / {self.limit:g}, at most 1"


def _refuse_measurements(name: str, values: NDArray[Any]) -> None:
    """Refuse numbers that are no classes: hardly one of them is predicted exactly."""
    fractions = values[values != np.round(values)] if values.dtype.kind == "f" else values[:0]
    if fractions.size:
        raise InputError(
            f"{name} are numbers such as {fractions.flat[0]:.4g}, which are no classes: all would be wrong; use "
            "rue.policy.Exceeds(tolerance) or Clipped(limit)"
        )


def _largest_error(prediction: Array, y: Array) -> Array:
    """Largest |error| over the outputs, (m,)."""
    if prediction.ndim == 1 and y.shape == (len(prediction), 1):
        y = y[:, 0]
    if y.shape != prediction.shape:
        raise ShapeError(f"targets have shape {y.shape}, the predictions {prediction.shape}; they must agree")
    size: Array = np.abs(y - prediction).reshape(len(y), -1).max(axis=1)
    return size
