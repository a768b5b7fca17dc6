"""Linear layers whose weights are Gaussian: moments go forward, gradients of log Z backward and update the weights.

A layer of V inputs, the constant one among them, is a = Wᵀz/√V. `backward` takes the derivatives of log Z by the mean
and the variance of a, makes the paper's step m ← m + v ∂m, v ← v − v²((∂m)² − 2∂v) on its weights and hands on the
derivatives by the moments of z.
"""

import numpy as np

from rue.core.arrays import Array
from rue.core.stored import storable


@storable
class FirstLayer:
    """A layer whose inputs are numbers. Its weights (p, g, h) have the problems in the middle.

    The derivatives of log Z by its weights are outer products with the inputs, which saves most of the work.
    """

    def __init__(self, mean: Array, variance: Array) -> None:
        self.mean, self.variance = mean, variance
        self._scaled = np.empty_like(mean)  # v x/√V
        self._shift = np.empty_like(mean)

    def forward(self, row: Array) -> tuple[Array, Array]:
        """The moments (g, h) of a, for rows (p, g, 1) that are already divided by √V."""
        np.multiply(self.variance, row, out=self._scaled)
        across = row.transpose(1, 2, 0)  # (g, 1, p)
        mean = across @ self.mean.transpose(1, 0, 2)
        variance = across @ self._scaled.transpose(1, 0, 2)
        return mean[:, 0], variance[:, 0]

    def backward(self, by_mean: Array, by_variance: Array) -> None:
        """Move the weights; with ∂a and ∂b the derivatives given, (∂m)² − 2∂v = ((∂a)² − 2∂b) x²/V."""
        shift, shrinkage = self._shift, self._scaled
        np.multiply(shrinkage, by_mean, out=shift)
        np.multiply(shrinkage, shrinkage, out=shrinkage)
        shrinkage *= by_mean * by_mean - 2 * by_variance
        _move(self.mean, self.variance, shift, shrinkage)


@storable
class LaterLayer:
    """A layer whose inputs are uncertain, too. Its weights are (g, p, h), the constant's last."""

    def __init__(self, mean: Array, variance: Array) -> None:
        self.mean, self.variance = mean, variance
        self._inputs = _Inputs(*mean.shape[:2])

    def forward(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """The moments (g, h) of a, from those of the inputs without the constant: (g, p − 1)."""
        inputs = self._inputs.fill(mean, variance)
        centre = inputs.mean[:, None] @ self.mean
        spread = inputs.variance[:, None] @ (self.mean * self.mean) + inputs.second_moment[:, None] @ self.variance
        return centre[:, 0] * inputs.scale, spread[:, 0] * inputs.scale**2

    def backward(self, by_mean: Array, by_variance: Array) -> tuple[Array, Array]:
        """Move the weights, and return the derivatives by the moments of the inputs: (g, p − 1) each."""
        inputs, square = self._inputs, self.mean * self.mean
        by_mean, twice = by_mean[:, None] * inputs.scale, by_variance[:, None] * (2 * inputs.scale**2)
        by_inputs = (self.mean * by_mean).sum(-1) + inputs.mean * (self.variance * twice).sum(-1)
        by_input_variance = 0.5 * ((square + self.variance) * twice).sum(-1)
        slope = inputs.mean[:, :, None] * by_mean + self.mean * inputs.variance[:, :, None] * twice
        curve = slope * slope - inputs.second_moment[:, :, None] * twice
        _move(self.mean, self.variance, self.variance * slope, self.variance * self.variance * curve)
        return by_inputs[:, :-1], by_input_variance[:, :-1]


class _Inputs:
    """The moments (g, p) of a layer's inputs, the constant one last, and the layer's scale 1/√V."""

    def __init__(self, problems: int, width: int) -> None:
        self.mean, self.variance = np.ones((problems, width)), np.zeros((problems, width))
        self.second_moment = np.ones((problems, width))
        self.scale = width**-0.5

    def fill(self, mean: Array, variance: Array) -> "_Inputs":
        """Take the moments of all inputs but the constant."""
        self.mean[:, :-1] = mean
        self.variance[:, :-1] = variance
        self.second_moment[:, :-1] = mean * mean + variance
        return self


def with_constant(values: Array) -> Array:
    """Rows (c, p) as a layer takes them: with the constant one last, divided by √V, where V = p + 1."""
    return np.pad(values, ((0, 0), (0, 1)), constant_values=1.0) / (values.shape[1] + 1) ** 0.5


def _move(mean: Array, variance: Array, shift: Array, shrinkage: Array) -> None:
    """Step in place; a weight whose variance would not stay positive stays where it is, as in the paper."""
    valid = shrinkage < variance
    if not valid.all():
        shift[~valid] = 0.0
        shrinkage[~valid] = 0.0
    mean += shift
    variance -= shrinkage
