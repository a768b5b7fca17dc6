"""What a linear estimator minimised: Σ loss + ½ l2‖w‖², and how raw targets reach the loss."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.concepts import Response
from rue.core.errors import OpaqueError
from rue.losses import Loss
from rue.models.sklearn.labels import ClassCoding


@dataclass(frozen=True)
class LinearObjective:
    """A loss for each row and ½ l2‖w‖²."""

    loss: Loss
    l2: float | NDArray[np.float64] = 0.0  # of the weights (k, p), or what broadcasts to that
    bias_l2: float = 0.0
    mean: bool = False  # the losses were averaged, by their weights
    sparse: bool = False  # a coefficient of zero stays zero: a penalty of absolute values, which has no curvature
    response: Response | None = None
    encode: Callable[[Any], Any] = field(default=lambda targets: targets, repr=False)
    labels: ClassCoding | None = None


def settled(e: Any, name: str) -> Any:
    """A setting as cross-validation found it, else as it was given."""
    found = f"{name}_"
    return getattr(e, found) if hasattr(e, found) else getattr(e, name)


def no_curvature(e: Any, nearest: str) -> OpaqueError:
    """The refusal of a loss with corners."""
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
    counted = e.n_iter_ > 1 and not e.warm_start  # else t_ counts the rows of several calls together
    rows = (e.t_ - 1) / e.n_iter_ if counted else 1.0
    return LinearObjective(loss, l2 * rows, mean=not counted, sparse=ratio > 0, **rest)
