"""From an audit of a model's outputs to one of the predictions that are made of them: links and transformed targets."""

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
from rue.core.concepts import Response

Encode = Callable[[ArrayLike], Array]
"""From raw targets to those the model was trained on, (m, k)."""


def responded(audit: Audit, response: Response, encode: Encode) -> Audit:
    """The audit in units of the predictions.

    Covariances by the delta method; intervals are made of the outputs and their ends turned, so that what they
    guarantee survives; densities are those of the outputs, with the derivative.
    """
    outputs = audit.outputs
    spread = audit.spread.along(response.slope(outputs))
    pairs = ((_total(audit.spread), _total(spread)), (audit.spread.covariance, spread.covariance))
    score = next((_root(made) for plain, made in pairs if made is not None and _is(audit.score, plain)), audit.score)
    known = audit.total_std is not None
    numbers = Numbers(
        outputs,
        audit.degrees,
        _rules(audit, response) if known else {},
        partial(_log_density, audit, response, encode) if known else None,
    )
    return replace(audit, score=score, spread=spread, numbers=numbers)


def _total(spread: Spread) -> Array | None:
    return None if spread.calibrated is None else spread.calibrated.total


def _rules(audit: Audit, response: Response) -> dict[str, IntervalRule]:
    outputs, known = audit.outputs, {} if audit.numbers is None else audit.numbers.rules
    spread = np.asarray(audit.total_std).reshape(outputs.shape)

    def turned(rule: IntervalRule, _: Array, __: Array, level: float, group: Labels | None) -> Interval:
        lower, upper, said = rule(outputs, spread, level, group)
        return Interval(response.value(lower), response.value(upper), said)

    def central(prediction: Array, spread: Array, level: float, _: Labels | None) -> Interval:
        return central_interval(prediction, spread, level, audit.degrees)

    return {name: partial(turned, rule) for name, rule in {**known, "distribution": central}.items()}


def _log_density(audit: Audit, response: Response, encode: Encode, y: ArrayLike) -> Array:
    """log p(y) = log p(t) − log dy/dt of the targets t the model was trained on."""
    targets = encode(y)
    slope = response.slope(targets.reshape(len(targets), -1))
    return audit.log_prob(targets.reshape(audit.prediction.shape)) - np.log(slope).sum(axis=1)


def _root(covariance: Array) -> Array:
    return np.asarray(np.sqrt(np.trace(covariance, axis1=1, axis2=2).clip(min=0)))


def _is(score: Array, covariance: Array | None) -> bool:
    """Whether a score is the deviation of this covariance, rather than something of its own."""
    return covariance is not None and np.allclose(score, _root(covariance), rtol=1e-9)
