"""The steps that every method's `fit` shares, before and after its own mathematics."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
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
from rue.auditing.trained import Solved, Trained
from rue.calibrate.doubts import doubts
from rue.calibrate.left_out import Chosen, Evidence, EvidenceRule, Folds, Influence
from rue.calibrate.left_out.evidence import Source, Training
from rue.calibrate.left_out_intervals import LeftOutRows, RankedRows
from rue.checks.at_fit import DRAWS, warnings_at_fit
from rue.checks.subject import Subject
from rue.core.arrays import Array
from rue.core.concepts import CurvatureRule, Damping, Facts, Resampler, Solver, TrainingSet
from rue.core.curvature import GaussNewton, Hessian
from rue.core.derivatives import loss_gradient, outputs
from rue.core.errors import CrowdedWarning, ModelError, NumericalError, RueWarning, SettingError
from rue.core.influence import Meat
from rue.core.memory import derivatives_kept
from rue.core.model import Model
from rue.core.nested import take
from rue.core.resample import untouched
from rue.core.row_by_row import Loops, noticed
from rue.core.solve.choice import WANTED, Inverted, check_parts, invert
from rue.core.solve.sketch import coarse, unfollowed
from rue.core.solve.streamed_dual import StreamedDual
from rue.core.sums import summed
from rue.data.cells import SeenCells
from rue.data.opening import training_rows
from rue.data.rows import Rows
from rue.explain.gradients import GradientLens
from rue.explain.lens import Lens
from rue.methods.planning import solver_for
from rue.models.again import copies
from rue.models.trees.leaf_influence import SampledTrees

LOOKED_AT = 64  # rows whose outputs are part of an auditor's print
Refit = Callable[[NDArray[np.int64]], Any] | bool | None
"""A function that trains the model from scratch on some rows; False: train nothing; None: clone estimators."""


@dataclass(frozen=True)
class MethodSettings:
    """The settings of a method that fitting needs, checked. All are optional for a user's own method."""

    curvature: CurvatureRule | None
    damping: Damping | None
    solver: Solver | None
    resampler: Resampler | None
    seed: int | None  # of the method, else of its solver; None where neither draws anything
    meat: Meat
    meaning: Meaning  # general words where the method has none

    @classmethod
    def of(cls, method: object) -> "MethodSettings":
        """Read them off a method of any class."""
        parts: dict[str, Any] = {name: getattr(method, name, None) for name in WANTED}
        check_parts(**parts)
        holders = (method, parts["solver"])
        seed = next((holder.seed for holder in holders if hasattr(holder, "seed")), None)
        own = getattr(method, "seed", 0)
        if isinstance(own, bool) or not isinstance(own, int | np.integer) or not 0 <= own < 2**32:
            raise SettingError(
                f"seed must be a whole number from 0 to 2³² − 1, so that the audit can be repeated, got {own!r}"
            )
        meat: Meat = getattr(method, "meat", "HC0")
        return cls(**parts, seed=seed, meat=meat, meaning=getattr(method, "meaning", Meaning()))


