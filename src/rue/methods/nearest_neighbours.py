"""Nearest neighbours: how far the closest training rows are, or how badly they were fitted."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.auditing.meaning import Meaning
from rue.core.arrays import Array
from rue.core.concepts import Inputs
from rue.core.derivatives import loss_gradient, outputs
from rue.core.errors import SettingError
from rue.core.model import Model
from rue.core.stored import storable_rows
from rue.data.features import Standardiser, coordinates, training_points
from rue.data.rows import Rows
from rue.methods.fitting import fitting

MEANING = Meaning(of_other_rows=True)  # a training row is its own neighbour


@dataclass(frozen=True)
class NearestNeighbours:
    """`score` is the mean distance to the nearest training rows, or the root of their mean squared residual.

    Residuals are a local estimate of noise, so that `by="residual"` also gives a predictive distribution.
    """

    neighbours: int = 10
    by: Literal["distance", "residual"] = "residual"
    meaning: ClassVar[Meaning] = MEANING

    def __post_init__(self) -> None:
        if isinstance(self.neighbours, bool) or self.neighbours < 1 or self.neighbours != int(self.neighbours):
            raise SettingError(f"neighbours must be a whole number of at least 1, got {self.neighbours}")
        if self.by not in ("distance", "residual"):
            raise SettingError(f'by must be "distance" or "residual", got {self.by!r}')

    def fit(self, model: Model, data: Any) -> Auditor:
        """Index the training rows."""
        with fitting(self, model, data) as fit:
            if self.neighbours > fit.data.n:
                raise SettingError(
                    f"{self.neighbours} neighbours were asked for, but there are {fit.data.n} training rows"
                )
            standardise, points = training_points(fit.data)
            residuals = _residuals(fit.model, fit.data) if self.by == "residual" else None
            assess = NeighbourScore(standardise, points, self.neighbours, residuals, fit.model.family.gaussian)
            return fit.auditor(assess, {}, noise=False)


@storable_rows
@dataclass(frozen=True)
class NeighbourScore:
    """Indexed training rows and their residuals (n, k)."""

    standardise: Standardiser
    points: Array = field(repr=False)  # (n, p), of the training rows
    neighbours: int
    residuals: Tensor | None = field(repr=False)
    gaussian: bool

    @cached_property
    def index(self) -> Any:
        """The points, indexed."""
        from sklearn.neighbors import NearestNeighbors

        return NearestNeighbors(n_neighbors=self.neighbours).fit(self.points)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Distances to the nearest rows, or their squared residuals."""
        distances, rows = self.index.kneighbors(self.standardise(coordinates(inputs)))
        predicted = outputs(model, inputs)
        if self.residuals is None:
            return Assessment(predicted, score=torch.from_numpy(distances.mean(axis=1)))
        near = self.residuals[torch.from_numpy(rows)]  # (c, neighbours, k)
        local = torch.einsum("cri,crj->cij", near, near) / near.shape[1]
        score = local.diagonal(dim1=1, dim2=2).sum(-1).sqrt()
        return Assessment(predicted, noise=local if self.gaussian else None, score=score)


def _residuals(model: Model, data: Rows) -> Tensor:
    parts = [loss_gradient(model, outputs(model, batch.inputs), batch.targets) for batch in data.batches()]
    return torch.cat(parts).double().cpu()
