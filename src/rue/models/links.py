"""Inverse link functions, which turn the outputs of a model into the mean that its estimator predicts."""

from dataclasses import dataclass

import numpy as np

from rue.core.arrays import Array


@dataclass(frozen=True)
class Exponential:
    """The outputs are logarithms of the mean.

    >>> Exponential().value(np.zeros((1, 1)))
    array([[1.]])
    """

    def value(self, outputs: Array) -> Array:
        """Predictions (m, k)."""
        return np.exp(outputs)

    def slope(self, outputs: Array) -> Array:
        """Its derivative (m, k)."""
        return np.exp(outputs)


@dataclass(frozen=True)
class Logistic:
    """The outputs are log odds.

    >>> Logistic().value(np.zeros((1, 1)))
    array([[0.5]])
    """

    def value(self, outputs: Array) -> Array:
        """Probabilities (m, k)."""
        return np.asarray(0.5 * (1 + np.tanh(0.5 * outputs)))  # never overflows

    def slope(self, outputs: Array) -> Array:
        """Its derivative (m, k)."""
        share = self.value(outputs)
        return share * (1 - share)
