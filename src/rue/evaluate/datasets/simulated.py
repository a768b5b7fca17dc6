"""Simulated data: the curve of the paper's Figure 1, and a surface for networks."""

import numpy as np

from rue.core.arrays import Array
from rue.evaluate.datasets.dataset import Dataset

# E[y | x] = β₁ (1 − exp(−β₂ x)): the paper gives the formula; the constants, the noise and the design of x are ours.
# Four fifths of the rows lie in the left half of the range, so that one half is dense and the other sparse.
BETA_1 = 5.0
BETA_2 = 0.5
NOISE = 0.3
RANGE = 10.0
DENSE_RANGE = 5.0
DENSE_SHARE = 0.8
SURFACE_NOISE = 0.3


def simulated(n: int = 40, seed: int = 0) -> Dataset:
    """n rows with y normal around 5 (1 − exp(−x/2)); four fifths have x uniform on [0, 5], the rest on [5, 10].

    >>> simulated(3).X.shape
    (3, 1)
    """
    random = np.random.default_rng(seed)
    dense = round(DENSE_SHARE * n)
    x = np.concatenate([random.uniform(0, DENSE_RANGE, dense), random.uniform(DENSE_RANGE, RANGE, n - dense)])
    x.sort()
    y = mean(x) + NOISE * random.standard_normal(n)
    return Dataset("simulated", x[:, None], y, ("x",), "y", f"simulated with seed {seed}", "none needed")


def simulated_surface(n: int, seed: int = 0) -> Dataset:
    """n rows with two standard normal features and y normal around sin(x₁) + x₁x₂/2, about as wide as a standard score.

    >>> simulated_surface(3).X.shape
    (3, 2)
    """
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, 2))
    y = np.sin(X[:, 0]) + X[:, 0] * X[:, 1] / 2 + SURFACE_NOISE * random.standard_normal(n)
    return Dataset("simulated surface", X, y, ("x1", "x2"), "y", f"simulated with seed {seed}", "none needed")


def mean(x: Array) -> Array:
    """E[y | x] of the curve."""
    return BETA_1 * (1 - np.exp(-BETA_2 * x))
