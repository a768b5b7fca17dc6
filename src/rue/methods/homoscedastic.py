"""One noise for all: the baseline a per-prediction score has to beat."""

from dataclasses import dataclass
from typing import Any

import torch

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.core.concepts import Inputs
from rue.core.derivatives import outputs
from rue.core.model import Model
from rue.methods.fitting import fitting


@dataclass(frozen=True)
class Homoscedastic:
    """Every prediction is as good as any other: `score` is a constant, the noise that of the training residuals."""

    def fit(self, model: Model, data: Any) -> Auditor:
        """Measure the residuals."""
        with fitting(self, model, data) as fit:
            return fit.auditor(ConstantScore(), {})


@dataclass(frozen=True)
class ConstantScore:
    """The same for all inputs."""

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Predictions, and a score of one."""
        predicted = outputs(model, inputs)
        return Assessment(predicted, score=torch.ones(len(predicted)))
