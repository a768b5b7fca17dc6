"""The Hessian of the whole objective: the paper's curvature."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Objective, TrainingSet
from rue.core.curvature.logits import logits
from rue.core.curvature.penalty import penalty_dense, penalty_diagonal
from rue.core.derivatives import VECTORS, hessian_product, penalty_product
from rue.core.errors import DerivativeError
from rue.core.progress import track
from rue.core.randomness import generator

ASYMMETRY = {torch.float32: 1e-3, torch.float64: 1e-6}  # relative to the largest entry; more is not rounding error
PROBES = 64  # random sign vectors for the trace: a relative error of a few per cent, enough to choose a damping


@dataclass(frozen=True)
class Hessian:
    """∇²J(θ̂). It need not be positive definite if training stopped early."""

    def at(self, model: Objective, data: TrainingSet) -> Curvature:
        """The Hessian at the model's theta."""
        return HessianAt(model, data)


@dataclass(frozen=True)
class HessianAt:
    """The Hessian of one model on one training set."""

    model: Objective
    data: TrainingSet

    @property
    def size(self) -> int:
        """Number of parameters, d."""
        return self.model.theta.numel()

    @property
    def rank(self) -> int:
        """The number of parameters: a Hessian can have full rank."""
        return self.size

    @property
    def logits(self) -> int:
        """The number of logits where only differences matter, else 0."""
        return logits(self.model, self.data)

    @property
    def device(self) -> torch.device:
        """The device of its vectors."""
        return self.model.theta.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the model."""
        return self.model.theta.dtype

    def product(self, vectors: Tensor) -> Tensor:
        """Multiply every row of (r, d)."""
        return hessian_product(self.model, self.data, vectors) + penalty_product(self.model, vectors)

    def dense(self) -> Tensor:
        """The whole matrix, (d, d)."""
        return self._dense

    def trace(self) -> float:
        """Hutchinson's estimate with fixed random signs; exact where the matrix has been computed already."""
        if "_dense" in vars(self):
            return float(self._dense.trace())
        signs = torch.randint(0, 2, (PROBES, self.size), generator=generator(0)).double() * 2 - 1
        signs = signs.to(self.device)
        return float((signs * self.product(signs)).sum() / PROBES)

    def penalty_diagonal(self) -> Tensor | None:
        """The curvature of the penalty (d,), where it is diagonal."""
        return penalty_diagonal(self.model)

    def root(self) -> Iterator[Tensor] | None:
        """None: a Hessian may have negative eigenvalues, so it has no root."""
        return None

    @cached_property
    def _dense(self) -> Tensor:
        """The matrix from products with blocks of unit vectors, made symmetric."""
        matrix = penalty_dense(self.model)
        unit = torch.eye(self.size, dtype=torch.float64, device=self.device)
        block = 8 * VECTORS  # a few blocks for each pass over the data
        for start in track("Hessian", range(0, self.size, block), total=-(-self.size // block)):
            matrix[start : start + block] += hessian_product(self.model, self.data, unit[start : start + block])
        return symmetric(matrix, self.model.theta.dtype)


def symmetric(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Average out asymmetry that is due to rounding; raise if it is larger, since second derivatives are symmetric."""
    apart = float((matrix - matrix.T).abs().max() / matrix.abs().max().clamp_min(1e-300))
    if apart > ASYMMETRY[dtype]:
        raise DerivativeError(
            f"the second derivatives are not symmetric (by {apart:.1e}, relative): a layer's double backward is wrong "
            "(torch's own weight_norm is such a layer); use curvature=GaussNewton()"
        )
    return 0.5 * (matrix + matrix.T)
