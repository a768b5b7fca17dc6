"""Local misfit: how badly the rows that a model takes for similar were fitted."""

from collections.abc import Callable

import numpy as np
import torch

from rue.calibrate.smoother import POWERS, smooth
from rue.core.arrays import Array, Whole
from rue.explain.lens import Usual

ROWS = 1_000  # training rows that audited ones are compared with, at most


def misfit(similarity: Array, residual: Array, weight: Array, power: int) -> Array:
    """The root of the mean of squared residuals (n, k), by similarity (c, n) to a power: (c,)."""
    return np.asarray(np.sqrt(_means(similarity, residual, weight, (power,))[0]))


def usual_rows(rows: Whole, density: Array, residual: Array, weight: Array, similar: Callable[[Whole], Array]) -> Usual:
    """Measure training rows (s,) of density (s,); `similar` says how similar some are to all, none to their own unit.

    The power is that under which the left-out residuals of the rows are most likely.
    """
    squares = (residual[rows] ** 2).sum(axis=1)
    cells = max(1, 2**22 // len(residual))
    parts = [
        _means(similar(rows[start : start + cells]), residual, weight, POWERS) for start in range(0, len(rows), cells)
    ]
    local = np.concatenate(parts, axis=1)  # (p, s)
    floor = max(float(squares.mean()) * 1e-6, np.finfo(float).tiny)
    nll = [float((np.log(one.clip(min=floor)) + squares / one.clip(min=floor)).mean()) for one in local]
    best = int(np.argmin(nll))
    return Usual(density, np.sqrt(local[best]), POWERS[best])


def _means(similarity: Array, residual: Array, weight: Array, powers: tuple[int, ...]) -> Array:
    squares = torch.from_numpy((residual**2).sum(axis=1, keepdims=True))
    found = smooth(torch.from_numpy(similarity), None, squares, torch.from_numpy(weight), powers)
    return np.asarray(found[:, :, 0].numpy())
