"""A trained network with Gaussian weights, ready to predict."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from rue.auditing.assessment import Assessment
from rue.core.arrays import Array
from rue.core.concepts import Inputs
from rue.core.model import Model
from rue.core.stored import storable
from rue.data.features import Standardiser, coordinates
from rue.methods.integrated.pbp.layers import with_constant
from rue.methods.integrated.pbp.rectifier import rectify


@storable
@dataclass(frozen=True)
class Posterior:
    """A trained network: the moments (p, h) of the weights of each layer, and the variance of the noise."""

    layers: tuple[tuple[Array, Array], ...] = field(repr=False)
    noise: float  # in the targets' own units
    standardise_inputs: Standardiser = field(repr=False)
    standardise_targets: Standardiser = field(repr=False)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:  # noqa: ARG002  the network is PBP's own
        """Mean and variance of the network's output, and the noise, in the targets' units."""
        mean, variance = self.moments(inputs)
        return Assessment(
            torch.from_numpy(mean),
            torch.from_numpy(variance)[:, :, None],
            noise=torch.full((len(mean), 1, 1), self.noise, dtype=torch.float64),
        )

    def predict(self, model: Model, inputs: Inputs) -> Tensor:  # noqa: ARG002  as above
        """The mean of the network's output: (c, 1)."""
        return torch.from_numpy(self.moments(inputs)[0])

    def moments(self, inputs: Inputs) -> tuple[Array, Array]:
        """Mean and variance (c, 1) of the output, propagated as in training."""
        mean = self.standardise_inputs(coordinates(inputs))
        variance = np.zeros_like(mean)
        for place, (weight, weight_variance) in enumerate(self.layers):
            if place:
                mean, variance, *_ = rectify(mean, variance)
            row, spread = with_constant(mean), np.pad(variance, ((0, 0), (0, 1))) / len(weight)
            mean = row @ weight
            variance = spread @ weight**2 + (row**2 + spread) @ weight_variance
        centre, scale = self.standardise_targets.mean, self.standardise_targets.scale
        return centre + scale * mean, scale**2 * variance
