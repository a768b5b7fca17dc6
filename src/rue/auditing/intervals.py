"""Intervals and sets as an audit returns them, and how they are made."""

from collections.abc import Callable
from math import isinf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array, Labels
from rue.core.guarantee import Guarantee


class Interval(NamedTuple):
    """Lower and upper ends, shaped like the prediction, and what they guarantee, in words."""

    lower: Array
    upper: Array
    guarantee: Guarantee


class PredictionSet(NamedTuple):
    """Which classes are in the set of each row (m, classes), and what that guarantees, in words."""

    members: NDArray[np.bool_]
    guarantee: Guarantee


SetRule = Callable[[Array, float, Labels | None], PredictionSet]
"""From probabilities (m, classes), a level and perhaps the groups of the rows (m,)."""

IntervalRule = Callable[[Array, Array, float, Labels | None], Interval]
"""From prediction and spread (m, k), a level and perhaps the groups of the rows (m,)."""


def central_interval(prediction: Array, spread: Array, level: float, degrees: float) -> Interval:
    """Central intervals (m, k) of a predictive distribution."""
    from scipy.stats import norm, t

    if isinf(degrees):
        reach, name = float(norm.ppf(0.5 + level / 2)), "Gaussian"
    else:  # a Student-t distribution whose standard deviation is the spread
        reach = float(t.ppf(0.5 + level / 2, degrees)) * sqrt((degrees - 2) / degrees)
        name = f"Student-t with {degrees:g} degrees of freedom"
    said = f"none: nominal {level:.0%} if errors are {name} with the audit's total_std; not checked on held-out rows"
    return Interval(prediction - reach * spread, prediction + reach * spread, Guarantee(said, "none"))
