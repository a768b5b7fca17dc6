"""Products of vectors with the curvature of the loss and of the penalty, by derivatives of derivatives."""

from collections.abc import Callable

import torch
from torch import Tensor

from rue.core.chunks import chunk_rows, chunks
from rue.core.concepts import Batch, Objective, TrainingSet
from rue.core.derivatives import coupled, gradient, pull_many, weighted_hessian
from rue.core.sums import summed

VECTORS = 32  # in one block of curvature products: 8 to 32 were the fastest


def hessian_product(model: Objective, data: TrainingSet, vectors: Tensor) -> Tensor:
    """∇²(Σᵢ ℓᵢ) times every row of (r, d), in float64."""

    def products(batch: Batch) -> Callable[[Tensor], Tensor]:
        theta = model.theta.detach().requires_grad_()
        slope = gradient(_objective(model, model.predict(theta, batch.inputs), batch), theta, keep=True)
        return lambda block: pull_many(slope, theta, block, model, "second derivatives")

    return _summed_products(model, data, vectors, products)


def gauss_newton_product(model: Objective, data: TrainingSet, vectors: Tensor) -> Tensor:
    """Σᵢ JᵢᵀΛᵢJᵢ times every row of (r, d), in float64."""

    def products(batch: Batch) -> Callable[[Tensor], Tensor]:
        theta = model.theta.detach().requires_grad_()
        predicted = model.predict(theta, batch.inputs)
        curvature = weighted_hessian(model, predicted, batch).to(predicted)
        probe = torch.zeros_like(predicted, requires_grad=True)
        pulled = gradient(predicted, theta, keep=True, cotangent=probe)  # Jᵀu is linear in u: its derivative is J

        def multiply(block: Tensor) -> Tensor:
            pushed = pull_many(pulled, probe, block, model, "pushed")  # (r, c, k) = J v
            blocks = pushed.view(len(block), *curvature.shape[:2])  # coupled rows are one block
            rows = torch.einsum("cij,rcj->rci", curvature, blocks).view_as(pushed)
            return pull_many(predicted, theta, rows, model)

        return multiply

    return _summed_products(model, data, vectors, products)


def penalty_product(model: Objective, vectors: Tensor) -> Tensor:
    """∇²R times every row of (r, d), in float64."""
    with torch.enable_grad():
        theta = model.theta.detach().double().requires_grad_()
        slope = gradient(model.penalty(theta), theta, keep=True)
        blocks = [pull_many(slope, theta, block.double(), model, "penalty") for block in vectors.split(VECTORS)]
    return torch.cat(blocks)


def _summed_products(
    model: Objective, data: TrainingSet, vectors: Tensor, products: Callable[[Batch], Callable[[Tensor], Tensor]]
) -> Tensor:
    """Add products over rows, a block of vectors at a time: memory holds the hidden layers once for each vector."""
    rows = data.n if model.family.coupled else max(64, 16 * chunk_rows(model, VECTORS))  # d is wider than any layer

    def part(block: TrainingSet) -> tuple[Tensor]:
        total = torch.zeros_like(vectors, dtype=torch.float64)
        for some in (some for batch in block.batches() for some in chunks(batch, rows)):
            with torch.enable_grad():
                multiply = products(some)
                for start in range(0, len(vectors), VECTORS):
                    few = vectors[start : start + VECTORS].to(model.theta.dtype)
                    total[start : start + VECTORS] += multiply(few).detach().double()
        return (total,)

    return summed(data, part, vectors.numel())[0]


def _objective(model: Objective, predicted: Tensor, batch: Batch) -> Tensor:
    """Σ wᵢℓᵢ of a batch, differentiable."""
    if model.family.coupled:
        return coupled(model, predicted, batch.targets, batch.weight).objective
    losses = model.loss(predicted, batch.targets)
    return (batch.weight.to(losses) * losses).sum()
