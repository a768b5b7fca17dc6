"""Turns an audit of outputs into one of predictions, for models with a link or transformed targets."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from rue.auditing.intervals import Interval, IntervalRule, central_interval
from rue.auditing.kinds import Numbers
from rue.auditing.result import Audit
from rue.auditing.spread import Spread
from rue.core.arrays import Array, Labels
from rue.core.boundary import Response

Encode = Callable[[ArrayLike], Array]
"""From raw targets to the targets (m, k) that the model was trained on."""


def responded(audit: Audit, response: Response, encode: Encode) -> Audit:
    """The audit in units of the predictions.

    Covariances follow from the delta method. The ends of intervals are computed for the outputs and then transformed,
    which keeps their guarantee. Densities are those of the outputs, divided by the derivative.
    """
    outputs = audit.outputs
    spread = audit.spread.along(response.slope(outputs))
    pairs = ((_total(audit.spread), _total(spread)), (audit.spread.covariance, spread.covariance))
    scores = (_root(after) for before, after in pairs if after is not None and _is(audit.score, before))
    score = next(scores, audit.score)
    predictive = audit.total_std is not None
    numbers = Numbers(
        outputs,
        audit.degrees,
        partial(_rules, audit, response) if predictive else dict,
        partial(_log_density, audit, response, encode) if predictive else None,
    )
    return replace(audit, score=score, spread=spread, numbers=numbers)


def _total(spread: Spread) -> Array | None:
    return None if spread.calibrated is None else spread.calibrated.total


def _rules(audit: Audit, response: Response) -> dict[str, IntervalRule]:
    outputs, rules = audit.outputs, {} if audit.numbers is None else audit.numbers.rules()
    spread = np.asarray(audit.total_std).reshape(outputs.shape)

    def turned(rule: IntervalRule, _: Array, __: Array, level: float, group: Labels | None) -> Interval:
        lower, upper, guarantee = rule(outputs, spread, level, group)
        return Interval(response.value(lower), response.value(upper), guarantee)

    def central(prediction: Array, spread: Array, level: float, _: Labels | None) -> Interval:
        return central_interval(prediction, spread, level, audit.degrees)

    return {name: partial(turned, rule) for name, rule in {**rules, "distribution": central}.items()}


def _log_density(audit: Audit, response: Response, encode: Encode, y: ArrayLike) -> Array:
    """log p(y) = log p(t) − log dy/dt, where t are the targets that the model was trained on."""
    targets = encode(y)
    slope = response.slope(targets.reshape(len(targets), -1))
    return audit.log_prob(targets.reshape(audit.prediction.shape)) - np.log(slope).sum(axis=1)


def _root(covariance: Array) -> Array:
    return np.asarray(np.sqrt(np.trace(covariance, axis1=1, axis2=2).clip(min=0)))


def _is(score: Array, covariance: Array | None) -> bool:
    """Whether a score is the standard deviation of this covariance."""
    return covariance is not None and np.allclose(score, _root(covariance), rtol=1e-9)
