"""Inputs as points in a Euclidean space, for the methods that measure distances there."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rue.concepts import Inputs, TrainingSet
from rue.result import Array
from rue.trees import leaves


@dataclass(frozen=True)
class Features:
    """Standardised coordinates, by the training rows' mean and deviation; a constant column stays as it is."""

    mean: Array = field(repr=False)
    scale: Array = field(repr=False)

    def __call__(self, inputs: Inputs) -> Array:
        """Every input's coordinates: (c, p)."""
        return (flat(inputs) - self.mean) / self.scale


def training_features(data: TrainingSet) -> tuple[Features, Array]:
    """The coordinates of the training rows (n, p), and how to find those of new inputs."""
    points = np.concatenate([flat(batch.inputs) for batch in data.batches()])
    scale = points.std(axis=0)
    features = Features(points.mean(axis=0), np.where(scale > 0, scale, 1.0))
    return features, (points - features.mean) / features.scale


def flat(inputs: Inputs) -> Array:
    """All parts of the inputs side by side: (c, p)."""
    parts: list[Any] = [leaf.detach().cpu().double().reshape(len(leaf), -1).numpy() for leaf in leaves(inputs)]
    return np.concatenate(parts, axis=1)
