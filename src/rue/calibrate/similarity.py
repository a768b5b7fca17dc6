"""The similarity κ of two rows to a model: the squared cosine of their gradients in the metric of H̃⁻¹.

With several outputs a row has several gradients; κ is then ‖J₁H̃⁻¹J₂ᵀ‖² over ‖J₁H̃⁻¹J₁ᵀ‖ ‖J₂H̃⁻¹J₂ᵀ‖, in Frobenius norms.
"""

import torch
from torch import Tensor

TINY = torch.finfo(torch.float64).tiny


def products(rows: Tensor, others: Tensor) -> Tensor:
    """The products of all pairs of gradients: (c, k, d), (n, j, d) -> (c, k, n, j)."""
    c, k, _ = rows.shape
    n, j, _ = others.shape
    return (rows.flatten(0, 1) @ others.flatten(0, 1).T).view(c, k, n, j)


def sizes(own: Tensor, weight: Tensor) -> Tensor:
    """‖JH̃⁻¹Jᵀ‖ (n,) of training rows, from JH̃⁻¹Jᵀ (n, k, k); infinite for rows of weight zero, so that κ is 0."""
    return torch.where(weight.to(own.device) > 0, torch.linalg.matrix_norm(own), torch.inf)


def similarity(square: Tensor, size: Tensor, others: Tensor, same: Tensor | None = None) -> Tensor:
    """κ (c, s) from ‖J₁H̃⁻¹J₂ᵀ‖² (c, s) and sizes (c,) and (s,) or (c, s); zero within the `same` unit (c, s).

    >>> similarity(torch.tensor([[4.0, 1.0]]), torch.tensor([2.0]), torch.tensor([2.0, torch.inf])).tolist()
    [[1.0, 0.0]]
    """
    kappa = square / others.clamp_min(TINY) / size.clamp_min(TINY)[:, None]
    return kappa if same is None else torch.where(same, 0.0, kappa)
