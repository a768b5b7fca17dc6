"""Temperature scaling: logits are divided by one number that makes confidence match accuracy (Guo et al. 2017)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rue.core.arrays import Array
from rue.core.errors import DataError, ShapeError
from rue.core.stored import storable


@storable
@dataclass(frozen=True)
class Temperature:
    """Logits are divided by `value`; above one the classifier was overconfident. The predicted class stays the same."""

    value: float
    nll_before: float  # mean over the held-out rows, in nats
    nll_after: float
    n: int  # held-out rows

    def probability(self, logits: Any) -> Array:
        """Probabilities at this temperature: (m, k) for logits (m, k), or (m,) of the second class for logits (m,)."""
        values = _numbers(logits)
        scores = _margins(values) / self.value
        shares: Array = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return shares[:, 1] if values.ndim == 1 else shares


def temperature(logits: Any, labels: Any) -> Temperature:
    """The temperature with the smallest NLL on held-out logits (c, k) and labels (c,); binary logits may be (c,).

    >>> logits = np.array([3.0, 3.0, 3.0, 3.0])  # three of four rows have this class
    >>> fitted = temperature(logits, np.array([1, 1, 1, 0]))
    >>> round(fitted.value, 4), fitted.probability(logits[:1]).round(4).tolist()
    (2.7307, [0.75])
    """
    from scipy.optimize import brentq

    scores = _margins(_numbers(logits))
    behind = scores - scores[np.arange(len(scores)), _labels(labels, scores)][:, None]  # other logits minus the label's
    unit = np.abs(behind).max()
    if unit == 0 or behind.mean() >= 0:
        raise DataError(
            f"the labels' logits of {len(scores)} held-out rows are no larger than the others' on average, so that no "
            "temperature improves on a coin; check that logits and labels are of the same rows and classes"
        )
    if behind.max() <= 0:
        raise DataError(
            f"all {len(scores)} held-out rows are classified right, so that a temperature of zero would be best; hold "
            "more rows out, among them some that are classified wrong"
        )
    behind /= unit
    upper = 1.0
    while _slope(behind, upper) < 0:
        upper *= 2
    coldness = float(brentq(lambda at: _slope(behind, at), 0.0, upper, xtol=1e-14 * upper, rtol=1e-14))
    return Temperature(float(unit / coldness), _nll(behind, unit), _nll(behind, coldness), len(scores))


def _nll(behind: Array, coldness: float) -> float:
    """Mean of log Σ exp(coldness · behind) over the rows: the NLL at temperature 1/coldness."""
    return float(np.logaddexp.reduce(coldness * behind, axis=1).mean())


def _slope(behind: Array, coldness: float) -> float:
    """Derivative of the NLL with respect to the coldness: rising, because the NLL is convex in it."""
    scores = coldness * behind
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return float(((shares * behind).sum(axis=1) / shares.sum(axis=1)).mean())


def _margins(logits: Array) -> Array:
    """Logits (c, k); a binary logit (c,) becomes two columns, zero and the logit."""
    return np.stack([np.zeros_like(logits), logits], axis=1) if logits.ndim == 1 else logits


def _numbers(logits: Any) -> Array:
    values = np.asarray(_plain(logits), dtype=np.float64)
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] < 2):
        raise ShapeError(
            f"logits have shape {values.shape}, expected (c, k) with k of at least 2 classes, or (c,) for two classes"
        )
    if values.size == 0:
        raise DataError("there are no logits, expected one row for each held-out row; hold rows out")
    if not np.isfinite(values).all():
        bad = (~np.isfinite(values)).reshape(len(values), -1).any(axis=1).sum()
        raise DataError(f"{bad} of {len(values)} rows of logits are NaN or infinite; give logits, not log(0)")
    return values


def _labels(labels: Any, scores: Array) -> NDArray[np.int64]:
    values = np.asarray(_plain(labels))
    if values.shape != scores.shape[:1]:
        raise ShapeError(f"labels have shape {values.shape}, expected one class per row of logits {scores.shape[:1]}")
    classes = scores.shape[1]
    numbers = np.issubdtype(values.dtype, np.number) or values.dtype == np.bool_
    if not numbers or not np.isin(values, np.arange(classes)).all():
        raise DataError(f"labels must be the whole numbers 0 to {classes - 1}, the columns of the logits; encode them")
    return values.astype(np.int64)


def _plain(values: Any) -> Any:
    return values.detach().cpu() if isinstance(values, Tensor) else values
