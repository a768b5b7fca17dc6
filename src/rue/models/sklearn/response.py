"""Turns the outputs of a scikit-learn estimator into predictions where its targets were transformed."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rue.core.concepts import Response
from rue.core.errors import ModelError

Values = NDArray[np.float64]


@dataclass(frozen=True)
class TransformedBack:
    """Predictions by the inverse of the transformation that targets had before training."""

    inverse: Callable[[Values], Values] = field(repr=False)  # (m, k) -> (m, k), column by column
    inner: Response | None = None  # of the estimator that was trained on the transformed targets

    def value(self, outputs: Values) -> Values:
        """The inverse of the transformation."""
        return self._back(outputs if self.inner is None else self.inner.value(outputs))

    def slope(self, outputs: Values) -> Values:
        """The derivative by central differences; where a unit step agrees with a small one, it is more precise."""
        at = outputs if self.inner is None else self.inner.value(outputs)
        self._check_columns(at)
        slope = self._difference(at, 1e-5 * (1 + np.abs(at)))  # error of order step², rounding of order 1e-16 / step
        wide = self._difference(at, np.ones_like(at))
        slope = np.where(np.abs(wide - slope) <= 1e-8 * np.abs(slope), wide, slope)  # a straight line: exact
        if (slope < 0).any():
            raise ModelError(
                "the target transformer turns the order of the targets round, so that the ends of intervals would "
                "change places; use one that rises: its negative"
            )
        return slope if self.inner is None else slope * self.inner.slope(outputs)

    def _difference(self, at: Values, step: Values) -> Values:
        with np.errstate(all="ignore"):  # a unit step may leave the transformation's domain
            return (self._back(at + step) - self._back(at - step)) / (2 * step)

    def _back(self, values: Values) -> Values:
        return np.asarray(self.inverse(values), np.float64).reshape(values.shape)

    def _check_columns(self, values: Values) -> None:
        """Refuse a transformation that mixes several targets: each output is audited by itself."""
        start = self._back(values)
        for column in range(values.shape[1]) if values.shape[1] > 1 else ():
            moved = values.copy()
            moved[:, column] *= 1.01
            others = np.arange(values.shape[1]) != column
            if not np.array_equal(self._back(moved)[:, others], start[:, others]):
                raise ModelError(
                    "the target transformer mixes the targets, so that outputs cannot be brought back one by one; use "
                    "one that transforms each by itself (StandardScaler, FunctionTransformer)"
                )
