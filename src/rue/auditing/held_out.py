"""Calibration by rows held out from training: a scale for the spread, and scores for conformal intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, isinf, log
from typing import Any

import numpy as np

from rue.auditing.intervals import Interval, PredictionSet
from rue.auditing.result import Audit
from rue.calibrate.conformal import CLASS_SET, HeldOutScores, percent
from rue.calibrate.variance import negative_log_density
from rue.core.arrays import Array, Labels
from rue.core.errors import DataError, NumericalError, ShapeError
from rue.core.guarantee import Guarantee
from rue.core.stored import storable

WORTH = 100  # number of validation rows that count as much as the calibration on training rows
FEWEST = 2  # minimum number of validation rows
RANGE = log(1e6)  # largest absolute logarithm of the factor in the search


@storable
@dataclass(frozen=True)
class HeldOut:
    """The factor of all predictive variances, and the scores |error| / spread of each output."""

    variance_factor: float
    scores: Sequence[HeldOutScores] = field(repr=False)
    stopping: bool = False  # training may have been stopped on these rows, so they are not quite held out

    def interval(self, prediction: Array, spread: Array, level: float, group: Labels | None) -> Interval:
        """Split conformal intervals (m, k)."""
        check_rows(group, len(spread))
        reach = np.stack([np.broadcast_to(output.reach(level, group), len(spread)) for output in self.scores], axis=1)
        guarantee = _stopped(level, self.scores[0]) if self.stopping else self.scores[0].guarantee(level, group)
        if len(self.scores) > 1:
            guarantee = guarantee.also("; for each output by itself")
        return Interval(prediction - reach * spread, prediction + reach * spread, guarantee)


@storable
@dataclass(frozen=True)
class HeldOutClasses:
    """The scores 1 − probability of the true class (Sadinle, Lei and Wasserman, 2019)."""

    scores: HeldOutScores = field(repr=False)
    stopping: bool = False  # training may have been stopped on these rows

    def sets(self, probability: Array, level: float, group: Labels | None) -> PredictionSet:
        """Split conformal sets: all classes whose probability is at least a quantile of that of held-out labels."""
        check_rows(group, len(probability))
        reach = np.broadcast_to(self.scores.reach(level, group), len(probability))
        guarantee = _stopped(level, self.scores) if self.stopping else self.scores.guarantee(level, group, CLASS_SET)
        return PredictionSet(1 - probability <= reach[:, None], guarantee)


def pair(validation: Any) -> tuple[Any, Any]:
    """The validation rows (X, y); raises if they are no pair, or too few."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise DataError(
            f"validation is a {type(validation).__name__}, expected a pair (X, y) of rows that the model was not "
            "trained on; rows that training was stopped on will do"
        )
    X, y = validation
    if len(y) < FEWEST:
        raise DataError(
            f"validation has {len(y)} rows, expected at least {FEWEST}, better a hundred; leave validation= away where "
            "there are none"
        )
    return X, y


def check_rows(group: Labels | None, rows: int) -> None:
    """Raise unless there is one label for each row."""
    if group is not None and group.shape != (rows,):
        raise ShapeError(f"group has shape {group.shape} for {rows} audited rows; give one label for each")


def _stopped(level: float, scores: HeldOutScores) -> Guarantee:
    return Guarantee(
        f"approximately {percent(level)}, not guaranteed: split conformal on n = {scores.scores.size} validation rows; "
        "where training was stopped on them, errors there are a little smaller than on new rows",
        "approximate",
    )


def held_out_classes(audit: Audit, y: Any, group: Any = None, stopping: bool = False) -> HeldOutClasses:
    """The scores of an audit of held-out rows with labels y."""
    missed = 1 - np.exp(audit.log_prob(y))
    labels = None if group is None else np.asarray(group)
    return HeldOutClasses(HeldOutScores(missed.clip(min=0), labels), stopping)


def held_out(audit: Audit, y: Any, group: Any = None, stopping: bool = False) -> HeldOut:
    """The variance factor and scores of an audit of held-out rows with targets y."""
    errors = audit.errors(y)
    covariance = np.asarray(audit.total_covariance)
    _check(errors, covariance)
    factor = variance_factor(errors, covariance, audit.degrees)
    if stopping:  # the spread was calibrated on training rows already, so that few validation rows change it little
        factor **= len(errors) / (len(errors) + WORTH)
    spread = np.sqrt(factor * np.diagonal(covariance, axis1=1, axis2=2))
    labels = None if group is None else np.asarray(group)
    scores = tuple(HeldOutScores(np.abs(e) / s, labels) for e, s in zip(errors.T, spread.T, strict=True))
    return HeldOut(factor, scores, stopping)


def variance_factor(errors: Array, covariance: Array, degrees: float) -> float:
    """The factor of covariances (c, k, k) that maximises the likelihood of errors (c, k).

    >>> variance_factor(np.array([[2.0], [-2.0]]), np.ones((2, 1, 1)), float("inf"))
    4.0
    """
    from scipy.optimize import minimize_scalar

    if isinf(degrees):
        white = np.einsum("ci,cij,cj->c", errors, np.linalg.inv(covariance), errors)
        return float(white.mean()) / errors.shape[1]

    def nll(log_factor: float) -> float:
        return float(negative_log_density(errors, exp(log_factor) * covariance, degrees).mean())

    return exp(float(minimize_scalar(nll, bounds=(-RANGE, RANGE), method="bounded").x))


def _check(errors: Array, covariance: Array) -> None:
    if not errors.any():
        raise DataError(
            "every held-out target equals its prediction, so there is no error to measure a spread by; give the "
            "targets of rows that nothing was trained on"
        )
    if np.linalg.eigvalsh(covariance).min() <= 0:
        raise NumericalError(
            "the predictive covariance of some held-out rows is singular, so no factor makes their errors likely; use "
            "a method with a variance, or more neighbours"
        )
