"""Networks with Gaussian weights, g of them side by side, learning one row at a time."""

from collections.abc import Sequence

import numpy as np

from rue.core.arrays import Array
from rue.core.stored import storable
from rue.methods.integrated.pbp.layers import FirstLayer, LaterLayer
from rue.methods.integrated.pbp.prior import Prior, hyperprior
from rue.methods.integrated.pbp.rectifier import Rectified, rectify


@storable
class Networks:
    """The posterior of g networks of one architecture: weights, noise precision γ, prior precision λ."""

    def __init__(self, means: Sequence[Array]) -> None:
        """Start from these means of the weights, (g, p, h) for each layer, and the prior's variances."""
        problems = len(means[0])
        self.noise = hyperprior(problems)
        self.prior = Prior(sum(mean[0].size for mean in means), problems)
        first, *later = [np.stack([mean, np.full_like(mean, self.prior.gamma.variance[0])]) for mean in means]
        self.first = FirstLayer(*np.ascontiguousarray(first.swapaxes(1, 2)))
        self.later = [LaterLayer(*moments) for moments in later]

    def learn(self, row: Array, target: Array) -> None:
        """One step of assumed density filtering on rows (p, g, 1), divided by √p, and targets (g,)."""
        moments = self.first.forward(row)
        active: list[Rectified] = []
        for layer in self.later:
            active.append(rectify(*moments))
            moments = layer.forward(active[-1].mean, active[-1].variance)
        slopes = self._observe(target - moments[0][:, 0], moments[1][:, 0])
        for layer, rectified in zip(reversed(self.later), reversed(active), strict=True):
            slopes = rectified.backward(*layer.backward(*slopes))
        self.first.backward(*slopes)

    def _observe(self, residual: Array, variance: Array) -> tuple[Array, Array]:
        """Update the noise; return the derivatives (g, 1) of log Z = log N(y | mean, variance + β/(α − 1))."""
        total = variance + self.noise.variance
        by_mean = residual / total
        updated = self.noise.observed(residual, variance)
        valid = updated.proper
        self.noise = updated if valid.all() else updated.where(valid, self.noise)
        return by_mean[:, None], (0.5 * (by_mean * by_mean - 1 / total))[:, None]

    def refine_prior(self) -> None:
        """One sweep of expectation propagation over the prior's factors."""
        layers = self.weights()
        mean, variance = (np.concatenate([layer[i].reshape(len(layer[i]), -1).T for layer in layers]) for i in (0, 1))
        self.prior.refine(mean, variance)
        start = 0
        for own_mean, own_variance in layers:
            rows = slice(start, start + own_mean[0].size)
            own_mean[:] = mean[rows].T.reshape(own_mean.shape)
            own_variance[:] = variance[rows].T.reshape(own_mean.shape)
            start = rows.stop

    def weights(self) -> list[tuple[Array, Array]]:
        """Views of the means and variances of each layer: (g, p, h)."""
        first = self.first.mean.swapaxes(0, 1), self.first.variance.swapaxes(0, 1)
        return [first, *((layer.mean, layer.variance) for layer in self.later)]
