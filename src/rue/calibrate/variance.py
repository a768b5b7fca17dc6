"""Fits the weights of the terms of a predictive variance by the likelihood of left-out residuals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isinf

import numpy as np

from rue.core.arrays import Array
from rue.core.stored import storable

DEGREES = (3.0, 4.0, 5.0, 7.0, 10.0, 20.0, inf)  # degrees of freedom that are tried; infinite is Gaussian
TINY = 1e-9  # smallest variance, as a part of the mean squared residual
NOTHING = 1e-14  # a term whose mean is below this part of it counts as zero


@storable
@dataclass(frozen=True)
class Weights:
    """Non-negative weights (t,) of t terms, the degrees of freedom, and the mean negative log likelihood reached."""

    values: Array = field(repr=False)
    degrees: float
    nll: float


def fit_weights(
    terms: Array, residual: Array, weight: Array, least: Sequence[float], degrees: Sequence[float] = (inf,)
) -> Weights:
    """Weights of covariances (t, n, k, k) that maximise the likelihood of residuals (n, k), each at least `least`."""
    lowest = np.asarray(least, dtype=np.float64)
    fits = [_fit(terms, residual, weight, lowest, tried) for tried in degrees]
    return min(fits, key=lambda fitted: fitted.nll)


def negative_log_density(residual: Array, covariance: Array, degrees: float) -> Array:
    """−log density (n,) of residuals (n, k), Gaussian or Student-t, with covariances (n, k, k).

    >>> negative_log_density(np.zeros((1, 1)), np.ones((1, 1, 1)), inf).round(6)  # ½ log 2π
    array([0.918939])
    """
    from scipy.special import gammaln

    k = residual.shape[1]
    distance = np.einsum("ni,nij,nj->n", residual, _inverse(covariance), residual)
    volume = 0.5 * (np.log(covariance[:, 0, 0]) if k == 1 else np.linalg.slogdet(covariance)[1])
    if isinf(degrees):
        return np.asarray(volume + 0.5 * (distance + k * np.log(2 * np.pi)))
    shape = gammaln((degrees + k) / 2) - gammaln(degrees / 2) - 0.5 * k * np.log(np.pi * (degrees - 2))
    return np.asarray(volume - shape + 0.5 * (degrees + k) * np.log1p(distance / (degrees - 2)))


def _fit(terms: Array, residual: Array, weight: Array, least: Array, degrees: float) -> Weights:
    """Fit by L-BFGS, with every term and the squared residuals scaled to a mean of one."""
    from scipy.optimize import minimize

    k = residual.shape[1]
    shares = weight / weight.sum()
    noise = float(shares @ (residual**2).sum(1)) / k
    noise = noise if noise > 0 else 1.0
    sizes = np.einsum("n,tnii->t", shares, terms) / k
    nothing = sizes <= NOTHING * noise  # such terms are rounding errors, which scaling would make as large as others
    sizes = np.where(nothing, noise, sizes)
    scaled, errors, lowest = terms / sizes[:, None, None, None], residual / np.sqrt(noise), least * sizes / noise
    floor = TINY * np.eye(k)

    def value(weights: Array) -> tuple[float, Array]:
        covariance = np.einsum("t,tnij->nij", weights, scaled) + floor
        inverse = _inverse(covariance)
        white = np.einsum("nij,nj->ni", inverse, errors)
        distance = np.einsum("ni,ni->n", errors, white)
        pull = np.ones_like(distance) if isinf(degrees) else (degrees + k) / (degrees - 2 + distance)
        slope = inverse - pull[:, None, None] * white[:, :, None] * white[:, None, :]
        objective = shares @ negative_log_density(errors, covariance, degrees)
        return float(objective), 0.5 * np.einsum("n,tnij,nij->t", shares, scaled, slope)

    start = np.maximum(np.full(len(terms), 1 / len(terms)), lowest)
    limits = [(low, None) for low in lowest]
    optimum = minimize(value, start, jac=True, bounds=limits, method="L-BFGS-B", options={"maxiter": 500})
    values = np.where(nothing, least, optimum.x * noise / sizes)
    return Weights(values, degrees, float(optimum.fun) + 0.5 * k * float(np.log(noise)))


def _inverse(covariance: Array) -> Array:
    """The inverses of (n, k, k); one output needs no factorisation."""
    return np.asarray(1 / covariance if covariance.shape[1] == 1 else np.linalg.inv(covariance))
