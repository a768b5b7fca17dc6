"""The prior N(w | 0, 1/λ) of every weight with a Gamma over λ, as factors that expectation propagation refines."""

import numpy as np

from rue.core.arrays import Array
from rue.methods.integrated.pbp.gamma import Gamma

SHAPE, RATE = 6.0, 6.0  # α₀ and β₀ of the precisions λ and γ, as in the paper
FLAT = 1e6  # a larger cavity variance means that no data informed the weight: it is only rounding error


class Prior:
    """The approximate factors of d weights in g problems: a Gaussian over w times a Gamma over λ.

    A factor's Gaussian always has mean zero: its moments match those of N(w | 0, β/(α − 1)).
    """

    def __init__(self, weights: int, problems: int) -> None:
        self.gamma = hyperprior(problems)  # over λ
        self._precision = np.tile(1 / self.gamma.variance, (weights, 1))  # (d, g), of the factors' Gaussians
        self._shape, self._rate = np.zeros((2, weights, problems))  # (d, g), what each factor adds to α and β

    def refine(self, mean: Array, variance: Array) -> None:
        """Take each factor out of the posterior (d, g) and put it in again, weight by weight, in place."""
        with np.errstate(all="ignore"):  # a factor whose cavity is no distribution is left alone
            for weight in range(len(mean)):
                self._refine(weight, mean[weight], variance[weight])

    def _refine(self, weight: int, mean: Array, variance: Array) -> None:
        total = 1 / variance
        rest = total - self._precision[weight]  # the cavity's precision
        cavity = Gamma(self.gamma.shape - self._shape[weight], self.gamma.rate - self._rate[weight])
        updated = cavity.observed(mean * total / rest, 1 / rest)
        valid = (rest > 1 / FLAT) & cavity.proper & updated.proper
        precision = np.where(valid, 1 / cavity.variance, self._precision[weight])
        new_variance = 1 / (rest + precision)
        mean[:] = np.where(valid, mean * total * new_variance, mean)
        variance[:] = np.where(valid, new_variance, variance)
        self.gamma = updated.where(valid, self.gamma)
        self._precision[weight] = precision
        self._shape[weight] = np.where(valid, updated.shape - cavity.shape, self._shape[weight])
        self._rate[weight] = np.where(valid, updated.rate - cavity.rate, self._rate[weight])


def hyperprior(problems: int) -> Gamma:
    """The Gamma distribution from which both precisions start."""
    return Gamma(np.full(problems, SHAPE), np.full(problems, RATE))
