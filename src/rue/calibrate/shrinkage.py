"""Shrinks a classifier's margins by a temperature, resampling and scarcity, with weights fitted to left-out rows."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rue.core.arrays import Array
from rue.core.classify import averaged, log_likelihood
from rue.core.concepts import Decision
from rue.core.stored import storable

LOWEST = 0.25  # smallest part of the best single squared temperature: small samples would become overconfident
RANGE = 1e4  # squared temperatures are searched between 1/RANGE and RANGE
NEAR = 0.95  # on a log scale, a temperature beyond this part of the limit counts as at the limit
FLAT = 1e-9  # nats per row: a smaller difference counts as none
SPREAD = (1.0, 0.05)  # initial weights of resampling and scarcity


@storable
class Shrinkage(NamedTuple):
    """Margins are divided by the square root of unit + π/8 (resampling · RUE + scarcity · JH⁻¹Jᵀ)."""

    unit: float  # a squared temperature
    resampling: float
    scarcity: float
    nll: float  # mean over the left-out rows, in nats
    limit: bool  # the search ended at its limit: left-out margins predict the labels not at all, or perfectly

    def probability(
        self, decision: Decision, logits: Tensor, resampling: Tensor | None, scarcity: Tensor | None
    ) -> Tensor:
        """Averaged probabilities (c, classes) from logits (c, k) and covariances (c, k, k); None stands for zero."""
        total = logits.new_zeros(*logits.shape, logits.shape[-1])
        for weight, covariance in ((self.resampling, resampling), (self.scarcity, scarcity)):
            total = total if covariance is None else total + weight * covariance
        return averaged(decision, logits, total, self.unit)


def fit_shrinkage(
    decision: Decision, logits: Tensor, resampling: Tensor, scarcity: Tensor, targets: Tensor, weight: Tensor
) -> Shrinkage:
    """The weights that maximise the likelihood of left-out labels; `unit` alone would be temperature scaling."""
    from scipy.optimize import minimize

    shares = (weight / weight.sum()).to(logits)
    alone, limit = best_temperature(decision, logits, targets, shares)

    def value(weights: Array) -> tuple[float, Array]:
        at = torch.as_tensor(weights, device=logits.device).requires_grad_()
        with torch.enable_grad():
            probabilities = averaged(decision, logits, at[1] * resampling + at[2] * scarcity, at[0])
            nll = -(shares * log_likelihood(decision, probabilities, targets)).sum()
            (slope,) = torch.autograd.grad(nll, at)
        return float(nll.detach()), slope.cpu().numpy()

    limits = [(LOWEST * alone, None), (0.0, None), (0.0, None)]
    start = np.array([alone, *SPREAD])
    optimum = minimize(value, start, jac=True, bounds=limits, method="L-BFGS-B", options={"maxiter": 200})
    unit, by_resampling, by_scarcity = (float(weight) for weight in optimum.x)
    return Shrinkage(unit, by_resampling, by_scarcity, float(optimum.fun), limit)


def best_temperature(decision: Decision, logits: Tensor, targets: Tensor, weight: Tensor) -> tuple[float, bool]:
    """The best squared temperature if nothing else shrinks a margin, and whether it is at its limit."""
    from scipy.optimize import minimize_scalar

    limit = float(np.log(RANGE))

    def cost(log_unit: float) -> float:
        return tempered_nll(decision, logits, targets, weight, float(np.exp(log_unit)))

    optimum = minimize_scalar(cost, bounds=(-limit, limit), method="bounded")
    endless = cost(-limit) <= optimum.fun + FLAT  # every row is classified right, so more confidence is no worse
    return float(np.exp(optimum.x)), bool(abs(optimum.x) > NEAR * limit or endless)


def tempered_nll(decision: Decision, logits: Tensor, targets: Tensor, weight: Tensor, unit: float) -> float:
    """−Σ w log p of targets under logits (n, k) at a squared temperature."""
    k = logits.shape[-1]
    probabilities = averaged(decision, logits, logits.new_zeros(len(logits), k, k), unit)
    return float(-(weight * log_likelihood(decision, probabilities, targets)).sum())
