"""Sums of gradients over training rows."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rue.core.chunks import chunk_rows, chunks
from rue.core.concepts import Objective, TrainingSet
from rue.core.derivatives import FEW, gradient_batches, pull_many
from rue.core.sums import summed


def weighted_gradients(model: Objective, data: TrainingSet, weights: Tensor) -> Tensor:
    """L w for each of b weight vectors (b, n): (b, d) in float64."""
    shape = (len(weights), model.theta.numel())

    def part(block: TrainingSet) -> tuple[Tensor]:
        total = torch.zeros(shape, dtype=torch.float64, device=model.theta.device)
        for batch, gradients in gradient_batches(model, block):
            total += weights[:, batch.rows].to(total) @ gradients
        return (total,)

    return summed(data, part, weights.shape[0] * shape[1])[0]


def pulled_sums(model: Objective, data: TrainingSet, cotangents: Callable[[Tensor, Any], Tensor]) -> Tensor:
    """Σᵢ wᵢ Jᵢᵀ uᵢ for each of r cotangents (r, c, k), which are made of outputs and targets: (r, d) in float64."""

    def part(block: TrainingSet) -> tuple[Tensor]:
        total = torch.zeros((), dtype=torch.float64, device=model.theta.device)
        for some in (some for batch in block.batches() for some in chunks(batch, 16 * chunk_rows(model, FEW))):
            with torch.enable_grad():
                theta = model.theta.detach().requires_grad_()
                predicted = model.predict(theta, some.inputs)
                rows = some.weight[:, None] * cotangents(predicted.detach(), some.targets)
                total = total + pull_many(predicted, theta, rows.to(predicted), model).detach().double()
        return (total,)

    return summed(data, part, model.theta.numel())[0]
