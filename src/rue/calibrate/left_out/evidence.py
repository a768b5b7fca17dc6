"""Left-out evidence: predictions of the training rows by an honest model, one that was not trained on them.

All calibration (weights, tails, temperature, intervals, expected errors, checks) reads this evidence, from whichever
source it comes. The honest model may differ from the audited one. Then their disagreement at a new input, which needs
no label, is a part of the audited model's error that left-out residuals do not show.
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
from rue.core.stored import storable_rows
from rue.data.rows import Rows

Own = Callable[[], Inverted]
Source = Literal["influence at rest", "linearised", "witness", "linearised and witness", "witnesses", "refits"]


@storable_rows
@dataclass(frozen=True)
class AtRest:
    """An objective at its minimum on the training rows, its curvature, and the left-out predictions by one Newton step.

    It is the audited model itself or its refitted tangent. Influence, resampling and similarity are computed from it.
    """

    objective: Objective = field(repr=False)
    inverted: Inverted
    left: LeftOut = field(repr=False)  # of the rows of the evidence

    def effective(self, n: int) -> float:
        """Effective parameters: the sum of the leverages of all n rows, from those that were left out."""
        return self.left.effective * n / len(self.left.share)


class Honest(Protocol):
    """Predicts new inputs with the model whose left-out predictions are the evidence."""

    def __call__(self, inputs: Inputs) -> Tensor:
        """Outputs (c, k) in float64."""
        ...


@storable_rows
@dataclass(frozen=True)
class Evidence:
    """Left-out outputs of the training rows, with their source and its reliability."""

    source: Source
    why: str  # the reason for this source, in words
    rest: AtRest | None  # None for models without parameters to read, and for means of models trained separately
    rows: Rows = field(repr=False)  # the s rows that were left out: all training rows, or a sample of them
    prediction: Tensor = field(repr=False)  # (s, k), left-out outputs: without the row's unit
    slope: Tensor = field(repr=False)  # (s, k), ∂ℓ/∂f at `prediction`, without the row's weight
    loss: float  # mean loss over the rows at `prediction`
    weight: Tensor = field(repr=False)  # (s,), the weights of the rows; zero if a row has no left-out prediction
    honest: Honest | None = field(default=None, repr=False)  # None if it is the audited model itself
    beside: Tensor | None = field(default=None, repr=False)  # (s, k), of `honest`, if `prediction` comes from copies
    refits: Refits | None = field(default=None, repr=False)  # copies of the audited model, if they were trained
    facts: Facts = field(default_factory=dict, repr=False)
    warning: str | None = None  # for the user
    crowded: bool = False  # the warning is that there are too many effective parameters for the rows

    @classmethod
    def of(
        cls,
        judge: Objective,
        rows: Rows,
        source: Source,
        why: str,
        prediction: Tensor,
        honest: Honest | None,
        facts: Facts,
        rest: AtRest | None = None,
        weight: Tensor | None = None,
    ) -> "Evidence":
        """Evidence from left-out outputs (s, k), with the loss of `judge`; `weight` replaces that of the rows."""
        slopes, losses = [], []
        for batch in rows.batches():
            predicted = prediction[batch.rows]
            slopes.append(loss_gradient(judge, predicted, batch.targets).double())
            with torch.no_grad():
                losses.append(judge.loss(predicted, batch.targets).double())
        counts = rows.weight if weight is None else weight
        here = counts.to(prediction.device)
        loss = float(here @ torch.cat(losses) / here.sum())
        return cls(source, why, rest, rows, prediction, torch.cat(slopes), loss, counts, honest, facts=facts)

    def describe(self) -> Facts:
        """Entries for an audit's facts."""
        own = {"left_out": self.source, "left_out_why": self.why, "left_out_loss": self.loss}
        return {**own, "left_out_rows": self.rows.n, **self.facts}


@dataclass(frozen=True)
class Training:
    """How copies of the model can be trained."""

    again: Callable[[NDArray[np.int64]], Any] = field(repr=False)  # from row numbers to a model trained on them
    asked: bool  # whether the user asked for copies; if not, they are trained only if that is quick


class EvidenceRule(Protocol):
    """A source of left-out predictions: `Influence()`, `Linearised()`, `Witnesses()`, `Chosen()`."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:
        """Leave every training unit out of an honest model.

        `own()` inverts the curvature of the model itself; `training` trains copies, if that is possible.
        """
        ...
