"""The intervals and sets that an audit returns, and the types of the functions that make them."""

from collections.abc import Callable, Mapping
from math import isinf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array, Labels
from rue.core.equality import same
from rue.core.guarantee import Guarantee


class Interval(NamedTuple):
    """Lower and upper ends in the shape of the prediction, and their guarantee."""

    lower: Array
    upper: Array
    guarantee: Guarantee

    def __eq__(self, other: object) -> bool:
        """Whether all ends are the same."""
        return isinstance(other, Interval) and same(tuple(self), tuple(other))

    def __ne__(self, other: object) -> bool:
        return not self == other


class PredictionSet(NamedTuple):
    """A mask (m, classes) of the classes in the set of each row, and the guarantee."""

    members: NDArray[np.bool_]
    guarantee: Guarantee

    def __eq__(self, other: object) -> bool:
        """Whether all ends are the same."""
        return isinstance(other, PredictionSet) and same(tuple(self), tuple(other))

    def __ne__(self, other: object) -> bool:
        return not self == other


SetRule = Callable[[Array, float, Labels | None], PredictionSet]
"""Makes sets from probabilities (m, classes), a level and optionally the groups (m,) of the rows."""

IntervalRule = Callable[[Array, Array, float, Labels | None], Interval]
"""Makes intervals from prediction and spread (m, k), a level and optionally the groups (m,) of the rows."""

IntervalRules = Callable[[], Mapping[str, IntervalRule]]
"""Gives the rules of an audit by name, the default first."""


def central_interval(prediction: Array, spread: Array, level: float, degrees: float) -> Interval:
    """Central intervals (m, k) of a predictive distribution."""
    from scipy.stats import norm, t

    if isinf(degrees):
        reach, name = float(norm.ppf(0.5 + level / 2)), "Gaussian"
    else:  # a Student-t distribution whose standard deviation is the spread
        reach = float(t.ppf(0.5 + level / 2, degrees)) * sqrt((degrees - 2) / degrees)
        name = f"Student-t with {degrees:g} degrees of freedom"
    words = f"none: nominal {level:.0%} if errors are {name} with the audit's total_std; not checked on held-out rows"
    return Interval(prediction - reach * spread, prediction + reach * spread, Guarantee(words, "none"))
