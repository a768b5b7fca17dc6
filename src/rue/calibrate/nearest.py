"""Which training rows lie nearest in the metric, where there are too many to compare with all."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.core.concepts import Objective, TrainingSet
from rue.core.derivatives import jacobian_batches
from rue.core.randomness import generator

COUNT = 256  # nearest rows that are compared exactly
LANDMARKS = 64  # training rows that span the coordinates in which neighbours are looked for


@dataclass(frozen=True)
class NearestRows:
    """An index of all training rows in a few coordinates z whose products approximate JH̃⁻¹Jᵀ (Nyström)."""

    landmarks: Tensor = field(repr=False)  # (l, d), solved
    whiten: Tensor = field(repr=False)  # (l, z)
    direction: Tensor = field(repr=False)  # (k·z,), of the mean row: a gradient and its negative are as similar
    index: Any = field(repr=False)
    count: int

    def __call__(self, jacobian: Tensor) -> Tensor:
        """The nearest rows of inputs with these Jacobians: (c, k, d) -> (c, count)."""
        points = _turned(_coordinates(jacobian, self.landmarks, self.whiten), self.direction)
        found = self.index.kneighbors(points.cpu().numpy().astype(np.float32), return_distance=False)
        return torch.as_tensor(found, device=jacobian.device)


def nearest_rows(model: Objective, data: TrainingSet, solved: Tensor) -> NearestRows:
    """Index the training rows, given their solved Jacobians (n, k, d)."""
    from sklearn.neighbors import NearestNeighbors

    chosen = torch.randperm(data.n, generator=generator(0))[:LANDMARKS].sort().values
    marks = solved[chosen.to(solved.device)].flatten(0, 1)
    own = torch.cat([_of_rows(jacobian, batch.rows, chosen) for batch, jacobian in jacobian_batches(model, data)])
    values, vectors = torch.linalg.eigh(own.flatten(0, 1) @ marks.T)
    kept = values > 1e-10 * values[-1]
    whiten = vectors[:, kept] / values[kept].sqrt()
    found = [_coordinates(jacobian.double(), marks, whiten) for _, jacobian in jacobian_batches(model, data)]
    points = torch.cat(found)
    direction = points.mean(0)
    index = NearestNeighbors(n_neighbors=COUNT, algorithm="brute")
    index.fit(_turned(points, direction).cpu().numpy().astype(np.float32))
    return NearestRows(marks, whiten, direction, index, COUNT)


def _of_rows(jacobian: Tensor, rows: slice, chosen: Tensor) -> Tensor:
    inside = chosen[(chosen >= rows.start) & (chosen < rows.stop)] - rows.start
    return jacobian[inside.to(jacobian.device)].double()


def _coordinates(jacobian: Tensor, landmarks: Tensor, whiten: Tensor) -> Tensor:
    """Unit vectors (c, k·z)."""
    points = (jacobian.double() @ landmarks.T @ whiten).flatten(1)
    return points / torch.linalg.vector_norm(points, dim=1, keepdim=True).clamp_min(1e-300)


def _turned(points: Tensor, direction: Tensor) -> Tensor:
    """Points or their negatives, whichever lie on the side of the mean row."""
    return torch.where((points @ direction)[:, None] < 0, -points, points)
