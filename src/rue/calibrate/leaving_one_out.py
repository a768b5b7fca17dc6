"""What the model would say of each training row had it never seen the row, or its group; and a check by refits."""

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
from rue.core.kept_derivatives import derivatives_kept
from rue.core.model import Model
from rue.core.one_step import LeftOut, left_out, left_out_losses
from rue.core.progress import track
from rue.core.randomness import generator, untouched
from rue.core.settings import check_parts
from rue.core.solve.choice import invert
from rue.data.rows import Rows, training_rows

LongArray = NDArray[np.int64]

GAUSS_NEWTON = GaussNewton()


@dataclass(frozen=True)
class LeaveOneOut:
    """Each training row as the model would predict it without the row, or without its whole group.

    For a linear model with squared error this is what refits give; for others it is one Newton step. One output is
    (n,), several are (n, k); rows are in the order in which they were read.
    """

    fitted: Array = field(repr=False)  # what the model itself says
    prediction: Array = field(repr=False)  # what it would say without the row's unit
    residual: Array = field(repr=False)  # ∂ℓ/∂f there; for squared error prediction − target
    loss: Array = field(repr=False)  # (n,), of weight one, there
    leverage: Array = field(repr=False)  # (n,), how much of its own fit the row decides; sums over outputs
    weight: Array = field(repr=False)  # (n,)
    row: LongArray = field(repr=False)  # (n,), the row's number in the user's own data
    unit: LongArray = field(repr=False)  # (n,), what was left out with it: equal numbers went together
    effective_parameters: float
    facts: Facts = field(repr=False)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.row)

    @property
    def mean_loss(self) -> float:
        """The left-out loss, averaged with the rows' weights."""
        return float(np.average(self.loss, weights=self.weight))


@dataclass(frozen=True)
class RefitComparison:
    """Rows that were really left out: what influence says of them beside what refits say; (c,) or (c, k)."""

    row: LongArray = field(repr=False)  # (c,), numbers in the user's own data
    fitted: Array = field(repr=False)  # what the model itself says
    influence: Array = field(repr=False)  # without the row's unit, by `leave_one_out`
    refit: Array = field(repr=False)  # without the row's unit, by a model trained so
    refits: int

    @property
    def influence_change(self) -> Array:
        """Left out minus fitted, by influence."""
        return self.influence - self.fitted

    @property
    def refit_change(self) -> Array:
        """Left out minus fitted, by refits."""
        return self.refit - self.fitted

    @property
    def correlation(self) -> float:
        """Of the two changes over rows and outputs; nan where one of them does not vary."""
        said, done = (change - change.mean() for change in (self.influence_change, self.refit_change))
        size = float(np.linalg.norm(said) * np.linalg.norm(done))
        return float((said * done).sum()) / size if size > 0 else float("nan")

    @property
    def slope(self) -> float:
        """How far refits moved for each unit that influence says: correlation alone is blind to it."""
        said = self.influence_change
        square = float((said**2).sum())
        return float((said * self.refit_change).sum()) / square if square > 0 else float("nan")

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
    """Leave every row out, or every group where `rue.Data` has them, without training anything again.

    >>> import rue
    >>> mean = torch.nn.Linear(1, 1, bias=False)  # the mean of 0, 0, 6 and 6
    >>> _ = mean.weight.data.fill_(3.0)
    >>> model = rue.wrap(mean, loss="squared_error", l2=0.0)
    >>> found = leave_one_out(model, (np.ones((4, 1)), np.array([0.0, 0.0, 6.0, 6.0])))
    >>> found.prediction.round(6).tolist(), found.residual.round(6).tolist()
    ([4.0, 4.0, 2.0, 2.0], [4.0, 4.0, -4.0, -4.0])
    """
    check_parts(curvature=curvature, damping=damping, solver=solver)
    with reading(model, data, "leave_one_out") as (read, rows):
        started = time.perf_counter()
        bound = read if solver is None else read.seen_by(solver, rows)
        inverted = invert(curvature.at(bound, rows), damping, solver)
        found = left_out(bound, rows, inverted.inverse)
        said = [text for text in (inverted.damped.warning, optimism(bound, found, rows.n)) if text]
        for text in said:
            warnings.warn(text, RueWarning, stacklevel=2)
        facts: Facts = {
            "n": rows.n,
            "units": rows.units,
            "d": bound.theta.numel(),
            **bound.describe(),
            **inverted.describe(),
            "residual": found.residual,
            "seconds": time.perf_counter() - started,
            "warnings": tuple(said),
        }
        return LeaveOneOut(
            fitted=_array(found.fitted),
            prediction=_array(found.prediction),
            residual=_array(found.slope),
            loss=left_out_losses(bound, rows, found).cpu().numpy(),
            leverage=found.share.cpu().numpy(),
            weight=rows.weight.numpy(),
            row=rows.ids.numpy(),
            unit=rows.unit.numpy().astype(np.int64),
            effective_parameters=found.effective,
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
    """Really leave `count` rows, or groups, out: the seed says which.

    `refit(kept)` gets the numbers of the rows that stay, and returns `rue.wrap(...)` of a model trained on them alone,
    best from the parameters it has now, with the penalty of the summed objective unchanged (under `reduction="mean"`
    l2 must grow by n/len(kept)).
    """
    found = leave_one_out(model, data, curvature=curvature, damping=damping, solver=solver)
    left = _drawn_units(len(np.unique(found.unit)), count, seed)
    rows, predicted = [], []
    for unit in track("refits", left.tolist(), total=len(left)):
        out = found.unit == unit
        with untouched():
            again = refit(np.setdiff1d(found.row, found.row[out]))
        with reading(again, data, "refit") as (bound, read):
            says = _array(torch.cat([outputs(bound, batch.inputs) for batch in read.batches()]).double())
        if says.shape != found.fitted.shape:
            raise ModelError(
                f"refit returned a model that predicts {says.shape} where the first one predicts {found.fitted.shape}; "
                "train the same architecture again"
            )
        rows.append(np.flatnonzero(out))
        predicted.append(says[out])
    at = np.concatenate(rows)
    return RefitComparison(
        row=found.row[at],
        fitted=found.fitted[at],
        influence=found.prediction[at],
        refit=np.concatenate(predicted),
        refits=len(left),
    )


def optimism(model: Model, found: LeftOut, n: int) -> str | None:
    """What to say where the model has too many effective parameters for its rows."""
    free = free_outputs(model.family, found.fitted.shape[1])
    share = crowding(found.effective, n, free)
    if share <= WARNED_OF:
        return None
    rows = f"{n} rows" if free == 1 else f"{n} rows of {free} free outputs"
    return (
        f"{found.effective:.1f} effective parameters for {rows} are a share of {share:.2f}, above {WARNED_OF}: "
        "leave-one-out errors are then too small; check on held-out rows, or train with a larger penalty"
    )


@contextmanager
def reading(model: Any, data: Any, who: str) -> Iterator[tuple[Model, Rows]]:
    """Bind a model to its training rows, and leave the world's random state as it was: twice gives the same rows."""
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
    """(n, k) as NumPy; one output is (n,)."""
    found: Array = values.cpu().numpy()
    return found[:, 0] if found.shape[1] == 1 else found
