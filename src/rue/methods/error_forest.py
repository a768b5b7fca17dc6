"""A forest that learns the model's squared left-out residuals: the baseline a calibrated audit has to beat."""

from dataclasses import dataclass, field
from typing import Any

import torch

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.calibrate.error_model import ErrorModel, error_model
from rue.core.concepts import Inputs
from rue.core.curvature import GaussNewton
from rue.core.derivatives import outputs
from rue.core.errors import ModelError
from rue.core.model import Model
from rue.core.one_step import left_out
from rue.core.stored import storable
from rue.data.features import Standardiser, coordinates, training_points
from rue.methods.fitting import fitting


@dataclass(frozen=True)
class ErrorForest:
    """`score` is the root of the squared error a random forest expects from the inputs and the prediction.

    A second model of the errors (Wolpert, 1992), grown on leave-one-out residuals, without any resampling.
    """

    seed: int = 0

    def fit(self, model: Model, data: Any) -> Auditor:
        """Leave every row out by influence and grow the forest."""
        with fitting(self, model, data, project=True) as fit:
            if not fit.model.family.gaussian:
                raise ModelError('ErrorForest learns the residuals of loss="squared_error"', "use LinearRUE")
            inverted = fit.invert(GaussNewton(), None, None)
            rows = fit.data.sample
            left = left_out(fit.model, rows, inverted.inverse)
            standardise, points = training_points(rows)
            prediction, residual = left.prediction.cpu().numpy(), left.slope.cpu().numpy()
            weight, unit = rows.weight.cpu().numpy(), rows.unit.cpu().numpy()
            errors = error_model(points, prediction, residual, weight, unit, self.seed)
            return fit.auditor(ExpectedError(standardise, errors), inverted.describe(), noise=False)


@storable
@dataclass(frozen=True)
class ExpectedError:
    """The grown forest."""

    standardise: Standardiser = field(repr=False)
    errors: ErrorModel = field(repr=False)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Expected squared errors as noise, output by output."""
        predicted = outputs(model, inputs)
        squares = self.errors(self.standardise(coordinates(inputs)), predicted.double().cpu().numpy())
        expected = torch.as_tensor(squares, device=predicted.device)
        return Assessment(predicted, noise=torch.diag_embed(expected), score=expected.sum(1).sqrt())