@dataclass(frozen=True)
class Fitting:
    """A model bound to its training rows, and what is needed to make an auditor of them."""

    method: object
    settings: MethodSettings
    model: Model
    data: Rows
    started: float
    warned: list[str] = field(default_factory=list)  # the warnings so far
    loops: Loops = field(default_factory=Loops)  # gradients that were taken row by row
    solver: Solver | None = None  # given, or planned for a large model

    def invert(
        self,
        curvature: CurvatureRule,
        damping: Damping | None,
        solver: Solver | None,
        data: TrainingSet | None = None,
    ) -> Inverted:
        """Damp and factor the curvature of all rows, or of `data`; warn where a singular one had to be damped."""
        if not self.model.family.gradients:
            raise ModelError(
                "a model that is known by its predictions alone has no gradients and no curvature",
                "use rue.audit, CalibratedRUE() for numbers or ClassifierRUE() for classes",
            )
        if not self.model.family.joint:
            raise ModelError("a forest minimises no one objective, so that it has no curvature", "use ForestRUE()")
        inverted = invert(curvature.at(self.model, self.data if data is None else data), damping, solver)
        self._warn(inverted.damped.warning)
        return inverted

    def refuse_second_derivatives(self) -> None:
        """Raise where the Hessian is asked for of a model whose gradients alone are read."""
        if self.model.family.straight and isinstance(self.settings.curvature, Hessian):
            raise SettingError(
                f"solver={self.solver!r} reads gradients off layers and no second derivatives, so that there is no "
                "Hessian; give curvature=rue.curvature.GaussNewton(), or solver=rue.solve.Projection()"
            )

    def warn_of_metric(self) -> None:
        """Warn where a penalty will be searched in coordinates that weigh the parameters otherwise than they do."""
        settings = self.settings
        searched = settings.damping is None and settings.curvature is not None
        if self._elsewhere and searched and not self.model.objective.stated:
            self._warn_of_search("no l2 is stated", "give rue.wrap the l2 of training where its size matters")

    def _warn_of_search(self, why: str, then: str) -> None:
        self._warn(
            f"{why}, so that a penalty is searched, in the {self.model.theta.numel()} coordinates of {self.solver!r}: "
            "it weighs parameters otherwise than an exact solve does, and std may differ from an exact one by a "
            f"factor; {then}"
        )

    @property
    def _elsewhere(self) -> bool:
        """Whether the model is seen in other coordinates than its parameters."""
        return self.model.family.projected or self.model.family.turned

    def warn_of_sketch(self, solved: Solved) -> None:
        """Warn where a sketch keeps too little of the rows, or follows too few classes."""
        self._warn(coarse(solved.objective, solved.inverted.inverse, solved.inverted.damped.value))
        self._warn(unfollowed(solved.objective, self.data))

    def _warn(self, text: str | None, kind: type[RueWarning] = RueWarning) -> None:
        """Warn, and keep the warning for the audit's facts."""
        if text:
            self.warned.append(text)
            warnings.warn(text, kind, stacklevel=4)

    def evidence(self, rule: EvidenceRule | None, refit: Refit = None) -> Evidence:
        """Left-out predictions by this rule; without one, by `Chosen()`, or by influence under the method's damping.

        `refit` trains copies of the model; None clones estimators, False trains nothing.
        """
        if rule is not None and (isinstance(rule, type) or not callable(getattr(rule, "gather", None))):
            raise SettingError(
                f"left_out is {rule!r}, expected one of rue.left_out's rules, such as left_out=rue.left_out.Mixture()"
            )
        settings = self.settings
        rule_of_curvature, seed = settings.curvature or GaussNewton(), settings.seed or 0
        asked = settings.damping is not None or not isinstance(rule_of_curvature, GaussNewton)
        chosen = rule or (Influence() if asked else Chosen())

        @cache
        def own() -> Inverted:
            curvature = rule_of_curvature.at(self.model, self.data)
            return invert(curvature, settings.damping, settings.solver)

        training = self._training(refit, isinstance(rule, Folds), seed)
        evidence = chosen.gather(self.model, self.data, own, seed, training)
        damped = None if evidence.rest is None else evidence.rest.inverted.damped.warning
        self._warn(damped)
        if self._elsewhere and "tangent_penalty" in evidence.facts and self.model.objective.stated:
            self._warn_of_search(
                "the network is not at rest under the l2 that is stated",
                "train on to its minimum, or take rue.LinearRUE, which believes it, where its size matters",
            )
        self._warn(evidence.warning, CrowdedWarning if evidence.crowded else RueWarning)
        for text in doubts(self.model, evidence):
            self._warn(text)
        return evidence

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
        trainer = copies(estimator, source.X, source.y, weight, seed)
        return None if trainer is None else Training(trainer, asked)

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
        solved: Solved | None = None,
        source: Source | None = None,
        lens: Lens | None = None,
        sampled_trees: SampledTrees | None = None,
    ) -> Auditor:
        """Make the auditor; `noise` adds the variance of the training residuals.

        `predictor` predicts (m, k) where a method trained networks itself; `drawn` are members. `degrees` are the
        degrees of freedom of a Student-t predictive distribution; `left_out` or `ranked` rows give intervals without
        held-out rows. Predictions are explained by the curvature that was `solved` with, or by a `lens`; `source` says
        where left-out predictions came from, `sampled_trees` how much of a forest's variance is chance.
        """
        settings = self.settings
        inverted = None if solved is None else solved.inverted
        if solved is not None:
            self.warn_of_sketch(solved)
        subject = Subject(
            self.model,
            self.data,
            inverted,
            settings.curvature,
            source,
            own_networks=predictor is not None,
            rested=solved is not None and solved.objective is not self.model,
            draws=DRAWS,
        )
        for text in warnings_at_fit(subject):
            self._warn(text)
        variance = residual_covariance(self.model, self.data) if noise and self.model.family.gaussian else None
        if lens is None and solved is not None and settings.resampler is not None:
            inverse = solved.inverted.inverse
            lens = GradientLens(solved.objective, self.data, inverse, settings.resampler, settings.meat)
        fingerprint = self._fingerprint()
        self._warn(self.loops.warning())
        return Auditor(
            method=type(self.method).__name__,
            model=self.model,
            assess=assess,
            facts=self._facts({"auditor": fingerprint, **facts}, solved),
            trained=Trained(
                self.data,
                settings.curvature,
                solved,
                settings.resampler,
                lens,
                source,
                settings.seed,
                sampled_trees,
                SeenCells.of(self.data.source.X),
                fingerprint,
            ),
            predictive=Predictive(variance, degrees, left_out, ranked),
            predictor=predictor,
            drawn=drawn,
            meaning=settings.meaning,
        )

    def _fingerprint(self) -> str:
        """A few digits that tell auditors apart: of the method, the model and the number of rows."""
        found = blake2b(f"{self.method!r} {self.data.n}".encode(), digest_size=8)
        first = take(next(self.data.batches()).inputs, slice(0, LOOKED_AT))
        for part in (*self.model.core.contents(), outputs(self.model, first)):
            found.update(part.encode() if isinstance(part, str) else part.detach().cpu().contiguous().numpy().data)
        return found.hexdigest()

    def _facts(self, own: Facts, solved: Solved | None) -> Facts:
        """The facts of every method, with `own` in place of them where both have an entry."""
        return {
            "method": repr(self.method),
            "n": self.data.n,
            "units": self.data.units,
            "d": self.model.theta.numel(),
            **self.model.describe(),
            "damping": None,
            "residual": None if solved is None else solved.residual,
            **own,
            **({} if self.solver is None or self.model.behind is None else {"solver": repr(self.solver)}),
            **({"row_by_row": self.loops.gradients} if self.loops.gradients else {}),
            "seconds_fit": time.perf_counter() - self.started,
            "warnings": tuple(self.warned),
        }


