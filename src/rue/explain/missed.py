"""The left-out error of each training row, in units that a person can read."""

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
    """Left-out errors (n, k), or (n, 1) for a decision between classes, and the kind of these numbers."""

    values: Array
    kind: MissKind

    def of(self, output: int) -> Array:
        """The column that belongs to an explained output: (n,)."""
        return self.values[:, 0 if self.values.shape[1] == 1 else output]


def missed(lens: Lens, model: Model) -> Missed:
    """Errors in units of the prediction; for classes one minus the probability of the label; else ∂ℓ/∂f."""
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
    """Prediction minus target, both in the user's units if the targets were transformed for training."""
    wanted = targets.reshape(prediction.shape).astype(np.float64)
    if model.response is None:
        return prediction - wanted
    return model.response.value(prediction) - (model.response.value(wanted) if model.family.gaussian else wanted)


def _lacking(decision: Decision, outputs: Array, targets: Array) -> Array:
    """One minus the probability of the label."""
    shares = probability(decision, torch.from_numpy(outputs)).numpy()
    if decision == "signs":
        yes = torch.from_numpy(outputs).sigmoid().numpy()
        return np.asarray(np.abs(targets.reshape(outputs.shape) - yes))
    labels = targets.argmax(axis=1) if targets.ndim == 2 and targets.shape[1] > 1 else targets.reshape(-1)
    return np.asarray(1 - np.take_along_axis(shares, labels.astype(np.int64)[:, None], axis=1))
