"""What every method's `fit` does before and after its own mathematics."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.auditing.assessment import Assessor, Members
from rue.auditing.auditor import Auditor, Predict
from rue.auditing.meaning import Meaning
from rue.auditing.predictive import Predictive
from rue.auditing.trained import Trained
from rue.calibrate.doubts import doubts
from rue.calibrate.left_out import Chosen, Evidence, EvidenceRule, Folds, Influence
from rue.calibrate.left_out.evidence import Source, Training
from rue.calibrate.left_out_intervals import LeftOutRows, RankedRows
from rue.core.arrays import Array
from rue.core.concepts import CurvatureRule, Damping, Facts, Objective, Resampler, Solver
from rue.core.curvature import GaussNewton
from rue.core.derivatives import loss_gradient, outputs
from rue.core.errors import CrowdedWarning, ModelError, NumericalError, RueWarning, SettingError
from rue.core.influence import Meat
from rue.core.kept_derivatives import derivatives_kept
from rue.core.model import Model
from rue.core.randomness import untouched
from rue.core.settings import WANTED, check_parts
from rue.core.solve.choice import Inverted, invert, too_large
from rue.core.solve.projection import Projection
from rue.data.rows import Rows, training_rows
from rue.explain.gradients import GradientLens
from rue.explain.lens import Lens
from rue.models.again import copies

Refit = Callable[[NDArray[np.int64]], Any] | bool | None
"""How a model is trained from scratch on some rows; False: not at all; None: as an estimator does by itself."""


@dataclass(frozen=True)
class Fitting:
    """A model bound to its training rows, and the auditor to be made of them."""

    method: object  # the settings
    model: Model
    data: Rows
    started: float
    said: list[str] = field(default_factory=list)  # warnings met on the way

    def invert(self, curvature: CurvatureRule, damping: Damping | None, solver: Solver | None) -> Inverted:
        """Damp and factor the curvature; what had to be done about a singular one is said."""
        if not self.model.family.gradients:
            raise ModelError(
                "a model that is known by its predictions alone has no gradients and no curvature",
                "use rue.audit, CalibratedRUE() for numbers or ClassifierRUE() for classes",
            )
        if not self.model.family.joint:
            raise ModelError("a forest minimises no one objective, so that it has no curvature", "use ForestRUE()")
        inverted = invert(curvature.at(self.model, self.data), damping, solver)
        self._say(inverted.damped.warning)
        return inverted

    def _say(self, text: str | None, kind: type[RueWarning] = RueWarning) -> None:
        """Warn, and keep the warning for the audit's facts."""
        if text:
            self.said.append(text)
            warnings.warn(text, kind, stacklevel=4)

    def evidence(self, rule: EvidenceRule | None, refit: Refit = None) -> Evidence:
        """Left-out predictions by this rule; without one, by `Chosen()`, or as the method's own damping has it.

        `refit` trains copies; None takes those that an estimator makes of itself, False takes none.
        """
        if rule is not None and (isinstance(rule, type) or not callable(getattr(rule, "gather", None))):
            raise SettingError(
                f"left_out is {rule!r}, expected one of rue.left_out's rules, such as left_out=rue.left_out.Mixture()"
            )
        settings: Any = self.method
        asked = settings.damping is not None or not isinstance(settings.curvature, GaussNewton)
        chosen = rule or (Influence() if asked else Chosen())

        @cache
        def own() -> Inverted:
            curvature = settings.curvature.at(self.model, self.data)
            return invert(curvature, settings.damping, settings.solver)

        training = self._training(refit, isinstance(rule, Folds), settings.seed)
        found = chosen.gather(self.model, self.data, own, settings.seed, training)
        damped = None if found.rest is None else found.rest.inverted.damped.warning
        self._say(damped)
        self._say(found.warning, CrowdedWarning if found.crowded else RueWarning)
        for text in doubts(self.model, self.data, found):
            self._say(text)
        return found

    def _training(self, refit: Refit, asked: bool, seed: int) -> Training | None:
        if refit is False:
            if asked:
                raise SettingError("left_out=Folds() trains copies, which refit=False forbids; leave one of them away")
            return None
        if refit is not None:
            if not callable(refit) or isinstance(refit, torch.nn.Module):
                raise SettingError(
                    f"refit is {refit!r}, expected a function from row numbers to a model that was trained on those "
                    "rows from scratch, False to have nothing trained, or None"
                )
            return Training(refit, asked=True)
        estimator = self.model.estimator
        source = self.data.source
        if estimator is None or source.y is None:
            return None
        weight = None if source.weight is None else np.asarray(source.weight, dtype=np.float64)
        made = copies(estimator, source.X, source.y, weight, seed)
        return None if made is None else Training(made, asked)

    def auditor(
        self,
        assess: Assessor,
        facts: Facts,
        *,
        noise: bool = True,
        predictor: Predict | None = None,
        drawn: Members | None = None,
        degrees: float = inf,
        left_out: LeftOutRows | None = None,
        ranked: RankedRows | None = None,
        inverted: Inverted | None = None,
        objective: Objective | None = None,
        source: Source | None = None,
        lens: Lens | None = None,
    ) -> Auditor:
        """Put together what the method found; `noise` adds the paper's residual variance.

        `predictor` is what predicts where a method has networks of its own: (m, k); `drawn` are members. `degrees` are
        those of a Student-t predictive distribution; `left_out` or `ranked` rows give intervals without held-out ones.
        What explains a prediction is made of the `inverted` curvature of an `objective` at rest (the model, unless
        told), or is a `lens` of its own; `source` is that of left-out predictions.
        """
        residual = residual_covariance(self.model, self.data) if noise and self.model.family.gaussian else None
        found: Facts = {
            "method": repr(self.method),
            "n": self.data.n,
            "units": self.data.units,
            "d": self.model.theta.numel(),
            **self.model.describe(),
            "damping": None,
            "residual": None,
            **facts,
            "seconds_fit": time.perf_counter() - self.started,
            "warnings": tuple(self.said),
        }
        resampler: Resampler | None = getattr(self.method, "resampler", None)
        curvature: CurvatureRule | None = getattr(self.method, "curvature", None)
        if lens is None and inverted is not None and resampler is not None:
            meat: Meat = getattr(self.method, "meat", "HC0")
            lens = GradientLens(objective or self.model, self.data, inverted.inverse, resampler, meat)
        return Auditor(
            method=type(self.method).__name__,
            model=self.model,
            assess=assess,
            facts=found,
            trained=Trained(self.data, curvature, inverted, resampler, lens, source, _seed(self.method)),
            predictive=Predictive(residual, degrees, left_out, ranked),
            predictor=predictor,
            drawn=drawn,
            meaning=getattr(self.method, "meaning", Meaning()),  # of a user's own method: general words
        )


