"""Full conformal intervals by influence (Tailor et al. 2025): no row is held out and no model is trained again."""

import numpy as np
from numpy.typing import NDArray

from rue.calibrate.conformal import percent, rank, require, rows_needed
from rue.calibrate.jackknife_plus import check_leverage
from rue.core.arrays import Array
from rue.core.errors import ShapeError
from rue.core.guarantee import Guarantee


def full_conformal(
    prediction: Array,
    cross: Array,
    leverage_new: Array,
    leverage: Array,
    residual: Array,
    spread_new: Array,
    spread: Array,
    level: float,
) -> tuple[Array, Array]:
    """Lower and upper ends (m,) of the y for which the new row, left out, scores no worse than most training rows.

    For squared error. `prediction`, `leverage_new` and `spread_new` are (m,); `leverage`, the residuals y − f and
    `spread` are (n,); `cross` (m, n) is g(x)ᵀ H⁻¹ g(xᵢ). Needs seven arrays of m·n numbers: pass few enough new rows.

    >>> third = np.full(3, 1 / 3)  # the mean of 0, 3 and 6
    >>> lower, upper = full_conformal(
    ...     prediction=np.array([3.0]), cross=third[None], leverage_new=third[:1], leverage=third,
    ...     residual=np.array([-3.0, 0.0, 3.0]), spread_new=np.ones(1), spread=np.ones(3), level=0.5)
    >>> lower.round(12).tolist(), upper.round(12).tolist()
    ([0.0], [6.0])
    """
    _check_shapes(prediction, cross, leverage_new, leverage, residual, spread_new, spread)
    _check_values(
        leverage, spread_new, spread, prediction=prediction, cross=cross, leverage_new=leverage_new, residual=residual
    )
    n = residual.size
    # y = f(x) + e is inside as long as 1 + #{i : scoreᵢ(e) ≥ score(e)} > (1 − level)(n + 1), that is, as long as
    # n + 1 − position rows have a score at least as large. Row i has one if |residualᵢ − pull·e| / unit ≥
    # |e| / spread_new, which holds from e = 0 up to some limit on either side.
    position = rank(n, level)
    if position > n:
        return np.full(len(cross), -np.inf), np.full(len(cross), np.inf)
    pull = cross / (1 + leverage_new)[:, None]  # change of f(xᵢ) for each unit of e
    unit = spread * (1 - leverage + cross * pull)  # residual of the augmented fit / unit = score of the left-out row
    rate = unit / spread_new[:, None]
    bounded = np.abs(pull) < rate  # else the set is two half-lines; the whole line is used, which is never narrower
    pull *= np.where(residual < 0, -1, 1)
    up, down = _limits(residual, rate + pull, bounded), _limits(residual, rate - pull, bounded)
    for limits in (up, down):
        limits.partition(position - 1, axis=1)
    return prediction - down[:, position - 1], prediction + up[:, position - 1]


def guarantee(level: float, n: int) -> Guarantee:
    """The guarantee of intervals from n training rows.

    >>> guarantee(0.9, n=50).split(":")[0]
    'approximately 90 %, not guaranteed'
    """
    words = (
        f"approximately {percent(level)}, not guaranteed: exact for ridge regression, where it is at least "
        f"{percent(level)}, marginal over training and new rows, for exchangeable data and fixed spreads "
        f"(n = {n} training rows); for networks influence stands in for refits"
    )
    needed = rows_needed(level)
    if n < needed:
        words += f"; every interval is infinite, finite ones need n = {needed}"
    return Guarantee(words, "approximate")


def _limits(residual: Array, rate: Array, bounded: NDArray[np.bool_]) -> Array:
    """The largest |e| on one side at which each training row still has the larger score: (m, n)."""
    return np.divide(np.abs(residual), rate, out=np.full_like(rate, np.inf), where=bounded)


def _check_shapes(prediction: Array, cross: Array, leverage_new: Array, *others: Array) -> None:
    leverage, residual, spread_new, spread = others
    m, n = prediction.shape, residual.shape
    fit = len(m) == len(n) == 1 and cross.shape == m + n
    if not fit or {leverage_new.shape, spread_new.shape} != {m} or {leverage.shape, spread.shape} != {n}:
        raise ShapeError(
            f"prediction has shape {m}, leverage_new {leverage_new.shape}, spread_new {spread_new.shape}, expected "
            f"(m,); residual {n}, leverage {leverage.shape}, spread {spread.shape}, expected (n,); "
            f"cross {cross.shape}, expected (m, n); pass one output at a time"
        )


def _check_values(leverage: Array, spread_new: Array, spread: Array, **finite: Array) -> None:
    for name, values in finite.items():
        require(name, values, np.isfinite(values), "a finite number; raise the damping")
    for name, values in {"spread_new": spread_new, "spread": spread}.items():
        require(name, values, np.isfinite(values) & (values > 0), "above zero; add the noise")
    new = finite["leverage_new"]
    require("leverage_new", new, new >= 0, "at least zero; use a curvature without negative eigenvalues")
    check_leverage(leverage)
