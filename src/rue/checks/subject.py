"""What is looked at: a model, its training rows, and the curvature the audit is made with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from rue.checks.hat import Leverages, leverages
from rue.concepts import CurvatureRule, Facts, Inputs, Model
from rue.curvature import GaussNewton
from rue.data import Rows, input_batches
from rue.derivatives import outputs, weighted_gradients
from rue.randomness import generator
from rue.resample import Multinomial
from rue.solve.choice import Inverted, invert
from rue.trees import leaves, take

DRAWS = 64  # re-weightings behind the size of a typical resampling step: known to √(2/64) at worst, of one parameter
CELLS = 2**25  # weights drawn at once, at most: fewer re-weightings of very many rows
LOOKED_AT = 200  # rows whose outputs are compared


@dataclass(frozen=True)
class Subject:
    """A model bound to its rows, as an auditor holds it, and what the user asked for."""

    model: Model = field(repr=False)
    data: Rows = field(repr=False)
    facts: Facts = field(repr=False)
    inverted: Inverted | None = field(default=None, repr=False)
    curvature: CurvatureRule | None = None
    members: int | None = None  # of methods that sample
    own_networks: bool = False  # the method predicts with networks that it trained itself
    inputs: Any = field(default=None, repr=False)  # audited rows, raw
    refit: Callable[[Any], Any] | None = field(default=None, repr=False)
    refits: int = 8
    seed: int = 0

    @cached_property
    def factored(self) -> Inverted:
        """The auditor's own curvature; of methods without one, the Gauss–Newton matrix."""
        return self.inverted or gauss_newton(self.model, self.data)

    @cached_property
    def reweighted(self) -> "Reweighted":
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
        source = self.data.batches() if self.inputs is None else input_batches(self.inputs, self.model)
        first = next(iter(source))
        return some(first.inputs if self.inputs is None else first)

    @property
    def rows_called(self) -> str:
        """Whose outputs are looked at."""
        return "training rows" if self.inputs is None else "audited rows"


@dataclass(frozen=True)
class Reweighted:
    """Gradients of the loss, the penalty left aside."""

    whole: Tensor = field(repr=False)  # (d,), Σ∇ℓᵢ
    drawn: Tensor = field(repr=False)  # (b, d), L(w − 1)


def reweighted(model: Model, data: Rows, seed: int) -> Reweighted:
    """One pass over the rows for the sum and for `DRAWS` bootstrap samples of the units."""
    count = min(DRAWS, max(8, CELLS // data.n))
    drawn = Multinomial().draw(data.units, count, generator(seed)).sub_(1)[:, data.unit]
    weights = torch.cat([torch.ones(1, data.n, dtype=torch.float64), drawn])
    found = weighted_gradients(model, data, weights)
    return Reweighted(found[0], found[1:])


def gauss_newton(model: Model, data: Rows) -> Inverted:
    """The Gauss–Newton matrix, damped only where it must be."""
    logits = 0
    if model.family.decision == "largest":  # only their differences matter
        logits = outputs(model, take(next(data.batches()).inputs, slice(0, 1))).shape[1]
    return invert(GaussNewton().at(model, data), None, None, logits)


def some(inputs: Inputs, count: int = LOOKED_AT) -> Inputs:
    """At most `count` rows, evenly spread."""
    n = len(leaves(inputs)[0])
    return inputs if n <= count else take(inputs, torch.linspace(0, n - 1, count).long())
