"""Artificial rows: each column is taken from a training row or from one of its neighbours."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.concepts import Inputs
from rue.core.errors import RueError
from rue.core.model import Model
from rue.data.features import training_points
from rue.data.rows import Rows
from rue.models.tables import table

NEAR = 6  # the other columns come from one of so many neighbours
ROWS = 1_000  # at most so many rows are made


def crossed(model: Model, data: Rows, seed: int) -> Inputs:
    """Artificial rows as the model reads them; where they cannot be made, some training rows."""
    from sklearn.neighbors import NearestNeighbors

    source = np.random.default_rng(seed)
    own = np.sort(source.permutation(data.n)[:ROWS])
    try:
        points = training_points(data)[1]
        near = NearestNeighbors(n_neighbors=min(NEAR + 1, data.n)).fit(points).kneighbors(points[own], None, False)
        other = near[np.arange(len(own)), source.integers(1, near.shape[1], len(own))]
        raw, ids = table(data.source.X), data.ids.numpy()
        first = source.random((len(own), raw.shape[1])) < 0.5
        return model.read(_put_together(raw, ids[np.where(first, own[:, None], other[:, None])]))
    except (RueError, TypeError, ValueError, AttributeError):
        return next(iter(data.batches())).inputs


def _put_together(raw: Any, rows: NDArray[np.int64]) -> Any:
    """A table whose entry (i, j) is column j of row `rows[i, j]`; `rows` is (s, p)."""
    if not hasattr(raw, "columns"):
        return raw[rows, np.arange(rows.shape[1])]
    from pandas import concat

    parts = [raw.iloc[rows[:, j], [j]].reset_index(drop=True) for j in range(rows.shape[1])]
    return concat(parts, axis=1)
