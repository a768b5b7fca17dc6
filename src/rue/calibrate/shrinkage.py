"""How far a classifier's margins are shrunk: by a temperature, resampling and scarcity, weighed by leave-one-out."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rue.core.arrays import Array
from rue.core.classify import averaged, log_likelihood
from rue.core.concepts import Decision

LOWEST = 0.25  # of the squared temperature that is best alone: small samples would go lower, and be too sure
RANGE = 1e4  # of squared temperatures that are looked at, either way
NEAR = 0.95  # of the logarithm of a limit: at it
FLAT = 1e-9  # nats a row
SPREAD = (1.0, 0.05)  # weights to start from


class Shrinkage(NamedTuple):
    """Margins are divided by the root of unit + π/8 (resampling · RUE + scarcity · JH⁻¹Jᵀ)."""

    unit: float  # a squared temperature
    resampling: float
    scarcity: float
    nll: float  # mean of the left-out rows, in nats
    limit: bool  # the search for a temperature ended at its limit: left-out margins say nothing, or everything

    def probability(
        self, decision: Decision, logits: Tensor, resampling: Tensor | None, scarcity: Tensor | None
    ) -> Tensor:
        """Averaged probabilities (c, classes) from logits (c, k) and two covariances (c, k, k), None for nothing."""
        total = logits.new_zeros(*logits.shape, logits.shape[-1])
        for weight, covariance in ((self.resampling, resampling), (self.scarcity, scarcity)):
            total = total if covariance is None else total + weight * covariance
        return averaged(decision, logits, total, self.unit)


def fit_shrinkage(
    decision: Decision, logits: Tensor, resampling: Tensor, scarcity: Tensor, targets: Tensor, weight: Tensor
) -> Shrinkage:
    """The weights under which the labels of left-out rows are most likely; the first alone is temperature scaling."""
    from scipy.optimize import minimize

    shares = (weight / weight.sum()).to(logits)
    alone, limit = best_temperature(decision, logits, targets, shares)

    def value(weights: Array) -> tuple[float, Array]:
        at = torch.as_tensor(weights, device=logits.device).requires_grad_()
        with torch.enable_grad():
            found = averaged(decision, logits, at[1] * resampling + at[2] * scarcity, at[0])
            nll = -(shares * log_likelihood(decision, found, targets)).sum()
            (slope,) = torch.autograd.grad(nll, at)
        return float(nll.detach()), slope.cpu().numpy()

    limits = [(LOWEST * alone, None), (0.0, None), (0.0, None)]
    start = np.array([alone, *SPREAD])
    found = minimize(value, start, jac=True, bounds=limits, method="L-BFGS-B", options={"maxiter": 200})
    unit, by_resampling, by_scarcity = (float(weight) for weight in found.x)
    return Shrinkage(unit, by_resampling, by_scarcity, float(found.fun), limit)


def best_temperature(decision: Decision, logits: Tensor, targets: Tensor, weight: Tensor) -> tuple[float, bool]:
    """The squared temperature that is best where nothing else shrinks a margin, and whether it is at its limit."""
    from scipy.optimize import minimize_scalar

    limit = float(np.log(RANGE))

    def cost(log_unit: float) -> float:
        return tempered_nll(decision, logits, targets, weight, float(np.exp(log_unit)))

    found = minimize_scalar(cost, bounds=(-limit, limit), method="bounded")
    endless = cost(-limit) <= found.fun + FLAT  # every row is told right, and surer is no worse
    return float(np.exp(found.x)), bool(abs(found.x) > NEAR * limit or endless)


def tempered_nll(decision: Decision, logits: Tensor, targets: Tensor, weight: Tensor, unit: float) -> float:
    """−Σ w log p of targets under logits (n, k) at a squared temperature."""
    k = logits.shape[-1]
    found = averaged(decision, logits, logits.new_zeros(len(logits), k, k), unit)
    return float(-(weight * log_likelihood(decision, found, targets)).sum())
