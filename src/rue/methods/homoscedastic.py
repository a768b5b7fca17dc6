"""The same noise for every input: the baseline that a score of single predictions has to beat."""

from dataclasses import dataclass
from typing import Any

import torch

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.core.concepts import Inputs
from rue.core.derivatives import outputs
from rue.core.model import Model
from rue.core.stored import storable
from rue.methods.fitting import fitting


@dataclass(frozen=True)
class Homoscedastic:
    """Every prediction gets the same `score`; the noise is that of the training residuals."""

    def fit(self, model: Model, data: Any) -> Auditor:
        """Measure the residuals."""
        with fitting(self, model, data) as fit:
            return fit.auditor(ConstantScore(), {})


@storable
@dataclass(frozen=True)
class ConstantScore:
    """The same score for all inputs."""

    def of_sums(self) -> "ConstantScore":
        """Itself: nothing in it is of a single row."""
        return self

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Predictions, and a score of one."""
        predicted = outputs(model, inputs)
        return Assessment(predicted, score=torch.ones(len(predicted)))
