"""The influence of the training units on a prediction, B(x) = J(x) H̃⁻¹ L, and what comes straight from it."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from rue.core.concepts import Batch, Inverse, Objective, Resampler, TrainingSet
from rue.core.derivatives import gradient_batches, jacobian_batches
from rue.core.memory import free_bytes
from rue.core.one_step import left_out
from rue.core.resample import spread

Meat = Literal["HC0", "HC3"]
COPIES = 6  # of the gradients that gathering, centring and solving hold at the same time


def influence(
    model: Objective, data: TrainingSet, inverse: Inverse, jacobian: Tensor, meat: Meat = "HC0"
) -> tuple[Tensor, float]:
    """B = J H̃⁻¹ L: how each unit pulls on each output, (c, k, d) -> (c, k, u), and the residual of the solve.

    Streams over the training rows: nothing of size n×d is held.
    """
    c, k, d = jacobian.shape
    solved, residual = inverse.solve(jacobian.double().reshape(c * k, d))
    pulls = torch.zeros(c * k, data.units, dtype=torch.float64, device=solved.device)
    for part, gradients in _gradient_rows(model, data, inverse, meat):
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

    `slope` (n, k) says by what each row pulls on its outputs, where that is known from elsewhere.
    """
    rows = _gradient_rows(model, data, inverse, meat) if slope is None else _pulled(model, data, slope)
    d, device = model.theta.numel(), model.theta.device
    keep = data.units <= 2 * d  # gradients to keep as they are; more are condensed into d rows
    if keep or data.units < data.n:  # rows of a group may lie anywhere: gather them
        gathered = torch.zeros(data.units, d, dtype=torch.float64, device=device)
        for part, gradients in rows:
            gathered.index_add_(0, data.unit[part.rows].to(device), gradients)
        root = spread(resampler, gathered.T).T
        return root if keep else _matrix_root(root.T @ root)
    scale, shared = resampler.covariance(data.units)
    moment = torch.zeros(d, d, dtype=torch.float64, device=device)
    total = torch.zeros(d, dtype=torch.float64, device=device)
    for _, gradients in rows:
        moment.addmm_(gradients.T, gradients)
        total += gradients.sum(0)
    return _matrix_root(scale * (moment - shared * torch.outer(total, total) / data.units))


def pull_root_fits(model: Objective, data: TrainingSet) -> bool:
    """Whether the rows of `pull_root`, and what solving for them takes, fit in memory."""
    d = model.theta.numel()
    rows = data.units if data.units < data.n else min(data.units, 2 * d)
    return COPIES * 8 * rows * d <= free_bytes(model.theta.device)


def _gradient_rows(model: Objective, data: TrainingSet, inverse: Inverse, meat: Meat) -> Iterator[tuple[Batch, Tensor]]:
    """The rows of Lᵀ; with HC3 each is taken at the row's leave-one-out residual."""
    return gradient_batches(model, data) if meat == "HC0" else _left_out_gradients(model, data, inverse)


def _left_out_gradients(model: Objective, data: TrainingSet, inverse: Inverse) -> Iterator[tuple[Batch, Tensor]]:
    """The rows of Lᵀ at the slopes the rows have when their unit is left out (HC3; by group, the block jackknife)."""
    return _pulled(model, data, left_out(model, data, inverse).pull, weighted=False)


def _pulled(model: Objective, data: TrainingSet, pull: Tensor, weighted: bool = True) -> Iterator[tuple[Batch, Tensor]]:
    """The rows of Lᵀ where rows pull on their outputs by so much (n, k), times their weights unless these are in it."""
    for part, jacobian in jacobian_batches(model, data):
        own = part.weight[:, None] * pull[part.rows] if weighted else pull[part.rows]
        yield part, (jacobian.double().mT @ own.unsqueeze(-1)).squeeze(-1)


def _matrix_root(matrix: Tensor) -> Tensor:
    """Rows F with FᵀF = matrix, for a matrix that is positive semi-definite up to rounding."""
    scale = matrix.diagonal().clamp_min(0).sqrt()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))  # units of the parameters must not matter
    values, vectors = torch.linalg.eigh(matrix / torch.outer(scale, scale))
    return values.clamp_min(0).sqrt().unsqueeze(-1) * vectors.T * scale
