"""A Gamma distribution over a precision, and how one observation changes it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.core.stored import storable

NEXT = np.array([[-1.0], [0.0], [1.0]])  # α − 1 stands in Z, α in Z₁, α + 1 in Z₂


@storable
class Gamma(NamedTuple):
    """One Gamma distribution for each of g problems."""

    shape: Array  # (g,), α
    rate: Array  # (g,), β

    @property
    def variance(self) -> Array:
        """The mean of one over the precision: β/(α − 1)."""
        return self.rate / (self.shape - 1)

    @property
    def proper(self) -> NDArray[np.bool_]:
        """Where that mean exists: (g,)."""
        return (self.shape > 1) & (self.rate > 0)

    def observed(self, residual: Array, variance: Array) -> "Gamma":
        """Match two moments after observing a residual (g,) of variance (g,) plus one over the precision.

        Z, Z₁ and Z₂ are N(residual | 0, variance + β/(α − 1)) at α, α + 1 and α + 2.
        """
        total = variance + self.rate / (self.shape + NEXT)
        log_z = -0.5 * (np.log(total) + residual * residual / total)  # of Z, Z₁, Z₂
        # β times the mean of the precision, and β times its second moment over its mean
        first, second = np.exp(log_z[1:] - log_z[:-1]) * (self.shape + NEXT[1:])
        spread = second - first
        return Gamma(first / spread, self.rate / spread)

    def where(self, valid: NDArray[np.bool_], other: "Gamma") -> "Gamma":
        """Where valid this one, elsewhere the other."""
        return Gamma(np.where(valid, self.shape, other.shape), np.where(valid, self.rate, other.rate))
