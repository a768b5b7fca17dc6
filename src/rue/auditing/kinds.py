"""The two kinds of audits: of numbers with a predictive distribution, and of decisions between classes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np
import torch
from numpy.typing import ArrayLike

from rue.auditing.intervals import IntervalRules, SetRule
from rue.core.arrays import Array, Labels
from rue.core.classify import decided, probability, sampled
from rue.core.concepts import Decision
from rue.core.errors import InputError, ShapeError
from rue.core.labels import label_codes
from rue.core.resample import generator


@dataclass(frozen=True)
class Numbers:
    """The parts of an audit that only regression has, besides the spread."""

    outputs: Array = field(repr=False)  # (m, k), of the model; predictions may be a function of them
    degrees: float = inf  # of freedom of the predictive Student-t distribution; infinite is Gaussian
    rules: IntervalRules = field(default=dict, repr=False)  # for intervals, the default first
    log_density: Callable[[ArrayLike], Array] | None = field(default=None, repr=False)  # only for transformed targets


@dataclass(frozen=True)
class Classes:
    """The parts of an audit that only classifiers have, besides the spread of the logits."""

    outputs: Array = field(repr=False)  # (m, k), logits or shares
    decision: Decision  # how outputs become classes
    names: Labels | None = field(default=None, repr=False)  # of the classes, if the model has them
    probability: Array | None = field(default=None, repr=False)  # (m, classes), averaged over the resampled models
    flip: Array | None = field(default=None, repr=False)  # (m,), the chance of another decision with other rows
    epistemic: Array | None = field(default=None, repr=False)  # (m,), the uncertainty due to the training set, in nats
    sets: SetRule | None = field(default=None, repr=False)  # only after calibration by held-out rows

    @property
    def label(self) -> Labels:
        """The predicted class of each row, by name where the model has names."""
        number = decided(self.decision, torch.from_numpy(self.outputs)).numpy()
        return number if self.names is None else self.names[number]

    @property
    def own_probability(self) -> Array:
        """The probabilities (m, classes) of the model itself, before averaging."""
        return np.asarray(probability(self.decision, torch.from_numpy(self.outputs)).numpy())

    def sampled_probability(self, covariance: Array, members: int, seed: int) -> Array:
        """As `probability`, by drawing logits from their resampling distribution (m, k, k)."""
        drawn = torch.from_numpy(self.outputs), torch.from_numpy(covariance)
        return np.asarray(sampled(self.decision, *drawn, members, generator(seed)).numpy())

    def log_prob(self, y: ArrayLike, method: str) -> Array:
        """The logarithm of the averaged probability of each label (m,)."""
        if self.probability is None:
            raise InputError(f"{method} gives no probabilities; use LinearRUE or ClassifierRUE")
        if self.decision == "signs" and self.outputs.shape[1] > 1:
            raise InputError("labels that may hold together have no single log probability; use audit.probability")
        names = np.arange(self.probability.shape[1]) if self.names is None else self.names
        labels = label_codes(y, names)
        if len(labels) != len(self.outputs):
            raise ShapeError(f"there are {len(labels)} labels for {len(self.outputs)} rows; give one for each")
        chosen = np.take_along_axis(self.probability, labels[:, None], axis=1)[:, 0]
        return np.log(chosen.clip(min=np.finfo(np.float64).tiny))  # a forest may give a class no vote at all