@contextmanager
def fitting(method: object, model: Model, data: Any, *, project: bool = False) -> Iterator[Fitting]:
    """Read the data, bind the model, and leave the world's random state as it was.

    `project` lets a method that was given no solver look along a few directions of a model too large for any other.
    """
    if isinstance(model, torch.nn.Module):
        raise ModelError('fit takes a wrapped model; use rue.wrap(net, loss="squared_error", l2=...)')
    _check_settings(method)
    with untouched(), torch.inference_mode(False):
        started = time.perf_counter()
        rows, bound = training_rows(data, model)
        solver: Solver | None = getattr(method, "solver", None)
        said = []
        if solver is None and project and too_large(bound, rows):
            solver = Projection()
            said.append(
                f"{bound.theta.numel()} parameters and {rows.n} rows are too many for an exact solve: the audit looks "
                f"along {solver.size} directions of the curvature; give solver=Projection(size) to choose how many"
            )
            warnings.warn(said[0], RueWarning, stacklevel=4)
        with derivatives_kept(rows):
            yield Fitting(method, bound if solver is None else bound.seen_by(solver, rows), rows, started, said)


def _seed(method: object) -> int | None:
    """The seed of a method, else that of its solver; None where neither draws anything."""
    holders = (method, getattr(method, "solver", None))
    return next((holder.seed for holder in holders if hasattr(holder, "seed")), None)


def _check_settings(method: object) -> None:
    check_parts(**{name: getattr(method, name, None) for name in WANTED})
    seed = getattr(method, "seed", 0)
    if not isinstance(seed, int):
        raise SettingError(f"seed must be a whole number, so that the audit can be repeated, got {seed!r}")


def left_out_noise(slope: Array, weight: Array) -> Array:
    """The covariance (k, k) of left-out residuals (n, k)."""
    noise = (slope * (weight / weight.sum())[:, None]).T @ slope
    if not (np.diagonal(noise) > 0).all():
        raise NumericalError(
            "the model predicts every training row exactly, also without the row: there are no residuals to calibrate "
            "by; use LinearRUE, and hold rows out to see its errors"
        )
    return np.asarray(noise)


def residual_covariance(model: Model, data: Rows) -> Tensor:
    """ν̂², the mean of rrᵀ over the training rows: (k, k) in float64 (section 4.2)."""
    total = torch.zeros((), dtype=torch.float64, device=model.theta.device)
    for batch in data.batches():
        residual = loss_gradient(model, outputs(model, batch.inputs), batch.targets).double()
        total = total + (batch.weight[:, None] * residual).T @ residual
    return total / float(data.weight.sum())