@contextmanager
def fitting(
    method: object, model: Model, data: Any, *, project: bool = False, diagonal: bool = False
) -> Iterator[Fitting]:
    """Read the data and bind the model; the global random state is restored afterwards.

    With `project`, a model that is too large for an exact solve is projected on a few directions, unless the method
    has a solver; `diagonal` says that the method can do with parameters that count as independent.
    """
    if isinstance(model, torch.nn.Module):
        raise ModelError('fit takes a wrapped model; use rue.wrap(net, loss="squared_error", l2=...)')
    settings = MethodSettings.of(method)
    with untouched(), torch.inference_mode(False):
        started = time.perf_counter()
        rows, bound = training_rows(data, model)
        solver, warned = settings.solver, []
        if solver is None and project and (solver := solver_for(bound, rows)) not in (None, StreamedDual()):
            warned.append(
                f"{bound.theta.numel()} parameters and {rows.n} rows are too many for an exact solve: the audit looks "
                f"along directions of the gradients alone, as with solver={solver!r}; give a larger one for more digits"
            )
            warnings.warn(warned[0], RueWarning, stacklevel=4)
        if model.held_fixed is not None:
            warned.append(model.held_fixed)
            warnings.warn(model.held_fixed, RueWarning, stacklevel=4)
        with derivatives_kept(rows), noticed() as loops:
            audited = bound if solver is None else bound.seen_by(solver, rows, diagonal)
            fit = Fitting(method, settings, audited, rows, started, warned, loops, solver)
            fit.refuse_second_derivatives()
            fit.warn_of_metric()
            yield fit


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

    def part(block: TrainingSet) -> tuple[Tensor]:
        total = torch.zeros((), dtype=torch.float64, device=model.theta.device)
        for batch in block.batches():
            residual = loss_gradient(model, outputs(model, batch.inputs), batch.targets).double()
            total = total + (batch.weight[:, None] * residual).T @ residual
        return (total,)

    return summed(data, part, 1)[0] / float(data.weight.sum())
