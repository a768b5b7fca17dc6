"""Local misfit: how badly the training rows similar to an input were fitted."""

from collections.abc import Callable

import numpy as np
import torch

from rue.calibrate.smoother import POWERS, smooth
from rue.core.arrays import Array, Whole
from rue.explain.lens import Usual

ROWS = 1_000  # maximum number of training rows that audited ones are compared with


def misfit(similarity: Array, residual: Array, weight: Array, power: int) -> Array:
    """The root of the mean of squared residuals (n, k), weighted by a power of the similarity (c, n): (c,)."""
    return np.asarray(np.sqrt(_means(similarity, residual, weight, (power,))[0]))


def usual_rows(rows: Whole, density: Array, residual: Array, weight: Array, similar: Callable[[Whole], Array]) -> Usual:
    """The measures of rows (s,) of a sample, with density (s,); residuals and weights are those of the sample.

    `similar` gives the similarity of some rows to all others, zero within a unit. The power maximises the likelihood
    of the left-out residuals of the rows.
    """
    squares = (residual[rows] ** 2).sum(axis=1)
    cells = max(1, 2**22 // len(residual))
    parts = [
        _means(similar(rows[start : start + cells]), residual, weight, POWERS) for start in range(0, len(rows), cells)
    ]
    local = np.concatenate(parts, axis=1)  # (p, s)
    floor = max(float(squares.mean()) * 1e-6, np.finfo(float).tiny)
    variances = local.clip(min=floor)
    nll = [float((np.log(variance) + squares / variance).mean()) for variance in variances]
    best = int(np.argmin(nll))
    return Usual(density, np.sqrt(local[best]), POWERS[best])


def _means(similarity: Array, residual: Array, weight: Array, powers: tuple[int, ...]) -> Array:
    squares = torch.from_numpy((residual**2).sum(axis=1, keepdims=True))
    means = smooth(torch.from_numpy(similarity), squares, torch.from_numpy(weight), powers)
    return np.asarray(means[:, :, 0].numpy())
