"""The nearest training rows by similarity of gradients, if there are too many rows to compare with all."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.core.concepts import Objective, TrainingSet
from rue.core.derivatives import jacobian_batches
from rue.core.resample import generator

COUNT = 256  # nearest rows that are compared exactly
LANDMARKS = 64  # training rows that define the coordinates in which neighbours are searched


@dataclass(frozen=True)
class NearestRows:
    """An index of all training rows in a few coordinates whose products approximate JH̃⁻¹Jᵀ (Nyström)."""

    landmarks: Tensor = field(repr=False)  # (l, d), H̃⁻¹J of the landmarks
    whiten: Tensor = field(repr=False)  # (l, z)
    direction: Tensor = field(repr=False)  # (k·z,), the mean row; it fixes the sign, which does not matter for κ
    index: Any = field(repr=False)
    count: int

    def __call__(self, jacobian: Tensor) -> Tensor:
        """The nearest rows of inputs with these Jacobians: (c, k, d) -> (c, count)."""
        points = _turned(_coordinates(jacobian, self.landmarks, self.whiten), self.direction)
        rows = self.index.kneighbors(points.cpu().numpy().astype(np.float32), return_distance=False)
        return torch.as_tensor(rows, device=jacobian.device)


def nearest_rows(model: Objective, data: TrainingSet, solved: Tensor) -> NearestRows:
    """Index the training rows, given their solved Jacobians (n, k, d)."""
    from sklearn.neighbors import NearestNeighbors

    chosen = torch.randperm(data.n, generator=generator(0))[:LANDMARKS].sort().values
    marks = solved[chosen.to(solved.device)].flatten(0, 1)
    gradients = torch.cat([_of_rows(jacobian, batch.rows, chosen) for batch, jacobian in jacobian_batches(model, data)])
    values, vectors = torch.linalg.eigh(gradients.flatten(0, 1) @ marks.T)
    kept = values > 1e-10 * values[-1]
    whiten = vectors[:, kept] / values[kept].sqrt()
    parts = [_coordinates(jacobian.double(), marks, whiten) for _, jacobian in jacobian_batches(model, data)]
    points = torch.cat(parts)
    direction = points.mean(0)
    index = NearestNeighbors(n_neighbors=COUNT, algorithm="brute")
    index.fit(_turned(points, direction).cpu().numpy().astype(np.float32))
    return NearestRows(marks, whiten, direction, index, COUNT)


def _of_rows(jacobian: Tensor, rows: slice, chosen: Tensor) -> Tensor:
    inside = chosen[(chosen >= rows.start) & (chosen < rows.stop)] - rows.start
    return jacobian[inside.to(jacobian.device)].double()


def _coordinates(jacobian: Tensor, landmarks: Tensor, whiten: Tensor) -> Tensor:
    """The coordinates of rows as unit vectors (c, k·z)."""
    points = (jacobian.double() @ landmarks.T @ whiten).flatten(1)
    return points / torch.linalg.vector_norm(points, dim=1, keepdim=True).clamp_min(1e-300)


def _turned(points: Tensor, direction: Tensor) -> Tensor:
    """Points, with the sign that gives each a positive product with `direction`."""
    return torch.where((points @ direction)[:, None] < 0, -points, points)
