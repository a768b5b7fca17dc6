"""The influence of the training units on a prediction, B(x) = J(x) H̃⁻¹ L, and the covariance of resampled gradients.

L (d, u) holds the gradient of the weighted loss of every unit, H̃ is the damped curvature and J the Jacobian.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from rue.core.concepts import Batch, Inverse, Objective, Resampler, TrainingSet
from rue.core.derivatives import followed_batches, gradient_batches
from rue.core.memory import free_bytes
from rue.core.one_step import left_out
from rue.core.resample import spread
from rue.core.sums import summed

Meat = Literal["HC0", "HC3"]
Gradients = Callable[[TrainingSet], Iterator[tuple[Batch, Tensor]]]
COPIES = 6  # of the gradients that are in memory at once while they are gathered, centred and solved for


def influence(
    model: Objective, data: TrainingSet, inverse: Inverse, jacobian: Tensor, meat: Meat = "HC0"
) -> tuple[Tensor, float]:
    """B = J H̃⁻¹ L: the influence of each unit on each output, (c, k, d) -> (c, k, u), and the residual of the solve.

    Reads the training rows in batches, so that nothing of size n×d is in memory.
    """
    c, k, d = jacobian.shape
    solved, residual = inverse.solve(jacobian.double().reshape(c * k, d))
    pulls = torch.zeros(c * k, data.units, dtype=torch.float64, device=solved.device)
    for part, gradients in _gradient_rows(model, data, inverse, meat)(data):
        pulls.index_add_(1, data.unit[part.rows].to(solved.device), solved @ gradients.T)
    return pulls.view(c, k, data.units), residual


def pull_root(
    model: Objective,
    data: TrainingSet,
    resampler: Resampler,
    inverse: Inverse,
    meat: Meat = "HC0",
    slope: Tensor | None = None,
) -> Tensor:
    """Rows F (r, d) with FᵀF = L Cov[w] Lᵀ, the covariance of the resampled gradient; r is at most u and 2d.

    `slope` (n, k) replaces the derivatives of the losses by the outputs, where better ones are available.
    """
    rows = _gradient_rows(model, data, inverse, meat) if slope is None else partial(_pulled, model, slope)
    d, device = model.theta.numel(), model.theta.device
    keep = data.units <= 2 * d  # so few gradients are kept; more are condensed into d rows
    if keep or data.units < data.n:  # rows of a group may be anywhere, so they are added up first
        gathered = torch.zeros(data.units, d, dtype=torch.float64, device=device)
        for batch, gradients in rows(data):
            gathered.index_add_(0, data.unit[batch.rows].to(device), gradients)
        root = spread(resampler, gathered.T).T
        return root if keep else _matrix_root(root.T @ root)
    scale, shared = resampler.covariance(data.units)

    def part(block: TrainingSet) -> tuple[Tensor, Tensor]:
        moment = torch.zeros(d, d, dtype=torch.float64, device=device)
        total = torch.zeros(d, dtype=torch.float64, device=device)
        for _, gradients in rows(block):
            moment.addmm_(gradients.T, gradients)
            total += gradients.sum(0)
        return moment, total

    moment, total = summed(data, part, d**2)
    return _matrix_root(scale * (moment - shared * torch.outer(total, total) / data.units))


def pull_variance(model: Objective, data: TrainingSet, resampler: Resampler) -> Tensor:
    """The diagonal (d,) of L Cov[w] Lᵀ, the variance of the resampled gradient, where every row is a unit."""
    scale, shared = resampler.covariance(data.units)

    def part(block: TrainingSet) -> tuple[Tensor, Tensor]:
        square, total = torch.zeros(2, model.theta.numel(), dtype=torch.float64, device=model.theta.device)
        for _, gradients in gradient_batches(model, block):
            square += gradients.square().sum(0)
            total += gradients.sum(0)
        return square, total

    square, total = summed(data, part, 2 * model.theta.numel())
    return (scale * (square - shared * total.square() / data.units)).clamp_min(0)  # below zero by rounding


def pull_root_fits(model: Objective, data: TrainingSet) -> bool:
    """Whether the rows of `pull_root`, and solving for them, fit in memory."""
    d = model.theta.numel()
    rows = data.units if data.units < data.n else min(data.units, 2 * d)
    return COPIES * 8 * rows * d <= free_bytes(model.theta.device)


def _gradient_rows(model: Objective, data: TrainingSet, inverse: Inverse, meat: Meat) -> Gradients:
    """Gives the rows of Lᵀ of some training rows: with HC0 at the fitted outputs, with HC3 at left-out predictions.

    With groups, HC3 is the block jackknife.
    """
    if meat == "HC0":
        return partial(gradient_batches, model)
    return partial(_pulled, model, left_out(model, data, inverse).pull, weighted=False)


def _pulled(model: Objective, pull: Tensor, data: TrainingSet, weighted: bool = True) -> Iterator[tuple[Batch, Tensor]]:
    """The rows Jᵢᵀpᵢ of Lᵀ for slopes p (n, k); `weighted` multiplies them by the weights of the rows."""
    for part, rows in followed_batches(model, data):
        slope = part.weight[:, None] * pull[part.rows] if weighted else pull[part.rows]
        yield part, (rows.values.double().mT @ rows.of(slope).unsqueeze(-1)).squeeze(-1)


def _matrix_root(matrix: Tensor) -> Tensor:
    """Rows F with FᵀF = matrix, for a matrix that is positive semi-definite up to rounding."""
    scale = matrix.diagonal().clamp_min(0).sqrt()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))  # so that the parameters' units do not matter
    alike = matrix / torch.outer(scale, scale)
    factor, failed = torch.linalg.cholesky_ex(alike)  # about thirty times faster than eigenvalues, where it exists
    if int(failed) == 0 and bool(torch.isfinite(factor).all()):
        return factor.T * scale
    values, vectors = torch.linalg.eigh(alike)
    return values.clamp_min(0).sqrt().unsqueeze(-1) * vectors.T * scale
