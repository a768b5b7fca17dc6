"""The objective of a linear estimator, Σ loss + ½ l2‖w‖², and the encoding of raw targets for the loss."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.boundary import Response
from rue.core.errors import OpaqueError
from rue.core.stored import storable
from rue.losses import Loss
from rue.models.estimator import unchanged
from rue.models.sklearn.labels import ClassCoding


@storable
@dataclass(frozen=True)
class LinearObjective:
    """The sum of a loss over rows, and ½ l2‖w‖²."""

    loss: Loss
    l2: float | NDArray[np.float64] = 0.0  # of the weights: (k, p), or a shape that broadcasts to it
    bias_l2: float = 0.0
    mean: bool = False  # the losses were averaged, with their weights
    sparse: bool = False  # zero coefficients stay zero, as under a penalty of absolute values
    response: Response | None = None
    encode: Callable[[Any], Any] = field(default=unchanged, repr=False)
    labels: ClassCoding | None = None


def settled(e: Any, name: str) -> Any:
    """A setting as cross-validation chose it (`name_`), else as it was given (`name`)."""
    chosen = f"{name}_"
    return getattr(e, chosen) if hasattr(e, chosen) else getattr(e, name)


def no_curvature(e: Any, nearest: str) -> OpaqueError:
    """The error for a loss without a second derivative."""
    return OpaqueError(
        f"{type(e).__name__}(loss={e.loss!r}) has no second derivative to audit with; the nearest choice is "
        f"loss={nearest!r}"
    )


def liblinear_bias(e: Any, l2: float) -> float:
    """LIBLINEAR's intercept is the weight of a constant feature, intercept_scaling, penalised like the others."""
    return float(l2 / e.intercept_scaling**2)


def stochastic(e: Any, loss: Loss, **rest: Any) -> LinearObjective:
    """Weighted losses divided by the number of rows + alpha (l1_ratio‖w‖₁ + ½(1 − l1_ratio)‖w‖²)."""
    ratio = {None: 0.0, "l2": 0.0, "l1": 1.0}.get(e.penalty, e.l1_ratio)
    l2 = 0.0 if e.penalty is None else float(e.alpha) * (1 - ratio)
    counted = e.n_iter_ > 1 and not e.warm_start  # else t_ may count the rows of several calls
    rows = (e.t_ - 1) / e.n_iter_ if counted else 1.0
    return LinearObjective(loss, l2 * rows, mean=not counted, sparse=ratio > 0, **rest)
