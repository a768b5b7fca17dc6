"""The subject of all checks: a model, its training rows, and the curvature that the audit uses."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rue.calibrate.left_out.evidence import Source
from rue.calibrate.left_out.rest import DRAWS, Reweighted, reweighted
from rue.checks.check import Senseless
from rue.checks.hat import Leverages, leverages
from rue.core.concepts import CurvatureRule, Inputs
from rue.core.curvature import GaussNewton
from rue.core.model import Model
from rue.core.nested import leaves, take
from rue.core.solve.choice import Inverted, invert, too_large
from rue.data.opening import input_batches
from rue.data.rows import Rows
from rue.models.torch.module import plain_module
from rue.models.trees.leaf_influence import SampledTrees

UNITS = 32.0  # rounding units of a sum over a few hundred rows and a solve: smaller numbers count as zero
NESTED = 4  # estimators inside one another are looked at this deep
LOOKED_AT = 200  # at most so many rows have their outputs compared


@dataclass(frozen=True)
class Subject:
    """A model bound to its rows, as an auditor holds it, and the arguments of the check."""

    model: Model = field(repr=False)
    data: Rows = field(repr=False)
    inverted: Inverted | None = field(default=None, repr=False)
    curvature: CurvatureRule | None = None
    source: Source | None = None  # of the left-out predictions that the audit was calibrated by
    members: int | None = None  # their number, for methods that sample
    residual: float | None = None  # relative, of the solves of `fit`
    sampled_trees: SampledTrees | None = None  # for forests
    own_networks: bool = False  # the method predicts with networks that it trained itself
    audited: "Audited | None" = field(default=None, repr=False)
    refit: Callable[[Any], Any] | None = field(default=None, repr=False)
    refits: int = 8
    seed: int = 0
    rested: bool = False  # the audit is of another objective, which is at rest: the model's tangent, refitted
    draws: int = DRAWS  # re-weightings to tell a typical resampling step by

    @cached_property
    def factored(self) -> Inverted:
        """The auditor's factored curvature; the Gauss–Newton matrix for methods without one."""
        return self.inverted or gauss_newton(self.model, self.data)

    @cached_property
    def reweighted(self) -> Reweighted:
        """The gradient of all rows, and the gradients of re-weighted rows."""
        return reweighted(self.model, self.data, self.seed, self.draws)

    @cached_property
    def steps(self) -> Tensor:
        """H̃⁻¹L(w − 1) of every re-weighting: (b, d)."""
        return self.factored.inverse.solve(self.reweighted.drawn).vectors

    @cached_property
    def leverages(self) -> Leverages | str:
        """The leverages of all rows, or the reason why they are not computed."""
        return leverages(self.model, self.data, self.factored.inverse)

    @cached_property
    def looked_at(self) -> Inputs:
        """Some audited rows, else training rows, spread over the first batch."""
        if self.audited is None:
            return some(next(self.data.batches()).inputs)
        return some(next(self.audited.batches(self.model)))

    @property
    def rows_called(self) -> str:
        """The name of the rows in `looked_at`, for texts."""
        return "training rows" if self.audited is None else "audited rows"

    @property
    def rounding(self) -> float:
        """The relative rounding error of sums in the model's precision."""
        return UNITS * torch.finfo(self.model.theta.dtype).eps

    @property
    def stated_by_user(self) -> bool:
        """Whether the user stated loss and penalty; those of an estimator are read from it."""
        return plain_module(self.model) is not None

    @property
    def may_stop_early(self) -> bool:
        """Whether the search of the estimator need not end at rest, as that of scikit-learn's networks and SGD."""
        last = innermost(self.model.estimator)
        return hasattr(last, "early_stopping") or hasattr(last, "module_")

    @property
    def searched(self) -> bool:
        """Whether the estimator was fitted by a search, step by step; else its fit solves its objective exactly."""
        return getattr(innermost(self.model.estimator), "n_iter_", None) is not None

    @property
    def by_influence(self) -> bool:
        """Whether left-out predictions are those of this model, by the influence of its rows."""
        return self.source in (None, "influence at rest")

    @property
    def needs_rest(self) -> bool:
        """Whether the audit assumes that the model is at rest on its training rows."""
        return self.by_influence and not self.rested

    @property
    def projected(self) -> bool:
        """Whether the audit uses a projection of the parameters."""
        return self.model.behind is not None

    @property
    def linearised(self) -> str | None:
        """The reason why nothing is seen of the network's own curves; None where its outputs are computed."""
        if not (self.projected and self.model.family.straight):
            return None
        return (
            "the audit looks along coordinates in which the outputs are linear, so that the network's own curves are "
            "not seen; compare with a few refits, auditor.check(inputs, refit=...), or check a fit with another solver"
        )

    @cached_property
    def without_objective(self) -> str | None:
        """The reason why checks of the objective and its curvature make no sense; None where they do."""
        if not self.model.family.gradients:
            return Senseless("the model is known by its predictions alone")
        if not self.model.family.joint:
            return Senseless("trees of a forest minimise no one objective")
        if self.inverted is None and too_large(self.model, self.data):
            return (
                "the method factors no curvature, and this model's is too large to do so for a check: fit LinearRUE()"
            )
        return None


@dataclass(frozen=True)
class Audited:
    """The audited rows, read once: a loader that shuffles would give another order on every pass."""

    parts: tuple[Any, ...] = field(repr=False)  # raw batches, because a refit may read them in another way
    source: Any = field(repr=False)  # as the user gave them

    @classmethod
    def of(cls, inputs: Any) -> "Audited":
        """Keep arrays and frames as they are; keep the batches that a loader yields."""
        if not isinstance(inputs, Dataset | DataLoader):
            return cls((inputs,), inputs)
        as_given: Any = SimpleNamespace(read=lambda batch: batch)
        return cls(tuple(input_batches(inputs, as_given)), inputs)

    def batches(self, model: Model) -> Iterator[Inputs]:
        """Every row once, as a model reads it, in the same order on every pass."""
        for part in self.parts:
            yield from input_batches(part, model)


def innermost(estimator: Any) -> Any:
    """The estimator that was trained last, inside of searches, target transforms and pipelines."""
    for _ in range(NESTED):
        inside = (getattr(estimator, name, None) for name in ("best_estimator_", "regressor_", "_final_estimator"))
        estimator = next((one for one in inside if one is not None), estimator)
    return estimator


def gauss_newton(model: Model, data: Rows) -> Inverted:
    """The factored Gauss–Newton matrix, damped only where it is singular."""
    return invert(GaussNewton().at(model, data), None, None)


def only_differences(change: Any, model: Model) -> Any:
    """Changes (..., k) of outputs; for softmax without their mean, because only differences of logits matter."""
    return change - change.mean(-1)[..., None] if model.family.decision == "largest" else change


def some(inputs: Inputs, count: int = LOOKED_AT) -> Inputs:
    """At most `count` rows, evenly spread."""
    n = len(leaves(inputs)[0])
    return inputs if n <= count else take(inputs, torch.linspace(0, n - 1, count).long())
