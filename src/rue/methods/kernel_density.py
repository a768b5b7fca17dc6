"""Kernel density of the inputs: few training rows nearby, in Euclidean distance."""

from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, ClassVar

import numpy as np
import torch

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.auditing.meaning import Meaning
from rue.core.arrays import Array
from rue.core.concepts import Inputs
from rue.core.derivatives import outputs
from rue.core.errors import SettingError
from rue.core.model import Model
from rue.core.stored import storable_rows
from rue.data.features import Standardiser, coordinates, training_points
from rue.methods.fitting import fitting

BANDWIDTHS = tuple(float(h) for h in np.logspace(-1.5, 1.0, 26))  # in standard deviations of the features

MEANING = Meaning(of_other_rows=True)  # a training row sits on its own kernel


@dataclass(frozen=True)
class KernelDensity:
    """An isotropic Gaussian kernel; bandwidth by cross-validated likelihood. `score` is the negative log density."""

    bandwidths: tuple[float, ...] = BANDWIDTHS
    folds: int = 5  # section 4.1
    seed: int = 0
    meaning: ClassVar[Meaning] = MEANING

    def fit(self, model: Model, data: Any) -> Auditor:
        """Choose the bandwidth on the training rows."""
        with fitting(self, model, data) as fit:
            from sklearn.model_selection import GridSearchCV, KFold
            from sklearn.neighbors import KernelDensity as Density

            widths = [width for width in self.bandwidths if not isinstance(width, str) and 0 < width < inf]
            if not widths or len(widths) < len(self.bandwidths):
                raise SettingError(f"bandwidths must be numbers above zero, at least one, got {self.bandwidths!r}")
            if self.folds < 2:
                raise SettingError(f"folds of the cross-validation must be at least 2, got {self.folds}")
            standardise, points = training_points(fit.data)
            folds = KFold(min(self.folds, len(points)), shuffle=True, random_state=self.seed)
            search = GridSearchCV(Density(), {"bandwidth": list(self.bandwidths)}, cv=folds)
            search.fit(points)
            assess = DensityScore(standardise, points, float(search.best_params_["bandwidth"]))
            return fit.auditor(assess, {"bandwidth": float(search.best_params_["bandwidth"])}, noise=False)


@storable_rows
@dataclass(frozen=True)
class DensityScore:
    """A fitted density over features."""

    standardise: Standardiser
    points: Array = field(repr=False)  # (n, p), of the training rows
    bandwidth: float

    @cached_property
    def density(self) -> Any:
        """The density, with the points indexed."""
        from sklearn.neighbors import KernelDensity as Density

        return Density(bandwidth=self.bandwidth).fit(self.points)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Negative log density."""
        log_density: Array = self.density.score_samples(self.standardise(coordinates(inputs)))
        return Assessment(outputs(model, inputs), score=torch.from_numpy(-log_density))
