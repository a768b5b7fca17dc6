"""The curvature of the penalty, which is part of every curvature."""

import torch
from torch import Tensor

from rue.core.concepts import Objective
from rue.core.derivatives import penalty_product
from rue.core.randomness import generator


def penalty_diagonal(model: Objective) -> Tensor | None:
    """∇²R as its diagonal (d,), or None where it is not diagonal.

    A diagonal matrix maps a vector of ones to its diagonal; the product with a second, random vector shows whether
    the matrix is diagonal.
    """
    d, device = model.theta.numel(), model.theta.device
    irregular = torch.randn(d, generator=generator(0), dtype=torch.float64).to(device)
    diagonal, image = penalty_product(model, torch.stack([torch.ones_like(irregular), irregular]))
    apart = (image - diagonal * irregular).abs().max()
    return diagonal if float(apart) <= 1e-9 * float(image.abs().max()) else None


def penalty_dense(model: Objective) -> Tensor:
    """∇²R as a matrix (d, d) in float64."""
    diagonal = penalty_diagonal(model)
    if diagonal is not None:
        return torch.diag(diagonal)
    return penalty_product(model, torch.eye(model.theta.numel(), dtype=torch.float64, device=model.theta.device))
