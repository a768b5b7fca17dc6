"""The penalty's share of every curvature."""

import torch
from torch import Tensor

from rue.concepts import Model
from rue.derivatives import penalty_product


def penalty_diagonal(model: Model) -> Tensor | None:
    """∇²R as its diagonal (d,), or None where it is not diagonal.

    A diagonal matrix maps ones to its diagonal; a second, irregular vector tells whether it was one.
    """
    d, device = model.theta.numel(), model.theta.device
    irregular = torch.linspace(0.5, 1.5, d, dtype=torch.float64, device=device).sin()
    diagonal, image = penalty_product(model, torch.stack([torch.ones_like(irregular), irregular]))
    return diagonal if torch.allclose(image, diagonal * irregular, rtol=1e-9, atol=1e-12) else None


def penalty_dense(model: Model) -> Tensor:
    """∇²R as a matrix (d, d) in float64."""
    diagonal = penalty_diagonal(model)
    if diagonal is not None:
        return torch.diag(diagonal)
    return penalty_product(model, torch.eye(model.theta.numel(), dtype=torch.float64, device=model.theta.device))
