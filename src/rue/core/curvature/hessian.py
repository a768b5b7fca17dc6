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

ASYMMETRY = {torch.float32: 1e-3, torch.float64: 1e-6}  # relative to the largest entry; more is not rounding
PROBES = 64  # random signs for the trace: a relative error of a few per cent, enough for a damping


@dataclass(frozen=True)
class Hessian:
    """∇²J(θ̂), which need not be positive definite where training stopped early."""

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
        """A Hessian of second-order terms can be of full rank."""
        return self.size

    @property
    def logits(self) -> int:
        """Outputs of which only differences matter."""
        return logits(self.model, self.data)

    @property
    def device(self) -> torch.device:
        """Where its vectors live."""
        return self.model.theta.device

    @property
    def dtype(self) -> torch.dtype:
        """The model's own."""
        return self.model.theta.dtype

    def product(self, vectors: Tensor) -> Tensor:
        """Multiply every row of (r, d)."""
        return hessian_product(self.model, self.data, vectors) + penalty_product(self.model, vectors)

    def dense(self) -> Tensor:
        """The whole matrix, (d, d)."""
        return self._dense

    def trace(self) -> float:
        """Hutchinson's estimate with fixed random signs, exact where the matrix is already known."""
        if "_dense" in vars(self):
            return float(self._dense.trace())
        signs = torch.randint(0, 2, (PROBES, self.size), generator=generator(0)).double() * 2 - 1
        signs = signs.to(self.device)
        return float((signs * self.product(signs)).sum() / PROBES)

    def penalty_diagonal(self) -> Tensor | None:
        """The penalty's part, where it is diagonal."""
        return penalty_diagonal(self.model)

    def root(self) -> Iterator[Tensor] | None:
        """A Hessian may point downwards: it has no root."""
        return None

    @cached_property
    def _dense(self) -> Tensor:
        """By products with blocks of unit vectors, made symmetric."""
        matrix = penalty_dense(self.model)
        unit = torch.eye(self.size, dtype=torch.float64, device=self.device)
        block = 8 * VECTORS  # a few blocks for each pass over the data
        for start in track("Hessian", range(0, self.size, block), total=-(-self.size // block)):
            matrix[start : start + block] += hessian_product(self.model, self.data, unit[start : start + block])
        return symmetric(matrix, self.model.theta.dtype)


def symmetric(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Even out rounding; a matrix that is not symmetric beyond that is not a second derivative."""
    apart = float((matrix - matrix.T).abs().max() / matrix.abs().max().clamp_min(1e-300))
    if apart > ASYMMETRY[dtype]:
        raise DerivativeError(
            f"the second derivatives are not symmetric (by {apart:.1e}, relative): a layer's double backward is wrong "
            "(torch's own weight_norm is such a layer); use curvature=GaussNewton()"
        )
    return 0.5 * (matrix + matrix.T)
