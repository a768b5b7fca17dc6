"""Jackknife+ intervals (Barber et al. 2021), where influence gives each prediction without each training row."""

import numpy as np

from rue.calibrate.conformal import percent, rank, require, rows_needed
from rue.core.arrays import Array
from rue.core.errors import NumericalError, ShapeError
from rue.core.guarantee import Guarantee


def jackknife_plus(moved: Array, scores: Array, spread: Array, level: float) -> tuple[Array, Array]:
    """Lower and upper ends (m,) from `moved` (m, n), the predictions without row i, `scores` (n,) and `spread` (m,).

    A score is |left-out residual| / spread of a training row; `spread` is that of the new rows. At levels below ½ the
    ends may cross; such intervals become one point.

    >>> moved, left_out = without_row(  # the mean of 0, 3 and 6
    ...     prediction=np.array([3.0]), cross=np.full((1, 3), 1 / 3), leverage=np.full(3, 1 / 3),
    ...     residual=np.array([-3.0, 0.0, 3.0]))
    >>> lower, upper = jackknife_plus(moved, np.abs(left_out), spread=np.ones(1), level=0.5)
    >>> lower.round(12).tolist(), upper.round(12).tolist()
    ([0.0], [6.0])
    """
    _check(moved, scores, spread)
    n = scores.size
    position = rank(n, level)  # ⌈level · (n + 1)⌉ from below for the upper end, from above for the lower
    if position > n:
        return np.full(len(moved), -np.inf), np.full(len(moved), np.inf)
    reach = scores * spread[:, None]
    lower = np.partition(moved - reach, n - position, axis=1)[:, n - position]
    upper = np.partition(moved + reach, position - 1, axis=1)[:, position - 1]
    middle = (lower + upper) / 2
    return np.minimum(lower, middle), np.maximum(upper, middle)


def without_row(prediction: Array, cross: Array, leverage: Array, residual: Array) -> tuple[Array, Array]:
    """Predictions without row i (m, n) and left-out residuals (n,), for squared error.

    They come from prediction (m,), cross (m, n) = g(x)ᵀ H⁻¹ g(xᵢ), leverage (n,) and residual y − f (n,).

    >>> moved, left_out = without_row(np.array([1.0]), np.full((1, 2), 0.5), np.full(2, 0.5), np.array([-1.0, 1.0]))
    >>> moved.tolist(), left_out.tolist()  # the mean of 0 and 2
    ([[2.0, 0.0]], [-2.0, 2.0])
    """
    check_leverage(leverage)
    left_out = residual / (1 - leverage)
    return prediction[:, None] - cross * left_out, left_out


def guarantee(level: float, n: int) -> Guarantee:
    """The guarantee of intervals from n training rows.

    >>> guarantee(0.9, n=50).split(":")[0]
    'approximately 90 %, not guaranteed'
    """
    floor = f"at least {percent(2 * level - 1)}" if level > 0.5 else "nothing at levels up to 50 %"
    words = (
        f"approximately {percent(level)}, not guaranteed: refits without each row would guarantee {floor}, marginal "
        f"over training and new rows, for exchangeable data and fixed spreads (n = {n} training rows); here they come "
        "from influence, which is exact for ridge regression only"
    )
    needed = rows_needed(level)
    if n < needed:
        words += f"; every interval is infinite, finite ones need n = {needed}"
    return Guarantee(words, "approximate")


def check_leverage(leverage: Array) -> None:
    """Raise unless every row of leverage (n,) can be left out."""
    good = leverage < 1 - 1e-8  # the same limit as in rue.core.one_step
    if not good.all():
        row = int(np.argmin(good))
        raise NumericalError(
            f"the leverage of row {row} is {leverage[row]:g} ({(~good).sum()} of {good.size} rows), expected below 1: "
            "without it the model is not determined; add a penalty or damping, or hold rows out"
        )


def _check(moved: Array, scores: Array, spread: Array) -> None:
    if scores.ndim != 1 or moved.shape != (*spread.shape, scores.size):
        raise ShapeError(
            f"moved has shape {moved.shape}, scores {scores.shape} and spread {spread.shape}, expected (m, n), (n,) "
            "and (m,); pass one output at a time"
        )
    require("moved", moved, np.isfinite(moved), "a finite prediction; raise the damping")
    require("score", scores, np.isfinite(scores) & (scores >= 0), "finite and at least zero; pass |residual| / spread")
    require("spread", spread, np.isfinite(spread) & (spread > 0), "above zero; add the noise")
