"""The simulated data of the paper's Figure 1."""

import numpy as np

from rue.datasets.dataset import Dataset
from rue.result import Array

# E[y | x] = β₁ (1 − exp(−β₂ x)): the paper gives the formula, the constants are ours
BETA_1 = 2.0
BETA_2 = 1.0
NOISE = 0.15
RANGE = 5.0


def simulated(n: int = 20, seed: int = 0) -> Dataset:
    """n rows with x uniform on [0, 5] and y normal around 2 (1 − exp(−x)).

    >>> simulated(3).X.shape
    (3, 1)
    """
    random = np.random.default_rng(seed)
    x = np.sort(random.uniform(0, RANGE, n))
    y = mean(x) + NOISE * random.standard_normal(n)
    return Dataset("simulated", x[:, None], y, ("x",), "y", f"simulated with seed {seed}", "none needed")


def mean(x: Array) -> Array:
    """E[y | x]."""
    return BETA_1 * (1 - np.exp(-BETA_2 * x))
