"""What the model misses each training row by when the row is left out, as people read it."""

from typing import Literal, NamedTuple

import numpy as np
import torch

from rue.core.arrays import Array
from rue.core.classify import probability
from rue.core.concepts import Decision
from rue.core.model import Model
from rue.core.nested import leaves
from rue.explain.lens import Lens

MissKind = Literal["error", "probability", "slope"]


class Missed(NamedTuple):
    """(n, k), or (n, 1) of a decision between classes, and what kind of number it is."""

    values: Array
    kind: MissKind

    def of(self, output: int) -> Array:
        """The column that belongs to an explained output: (n,)."""
        return self.values[:, 0 if self.values.shape[1] == 1 else output]


def missed(lens: Lens, model: Model) -> Missed:
    """Errors in units of the prediction; for classes what the probability of the label lacks; else ∂ℓ/∂f."""
    family = model.family
    if family.coupled:
        return Missed(lens.residual, "slope")
    targets = np.concatenate([leaves(batch.targets)[0].detach().cpu().numpy() for batch in lens.data.batches()])
    if family.decision is not None:
        if not family.likelihood:
            return Missed(np.abs(lens.residual).max(axis=1, keepdims=True), "slope")
        return Missed(_lacking(family.decision, lens.prediction, targets), "probability")
    if family.gaussian or model.response is not None:
        return Missed(_errors(model, lens.prediction, targets), "error")
    return Missed(lens.residual, "slope")


def _errors(model: Model, prediction: Array, targets: Array) -> Array:
    """Prediction minus target; behind a transform of the targets both go back through it."""
    meant = targets.reshape(prediction.shape).astype(np.float64)
    if model.response is None:
        return prediction - meant
    return model.response.value(prediction) - (model.response.value(meant) if model.family.gaussian else meant)


def _lacking(decision: Decision, outputs: Array, targets: Array) -> Array:
    found = probability(decision, torch.from_numpy(outputs)).numpy()
    if decision == "signs":
        yes = torch.from_numpy(outputs).sigmoid().numpy()
        return np.asarray(np.abs(targets.reshape(outputs.shape) - yes))
    labels = targets.argmax(axis=1) if targets.ndim == 2 and targets.shape[1] > 1 else targets.reshape(-1)
    return np.asarray(1 - np.take_along_axis(found, labels.astype(np.int64)[:, None], axis=1))
