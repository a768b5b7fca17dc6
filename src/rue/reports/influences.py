"""The influential training rows on the cards."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.explain import Explanations
from rue.reports.blocks import Block
from rue.reports.plain import identifiers, shortened

COLUMNS = 12  # at most so many columns of the training rows, beside the target


def influential(explained: Explanations | None, rows: NDArray[np.int64]) -> dict[str, Block | None]:
    """The units that contribute most to each of these rows, and a training row for each of them."""
    if explained is None:
        return {"influential": None, "training": None}
    unit, row = explained.unit[rows], explained.representative[rows]
    pairs, where = np.unique(np.stack([unit.ravel(), row.ravel()], axis=1), axis=0, return_inverse=True)
    return {
        "influential": {
            "row": where.reshape(unit.shape),
            "share": shortened(explained.share[rows]),
            "without": shortened(explained.change[rows]),
            "similarity": shortened(explained.similarity[rows]),
            "residual": shortened(explained.residual[rows]),
        },
        "training": _training(explained, pairs),
    }


def _training(explained: Explanations, pairs: NDArray[np.int64]) -> Block:
    """Ids (a group's where units are groups) and columns of the rows, the target last."""
    labels = identifiers(explained.training.label[pairs[:, 0]])
    frame: Any = explained.training.columns(pairs[:, 1])
    if frame is None:
        return {"id": labels, "columns": [], "values": [[] for _ in labels]}
    names = list(frame.columns)
    own = len(names) - (1 if explained.training.data.source.y is not None else 0)
    kept = [*range(min(own, COLUMNS)), *range(own, len(names))]
    held = [frame.iloc[:, j].tolist() for j in kept]
    return {
        "id": labels,
        "columns": [str(names[j]) for j in kept],
        "values": [list(row) for row in zip(*held, strict=True)],
    }
