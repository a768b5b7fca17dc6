"""From an audit of a model's outputs to one of the predictions that are made of them: links and transformed targets."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from rue.auditing.result import Audit, Interval, IntervalRule, central_interval
from rue.core.arrays import Array, Labels
from rue.core.concepts import Response

Encode = Callable[[ArrayLike], Array]
"""From raw targets to those the model was trained on, (m, k)."""


def responded(audit: Audit, response: Response, encode: Encode) -> Audit:
    """The audit in units of the predictions.

    Covariances by the delta method; intervals are made of the outputs and their ends turned, so that what they
    guarantee survives; densities are those of the outputs, with the derivative.
    """
    assert audit.outputs is not None
    slope = response.slope(audit.outputs)
    covariance, total = (_scaled(spread, slope) for spread in (audit.covariance, audit.calibrated_covariance))
    pairs = ((audit.calibrated_covariance, total), (audit.covariance, covariance))
    score = next((_root(made) for plain, made in pairs if made is not None and _is(audit.score, plain)), audit.score)
    known = audit.total_std is not None
    return replace(
        audit,
        score=score,
        covariance=covariance,
        noise_covariance=_scaled(audit.noise_covariance, slope),
        calibrated_covariance=total,
        scarcity_covariance=_scaled(audit.scarcity_covariance, slope),
        variance=None if audit.variance is None else audit.variance * slope**2,
        log_density=partial(_log_density, audit, response, encode) if known else None,
        rules=_rules(audit, response) if known else {},
    )


def _rules(audit: Audit, response: Response) -> dict[str, IntervalRule]:
    outputs = np.asarray(audit.outputs)
    spread = np.asarray(audit.total_std).reshape(outputs.shape)

    def turned(rule: IntervalRule, _: Array, __: Array, level: float, group: Labels | None) -> Interval:
        lower, upper, said = rule(outputs, spread, level, group)
        return Interval(response.value(lower), response.value(upper), said)

    def central(prediction: Array, spread: Array, level: float, _: Labels | None) -> Interval:
        return central_interval(prediction, spread, level, audit.degrees)

    return {name: partial(turned, rule) for name, rule in {**audit.rules, "distribution": central}.items()}


def _log_density(audit: Audit, response: Response, encode: Encode, y: ArrayLike) -> Array:
    """log p(y) = log p(t) − log dy/dt of the targets t the model was trained on."""
    targets = encode(y)
    slope = response.slope(targets.reshape(len(targets), -1))
    return audit.log_prob(targets.reshape(audit.prediction.shape)) - np.log(slope).sum(axis=1)


def _scaled(spread: Array | None, slope: Array) -> Array | None:
    """Covariances (m, k, k) of predictions whose derivatives are (m, k)."""
    return None if spread is None else spread * slope[:, :, None] * slope[:, None, :]


def _root(covariance: Array) -> Array:
    return np.asarray(np.sqrt(np.trace(covariance, axis1=1, axis2=2).clip(min=0)))


def _is(score: Array, covariance: Array | None) -> bool:
    """Whether a score is the deviation of this covariance, rather than something of its own."""
    return covariance is not None and np.allclose(score, _root(covariance), rtol=1e-9)
