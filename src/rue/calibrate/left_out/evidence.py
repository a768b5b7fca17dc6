"""Left-out evidence: what an honest model says of the training rows it never saw, and which model that is.

Everything that calibrates (weights, tails, temperature, intervals, expected errors, checks) reads it, whatever the
source. Where the honest model is another than the audited one, the two disagree at a new input by a distance that is
seen without a label: it is a part of the audited model's error that left-out residuals do not show.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.calibrate.left_out.refits import Refits
from rue.core.concepts import Facts, Inputs, Objective
from rue.core.derivatives import loss_gradient
from rue.core.model import Model
from rue.core.one_step import LeftOut
from rue.core.solve.choice import Inverted
from rue.data.rows import Rows

Own = Callable[[], Inverted]
Source = Literal["influence at rest", "linearised", "witness", "linearised and witness", "witnesses", "refits"]


@dataclass(frozen=True)
class AtRest:
    """An objective at rest on the training rows, its curvature, and the rows left out of it one step at a time.

    The audited model itself, or its tangent, refitted: what influence, resampling and similarity are measured in.
    """

    objective: Objective = field(repr=False)
    inverted: Inverted
    left: LeftOut = field(repr=False)


class Honest(Protocol):
    """A model whose left-out predictions the evidence holds, at new inputs."""

    def __call__(self, inputs: Inputs) -> Tensor:
        """Outputs (c, k) in float64."""
        ...


@dataclass(frozen=True)
class Evidence:
    """Left-out outputs of the training rows, where they come from, and what may be said of them."""

    source: Source
    why: str  # in words
    rest: AtRest | None  # None: of a model that is known by its predictions, or whose parts settled one by one
    prediction: Tensor = field(repr=False)  # (n, k), of the honest model without the row's unit
    slope: Tensor = field(repr=False)  # (n, k), ∂ℓ/∂f there, of weight one
    loss: float  # mean over the rows, there
    weight: Tensor = field(repr=False)  # (n,), what a row counts: nothing where no model speaks for it
    honest: Honest | None = field(default=None, repr=False)  # None: the audited model itself, which is at rest
    beside: Tensor | None = field(default=None, repr=False)  # (n, k), of the honest model, where `prediction` is not
    refits: Refits | None = field(default=None, repr=False)  # copies of the audited model, where they were trained
    facts: Facts = field(default_factory=dict, repr=False)
    warning: str | None = None  # what the user should hear of it
    crowded: bool = False  # effective parameters are too many for the rows, which is what the warning says

    @classmethod
    def of(
        cls,
        judge: Objective,
        data: Rows,
        source: Source,
        why: str,
        prediction: Tensor,
        honest: Honest | None,
        facts: Facts,
        rest: AtRest | None = None,
        weight: Tensor | None = None,
    ) -> "Evidence":
        """With slopes and loss of left-out outputs (n, k), as a model judges them; `weight` replaces that of rows."""
        slopes, losses = [], []
        for batch in data.batches():
            said = prediction[batch.rows]
            slopes.append(loss_gradient(judge, said, batch.targets).double())
            with torch.no_grad():
                losses.append(judge.loss(said, batch.targets).double())
        counts = data.weight if weight is None else weight
        here = counts.to(prediction.device)
        loss = float(here @ torch.cat(losses) / here.sum())
        return cls(source, why, rest, prediction, torch.cat(slopes), loss, counts, honest, facts=facts)

    def describe(self) -> Facts:
        """What to say of it in an audit's facts."""
        return {"left_out": self.source, "left_out_why": self.why, "left_out_loss": self.loss, **self.facts}


@dataclass(frozen=True)
class Training:
    """How copies of the model can be trained."""

    again: Callable[[NDArray[np.int64]], Any] = field(repr=False)  # from row numbers to a trained model
    asked: bool  # else only as long as it takes next to nothing


class EvidenceRule(Protocol):
    """Where left-out predictions are to come from: `Influence()`, `Linearised()`, `Witnesses()`, `Chosen()`."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:
        """Leave every training unit out of an honest model.

        `own` inverts the model's own curvature, when asked; `training` makes copies, where they may be made.
        """
        ...
