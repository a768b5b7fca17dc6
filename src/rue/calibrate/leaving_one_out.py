"""Leave-one-out predictions of the training rows by influence, and a comparison with real refits."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.calibrate.crowding import WARNED_OF, crowding, free_outputs
from rue.core.arrays import Array
from rue.core.concepts import CurvatureRule, Damping, Facts, Solver
from rue.core.curvature import GaussNewton
from rue.core.derivatives import outputs
from rue.core.errors import ModelError, RueWarning, SettingError
from rue.core.memory import derivatives_kept
from rue.core.model import Model
from rue.core.one_step import LeftOut, left_out, left_out_losses
from rue.core.progress import track
from rue.core.resample import generator, untouched
from rue.core.solve.choice import check_parts, invert
from rue.data.opening import training_rows
from rue.data.rows import Rows

LongArray = NDArray[np.int64]

GAUSS_NEWTON = GaussNewton()


@dataclass(frozen=True)
class LeaveOneOut:
    """Predictions for each training row by a model without the row, or without its whole group.

    For a linear model with squared error these equal refits; for other models they come from one Newton step. Arrays
    are (n,) for one output and (n, k) for several; rows are in the order in which they were read.
    """

    fitted: Array = field(repr=False)  # the model's own outputs
    prediction: Array = field(repr=False)  # outputs without the row's unit
    residual: Array = field(repr=False)  # ∂ℓ/∂f at `prediction`; for squared error, prediction − target
    loss: Array = field(repr=False)  # (n,), the loss at `prediction`, without the row's weight
    leverage: Array = field(repr=False)  # (n,), how far the row determines its own fit, summed over outputs
    weight: Array = field(repr=False)  # (n,)
    row: LongArray = field(repr=False)  # (n,), the number of the row in the user's data
    unit: LongArray = field(repr=False)  # (n,), the unit of the row: rows of one unit are left out together
    effective_parameters: float
    facts: Facts = field(repr=False)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.row)

    @property
    def mean_loss(self) -> float:
        """The weighted mean of the left-out losses."""
        return float(np.average(self.loss, weights=self.weight))


@dataclass(frozen=True)
class RefitComparison:
    """Left-out predictions by influence beside those of models that were really retrained; (c,) or (c, k)."""

    row: LongArray = field(repr=False)  # (c,), numbers of the rows in the user's data
    fitted: Array = field(repr=False)  # the model's own outputs
    influence: Array = field(repr=False)  # outputs without the row's unit, by `leave_one_out`
    refit: Array = field(repr=False)  # outputs of a model trained without the row's unit
    refits: int

    @property
    def influence_change(self) -> Array:
        """Left-out minus fitted prediction, by influence."""
        return self.influence - self.fitted

    @property
    def refit_change(self) -> Array:
        """Left-out minus fitted prediction, by refits."""
        return self.refit - self.fitted

    @property
    def correlation(self) -> float:
        """The correlation of the two changes over rows and outputs; nan if one of them does not vary."""
        estimated, real = (change - change.mean() for change in (self.influence_change, self.refit_change))
        size = float(np.linalg.norm(estimated) * np.linalg.norm(real))
        return float((estimated * real).sum()) / size if size > 0 else float("nan")

    @property
    def slope(self) -> float:
        """Change by refits per unit of change by influence: a wrong scale, which the correlation does not show."""
        estimated = self.influence_change
        square = float((estimated**2).sum())
        return float((estimated * self.refit_change).sum()) / square if square > 0 else float("nan")

    def __str__(self) -> str:
        apart = np.abs(self.influence - self.refit).max()
        return (
            f"leave-one-out against {self.refits} refits ({len(self.row)} rows left out): the changes correlate "
            f"{self.correlation:.3f}, refits moved {self.slope:.2f} times as far, "
            f"and no prediction differs by more than {apart:.2g}"
        )


def leave_one_out(
    model: Model,
    data: Any,
    *,
    curvature: CurvatureRule = GAUSS_NEWTON,
    damping: Damping | None = None,
    solver: Solver | None = None,
) -> LeaveOneOut:
    """Leave out every row, or every group if `rue.Data` has groups, without training anything again.

    >>> import rue
    >>> mean = torch.nn.Linear(1, 1, bias=False)  # the mean of 0, 0, 6 and 6
    >>> _ = mean.weight.data.fill_(3.0)
    >>> model = rue.wrap(mean, loss="squared_error", l2=0.0)
    >>> result = leave_one_out(model, (np.ones((4, 1)), np.array([0.0, 0.0, 6.0, 6.0])))
    >>> result.prediction.round(6).tolist(), result.residual.round(6).tolist()
    ([4.0, 4.0, 2.0, 2.0], [4.0, 4.0, -4.0, -4.0])
    """
    check_parts(curvature=curvature, damping=damping, solver=solver)
    with reading(model, data, "leave_one_out") as (read, rows):
        started = time.perf_counter()
        bound = read if solver is None else read.seen_by(solver, rows)
        inverted = invert(curvature.at(bound, rows), damping, solver)
        left = left_out(bound, rows, inverted.inverse)
        found = (inverted.damped.warning, optimism(bound, left, rows.n), bound.held_fixed)
        texts = [text for text in found if text]
        for text in texts:
            warnings.warn(text, RueWarning, stacklevel=2)
        facts: Facts = {
            "n": rows.n,
            "units": rows.units,
            "d": bound.theta.numel(),
            **bound.describe(),
            **inverted.describe(),
            "residual": left.residual,
            "seconds": time.perf_counter() - started,
            "warnings": tuple(texts),
        }
        return LeaveOneOut(
            fitted=_array(left.fitted),
            prediction=_array(left.prediction),
            residual=_array(left.slope),
            loss=left_out_losses(bound, rows, left).cpu().numpy(),
            leverage=left.share.cpu().numpy(),
            weight=rows.weight.numpy(),
            row=rows.ids.numpy(),
            unit=rows.unit.numpy().astype(np.int64),
            effective_parameters=left.effective,
            facts=facts,
        )


def compare_with_refits(
    model: Model,
    data: Any,
    refit: Callable[[LongArray], Model],
    *,
    count: int = 20,
    seed: int = 0,
    curvature: CurvatureRule = GAUSS_NEWTON,
    damping: Damping | None = None,
    solver: Solver | None = None,
) -> RefitComparison:
    """Really leave out `count` rows or groups, drawn at random by the seed.

    `refit(kept)` gets the numbers of the remaining rows and returns `rue.wrap(...)` of a model trained on them alone,
    preferably starting from the present parameters. The penalty of the summed objective must stay the same (with
    `reduction="mean"`, l2 must grow by n/len(kept)).
    """
    by_influence = leave_one_out(model, data, curvature=curvature, damping=damping, solver=solver)
    units = _drawn_units(len(np.unique(by_influence.unit)), count, seed)
    rows, refits = [], []
    for unit in track("refits", units.tolist(), total=len(units)):
        out = by_influence.unit == unit
        with untouched():
            again = refit(np.setdiff1d(by_influence.row, by_influence.row[out]))
        with reading(again, data, "refit") as (bound, read):
            predicted = _array(torch.cat([outputs(bound, batch.inputs) for batch in read.batches()]).double())
        if predicted.shape != by_influence.fitted.shape:
            raise ModelError(
                f"refit returned a model that predicts {predicted.shape} where the first one predicts "
                f"{by_influence.fitted.shape}; train the same architecture again"
            )
        rows.append(np.flatnonzero(out))
        refits.append(predicted[out])
    at = np.concatenate(rows)
    return RefitComparison(
        row=by_influence.row[at],
        fitted=by_influence.fitted[at],
        influence=by_influence.prediction[at],
        refit=np.concatenate(refits),
        refits=len(units),
    )


def optimism(model: Model, left: LeftOut, n: int) -> str | None:
    """A warning if the model has too many effective parameters for its rows."""
    free = free_outputs(model.family, left.fitted.shape[1])
    share = crowding(left.effective, n, free)
    if share <= WARNED_OF:
        return None
    rows = f"{n} rows" if free == 1 else f"{n} rows of {free} free outputs"
    return (
        f"{left.effective:.1f} effective parameters for {rows} are a share of {share:.2f}, above {WARNED_OF}: "
        "leave-one-out errors are then too small; check on held-out rows, or train with a larger penalty"
    )


@contextmanager
def reading(model: Any, data: Any, who: str) -> Iterator[tuple[Model, Rows]]:
    """Bind a model to its training rows, without changing the global random state: every call reads the same rows."""
    if isinstance(model, torch.nn.Module) or not hasattr(model, "bind"):
        raise ModelError(
            f"{who} needs a wrapped model, got {type(model).__name__}; "
            'give it rue.wrap(net, loss="squared_error", l2=...), with the loss and l2 of training'
        )
    with untouched(), torch.inference_mode(False):
        rows, bound = training_rows(data, model)
        with derivatives_kept(rows):
            yield bound, rows


def _drawn_units(units: int, count: int, seed: int) -> Tensor:
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= units:
        raise SettingError(
            f"count must be a whole number from 2 to {units}, the rows or groups that can be left out, got {count!r}"
        )
    if not isinstance(seed, int):
        raise SettingError(f"seed must be a whole number, so that the comparison can be repeated, got {seed!r}")
    return torch.randperm(units, generator=generator(seed))[:count]


def _array(values: Tensor) -> Array:
    """Values (n, k) as a NumPy array; (n,) for one output."""
    array: Array = values.cpu().numpy()
    return array[:, 0] if array.shape[1] == 1 else array
