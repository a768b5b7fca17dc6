"""Inputs as points in a Euclidean space, for the methods that measure distances there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.concepts import POINTS, Inputs, TrainingSet
from rue.errors import ShapeError
from rue.trees import leaves

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Standardiser:
    """Mean and deviation of the training rows; a constant column is only centred."""

    mean: Array = field(repr=False)
    scale: Array = field(repr=False)

    @classmethod
    def of(cls, values: Array) -> "Standardiser":
        """Measure (n, ...) over its rows.

        >>> Standardiser.of(np.array([[0.0, 5.0], [2.0, 5.0]]))(np.array([[3.0, 6.0]]))
        array([[2., 1.]])
        """
        scale = values.std(axis=0)
        return cls(values.mean(axis=0), scale + (scale == 0))

    def __call__(self, values: Array) -> Array:
        """Standardise (m, ...)."""
        return (values - self.mean) / self.scale


def training_points(data: TrainingSet) -> tuple[Standardiser, Array]:
    """The standardised coordinates of the training rows (n, p), and how to find those of new inputs."""
    parts = [coordinates(batch.inputs) for batch in data.batches()]
    widths = sorted({part.shape[1] for part in parts})
    if len(widths) > 1:
        raise ShapeError(
            f"batches have {widths[0]} to {widths[-1]} features per row, as texts padded batch by batch do; distances "
            "need rows of one length: pad all to the longest, or use a method of the model's own, such as LinearRUE"
        )
    raw = np.concatenate(parts)
    standardise = Standardiser.of(raw)
    return standardise, standardise(raw)


def coordinates(inputs: Inputs) -> Array:
    """All parts of the inputs side by side, or the one that says it is the points: (c, p)."""
    seen = inputs[POINTS] if isinstance(inputs, Mapping) and POINTS in inputs else inputs
    parts: list[Any] = [leaf.detach().cpu().double().reshape(len(leaf), -1).numpy() for leaf in leaves(seen)]
    return np.concatenate(parts, axis=1)
