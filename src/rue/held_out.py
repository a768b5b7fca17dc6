"""What rows held out from training say of an auditor: a scale for its spread, and scores for conformal intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, isinf, log
from typing import Any

import numpy as np

from rue.calibrate.conformal import HeldOutScores
from rue.calibrate.variance import negative_log_density
from rue.errors import DataError, NumericalError, ShapeError
from rue.result import Array, Audit, Interval, Labels, PredictionSet

RANGE = log(1e6)  # of the factor that is looked for, either way


@dataclass(frozen=True)
class HeldOut:
    """The factor of all predictive variances, and the scores |error| / spread of each output."""

    variance_factor: float
    scores: Sequence[HeldOutScores] = field(repr=False)

    def interval(self, prediction: Array, spread: Array, level: float, group: Labels | None) -> Interval:
        """Split conformal intervals (m, k)."""
        check_rows(group, len(spread))
        reach = np.stack([np.broadcast_to(own.reach(level, group), len(spread)) for own in self.scores], axis=1)
        said = self.scores[0].guarantee(level, group)
        if len(self.scores) > 1:
            said += "; for each output by itself"
        return Interval(prediction - reach * spread, prediction + reach * spread, said)


@dataclass(frozen=True)
class HeldOutClasses:
    """The scores 1 − probability of the true class (Sadinle, Lei and Wasserman, 2019)."""

    scores: HeldOutScores = field(repr=False)

    def sets(self, probability: Array, level: float, group: Labels | None) -> PredictionSet:
        """Split conformal sets: every class whose probability is not below that of most held-out labels."""
        check_rows(group, len(probability))
        reach = np.broadcast_to(self.scores.reach(level, group), len(probability))
        said = self.scores.guarantee(level, group).replace("interval", "set").replace("infinite", "of all classes")
        return PredictionSet(1 - probability <= reach[:, None], said)


def check_rows(group: Labels | None, rows: int) -> None:
    """Nothing is broadcast: a label for each row."""
    if group is not None and group.shape != (rows,):
        raise ShapeError(f"group has shape {group.shape} for {rows} audited rows; give one label for each")


def held_out_classes(audit: Audit, y: Any, group: Any = None) -> HeldOutClasses:
    """Measure an audit of held-out rows by their labels."""
    missed = 1 - np.exp(audit.log_prob(y))
    return HeldOutClasses(HeldOutScores(missed.clip(min=0), None if group is None else np.asarray(group)))


def held_out(audit: Audit, y: Any, group: Any = None) -> HeldOut:
    """Measure an audit of held-out rows by their targets."""
    errors = audit.errors(y)
    covariance = np.asarray(audit.total_covariance)
    _check(errors, covariance)
    factor = variance_factor(errors, covariance, audit.degrees)
    spread = np.sqrt(factor * np.diagonal(covariance, axis1=1, axis2=2))
    labels = None if group is None else np.asarray(group)
    return HeldOut(factor, tuple(HeldOutScores(np.abs(e) / s, labels) for e, s in zip(errors.T, spread.T, strict=True)))


def variance_factor(errors: Array, covariance: Array, degrees: float) -> float:
    """The factor of covariances (c, k, k) under which errors (c, k) are most likely.

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
    bad = ~np.isfinite(errors).all(axis=1)
    if bad.any():
        raise DataError(f"{bad.sum()} of {bad.size} held-out rows have a target that is no finite number; drop them")
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
