"""What is looked at: a model, its training rows, and the curvature the audit is made with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rue.calibrate.left_out.evidence import Source
from rue.calibrate.left_out.rest import Reweighted, reweighted
from rue.checks.check import Senseless
from rue.checks.hat import Leverages, leverages
from rue.core.concepts import CurvatureRule, Facts, Inputs
from rue.core.curvature import GaussNewton
from rue.core.model import Model
from rue.core.nested import leaves, take
from rue.core.solve.choice import Inverted, invert, too_large
from rue.data.rows import Rows, input_batches
from rue.models.torch.module import plain_module

UNITS = 32.0  # of rounding, in what is added up over few hundred rows and a solve: less cannot be told from zero
LOOKED_AT = 200  # rows whose outputs are compared


@dataclass(frozen=True)
class Subject:
    """A model bound to its rows, as an auditor holds it, and what the user asked for."""

    model: Model = field(repr=False)
    data: Rows = field(repr=False)
    facts: Facts = field(repr=False)
    inverted: Inverted | None = field(default=None, repr=False)
    curvature: CurvatureRule | None = None
    source: Source | None = None  # of the left-out predictions that the audit was calibrated by
    members: int | None = None  # of methods that sample
    own_networks: bool = False  # the method predicts with networks that it trained itself
    audited: "Audited | None" = field(default=None, repr=False)
    refit: Callable[[Any], Any] | None = field(default=None, repr=False)
    refits: int = 8
    seed: int = 0

    @cached_property
    def factored(self) -> Inverted:
        """The auditor's own curvature; of methods without one, the Gauss–Newton matrix."""
        return self.inverted or gauss_newton(self.model, self.data)

    @cached_property
    def reweighted(self) -> Reweighted:
        """The gradient of all rows, and those of re-weighted ones."""
        return reweighted(self.model, self.data, self.seed)

    @cached_property
    def steps(self) -> Tensor:
        """H̃⁻¹L(w − 1) of every re-weighting: (b, d)."""
        return self.factored.inverse.solve(self.reweighted.drawn).vectors

    @cached_property
    def leverages(self) -> Leverages | str:
        """Of every row, or why they are not known."""
        return leverages(self.model, self.data, self.factored.inverse)

    @cached_property
    def looked_at(self) -> Inputs:
        """Some audited rows, else training rows, spread over the first batch."""
        if self.audited is None:
            return some(next(self.data.batches()).inputs)
        return some(next(self.audited.batches(self.model)))

    @property
    def rows_called(self) -> str:
        """Whose outputs are looked at."""
        return "training rows" if self.audited is None else "audited rows"

    @property
    def rounding(self) -> float:
        """Of numbers in the model's precision, relative to the parts they are made of."""
        return UNITS * torch.finfo(self.model.theta.dtype).eps

    @property
    def told(self) -> bool:
        """Whether loss and penalty were told by the user; those of an estimator are read off it."""
        return plain_module(self.model) is not None

    @property
    def needs_rest(self) -> bool:
        """Whether the audit takes the model itself to be at rest."""
        return self.source in (None, "influence at rest")

    @property
    def projected(self) -> bool:
        """Whether the audit looks along a projection of the parameters."""
        return self.model.behind is not None

    @cached_property
    def without_objective(self) -> str | None:
        """Why nothing can be said of an objective and its curvature; None where it can."""
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
    """The audited rows, drawn once: a loader that shuffles would give others on every pass."""

    parts: tuple[Any, ...] = field(repr=False)  # raw: a refit may read them in its own way
    source: Any = field(repr=False)  # as the user gave them

    @classmethod
    def of(cls, inputs: Any) -> "Audited":
        """Keep arrays and frames as they are, and what a loader yields."""
        if not isinstance(inputs, Dataset | DataLoader):
            return cls((inputs,), inputs)
        as_given: Any = SimpleNamespace(read=lambda batch: batch)
        return cls(tuple(input_batches(inputs, as_given)), inputs)

    def batches(self, model: Model) -> Iterator[Inputs]:
        """Every row once, as a model reads it, in the same order on every pass."""
        for part in self.parts:
            yield from input_batches(part, model)


def gauss_newton(model: Model, data: Rows) -> Inverted:
    """The Gauss–Newton matrix, damped only where it must be."""
    return invert(GaussNewton().at(model, data), None, None)


def only_differences(change: Any, model: Model) -> Any:
    """Changes (..., k) of outputs; of logits that only their differences matter of, without their mean."""
    return change - change.mean(-1)[..., None] if model.family.decision == "largest" else change


def some(inputs: Inputs, count: int = LOOKED_AT) -> Inputs:
    """At most `count` rows, evenly spread."""
    n = len(leaves(inputs)[0])
    return inputs if n <= count else take(inputs, torch.linspace(0, n - 1, count).long())
