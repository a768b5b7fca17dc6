"""How far a classifier's margins are shrunk: by a temperature, resampling and scarcity, weighed by leave-one-out."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.classify import averaged, log_likelihood
from rue.concepts import Decision

Array = NDArray[np.float64]

LEAST = (
    0.25,
    0.0,
    0.0,
)  # a temperature of one half: small samples would go lower, and be too sure (docs/classification.md)
START = (1.0, 1.0, 0.05)


class Shrinkage(NamedTuple):
    """Margins are divided by the root of unit + π/8 (resampling · RUE + scarcity · JH⁻¹Jᵀ)."""

    unit: float  # a squared temperature
    resampling: float
    scarcity: float
    nll: float  # mean of the left-out rows, in nats

    def probability(self, decision: Decision, logits: Tensor, resampling: Tensor, scarcity: Tensor) -> Tensor:
        """Averaged probabilities (c, classes) from logits (c, k) and two covariances (c, k, k)."""
        return averaged(decision, logits, self.resampling * resampling + self.scarcity * scarcity, self.unit)


def fit_shrinkage(
    decision: Decision, logits: Tensor, resampling: Tensor, scarcity: Tensor, targets: Tensor, weight: Tensor
) -> Shrinkage:
    """The weights under which the labels of left-out rows are most likely; the first alone is temperature scaling."""
    from scipy.optimize import minimize

    shares = (weight / weight.sum()).to(logits)

    def value(weights: Array) -> tuple[float, Array]:
        at = torch.as_tensor(weights, device=logits.device).requires_grad_()
        with torch.enable_grad():
            found = averaged(decision, logits, at[1] * resampling + at[2] * scarcity, at[0])
            nll = -(shares * log_likelihood(decision, found, targets)).sum()
            (slope,) = torch.autograd.grad(nll, at)
        return float(nll.detach()), slope.cpu().numpy()

    limits = [(least, None) for least in LEAST]
    found = minimize(value, np.array(START), jac=True, bounds=limits, method="L-BFGS-B", options={"maxiter": 200})
    unit, by_resampling, by_scarcity = (float(weight) for weight in found.x)
    return Shrinkage(unit, by_resampling, by_scarcity, float(found.fun))
