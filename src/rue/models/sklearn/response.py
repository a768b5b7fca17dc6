"""Turns the outputs of a scikit-learn estimator into predictions where its targets were transformed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rue.core.boundary import Response
from rue.core.errors import ModelError

Values = NDArray[np.float64]

OFF = 1e-3  # of the range that half of the targets lie in: a target that comes back as near as this counts as the same
FEW = 0.01  # the share of targets that may come back otherwise, as the ends of a range that a transformer cuts off


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


def brought_back(transformer: Any, targets: Any) -> None:
    """Raise if the inverse of a fitted target transformer does not bring the training targets back."""
    values = target_values(targets)
    columns = values.reshape(len(values), -1)
    with np.errstate(all="ignore"):
        transformed = np.asarray(transformer.transform(columns), np.float64).reshape(columns.shape)
        back = np.asarray(transformer.inverse_transform(transformed), np.float64).reshape(columns.shape)
    apart = np.abs(back - columns)
    spread = np.subtract(*np.nanquantile(columns, [0.75, 0.25])) or np.nanstd(columns) or 1.0
    off = apart > OFF * spread  # what is not a number is refused where it is read
    if off.mean() <= FEW:
        return
    row, column = np.unravel_index(int(np.nanargmax(apart)), apart.shape)
    raise ModelError(
        f"the inverse of the target transformer does not bring {off.mean():.0%} of the {len(columns)} training targets "
        f"back: they come back {np.median(apart[off]):.3g} off in the median, where half of all lie within a range of "
        f"{spread:.3g}, and {columns[row, column]:.6g} comes back as {back[row, column]:.6g}; give "
        "TransformedTargetRegressor an inverse_func that undoes its func (log with exp, log1p with expm1), or, where "
        "that is meant, audit it by its predictions alone: rue.audit(types.SimpleNamespace(predict=model.predict), ...)"
    )


def target_values(targets: Any) -> Values:
    """Raw targets as numbers."""
    return np.asarray(targets.detach().cpu() if isinstance(targets, Tensor) else targets, np.float64)
