"""A randomised Nyström preconditioner (Frangella, Tropp & Udell 2023): it inverts the largest eigendirections."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Facts
from rue.core.errors import DerivativeError
from rue.core.resample import generator
from rue.core.stored import storable


@storable
@dataclass(frozen=True)
class LowRankPreconditioner:
    """P⁻¹ = U (top/values) Uᵀ + (I − UUᵀ), with U (d, r); the identity where r is 0."""

    vectors: Tensor = field(repr=False)
    factors: Tensor = field(repr=False)  # (r,), smallest kept eigenvalue over each

    def __call__(self, rows: Tensor) -> Tensor:
        """Apply to every row of (r, d)."""
        along = rows @ self.vectors
        return rows + (along * (self.factors - 1)) @ self.vectors.T

    def describe(self) -> Facts:
        """Its rank."""
        return {"preconditioner_rank": len(self.factors)}


def nystrom(curvature: Curvature, damping: float, rank: int, seed: int) -> LowRankPreconditioner:
    """Sketch the curvature with `rank` random directions."""
    sketch = torch.randn(curvature.size, rank, generator=generator(seed), dtype=torch.float64).to(curvature.device)
    if rank == 0:
        return LowRankPreconditioner(sketch, sketch.new_empty(0))
    basis, _ = torch.linalg.qr(sketch)
    image = curvature.product(basis.T).T
    shift = torch.finfo(torch.float64).eps * torch.linalg.matrix_norm(image) * curvature.size**0.5
    image = image + shift * basis
    core = basis.T @ image
    if float((core - core.T).abs().max()) > 1e-2 * float(core.abs().max()):
        raise DerivativeError(
            "products with the curvature are not symmetric: a layer's double backward is wrong (torch's own "
            "weight_norm is such a layer); use curvature=GaussNewton()"
        )
    values, rotation = torch.linalg.eigh(0.5 * (core + core.T))
    keep = values > shift  # negative directions of a Hessian are left to the iterations
    half = (image @ rotation[:, keep]) / values[keep].sqrt()
    vectors, singular, _ = torch.linalg.svd(half, full_matrices=False)
    eigenvalues = (singular.square() - shift).clamp_min(0) + damping
    return LowRankPreconditioner(vectors, eigenvalues.min() / eigenvalues if len(eigenvalues) else eigenvalues)
