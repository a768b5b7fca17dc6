"""Curvatures: symmetric d×d operators of one model on one training set."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Objective, TrainingSet
from rue.core.derivatives import followed_batches, jacobian_batches, outputs, weighted_hessian, whole, width
from rue.core.errors import DerivativeError, NotPositiveDefiniteError
from rue.core.products import VECTORS, gauss_newton_product, hessian_product, penalty_product
from rue.core.progress import track
from rue.core.resample import generator
from rue.core.stored import storable
from rue.core.sums import summed

ASYMMETRY = {torch.float32: 1e-3, torch.float64: 1e-6}  # relative to the largest entry; more is not rounding error
PROBES = 64  # random sign vectors for the trace: a relative error of a few per cent, enough to choose a damping


@storable
@dataclass(frozen=True)
class GaussNewton:
    """Σᵢ JᵢᵀΛᵢJᵢ + ∇²R: positive semi-definite for a convex loss, and equal to the Hessian at a perfect fit."""

    def at(self, model: Objective, data: TrainingSet) -> Curvature:
        """The Gauss–Newton matrix at the model's theta."""
        return GaussNewtonAt(model, data)


@storable
@dataclass(frozen=True)
class Hessian:
    """∇²J(θ̂). It need not be positive definite if training stopped early."""

    def at(self, model: Objective, data: TrainingSet) -> Curvature:
        """The Hessian at the model's theta."""
        return HessianAt(model, data)


@dataclass(frozen=True)
class _CurvatureAt:
    """What both curvatures of one model on one training set share."""

    model: Objective
    data: TrainingSet

    def on(self, data: TrainingSet) -> Self:
        """The same curvature, summed over other rows."""
        return replace(self, data=data)

    @property
    def size(self) -> int:
        """Number of parameters, d."""
        return self.model.theta.numel()

    @property
    def logits(self) -> int:
        """The number of softmax logits, of which only differences matter; 0 for models without softmax.

        Changes of the parameters that raise all logits equally do not change the loss: they are flat directions of
        the curvature. There are as many of them as there are parameters for one logit.
        """
        if self.model.family.decision != "largest":
            return 0
        return width(self.model, self.data)

    @property
    def device(self) -> torch.device:
        """The device of its vectors."""
        return self.model.theta.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the model."""
        return self.model.theta.dtype

    def penalty_diagonal(self) -> Tensor | None:
        """The curvature of the penalty (d,), where it is diagonal."""
        return penalty_diagonal(self.model)


@storable
@dataclass(frozen=True)
class GaussNewtonAt(_CurvatureAt):
    """The Gauss–Newton matrix of one model on one training set."""

    @cached_property
    def rank(self) -> int:
        """At most one direction for each output of each row."""
        return self.data.n * width(self.model, self.data)

    def product(self, vectors: Tensor) -> Tensor:
        """Multiply every row of (r, d)."""
        return gauss_newton_product(self.model, self.data, vectors) + penalty_product(self.model, vectors)

    def dense(self) -> Tensor:
        """The whole matrix, (d, d)."""
        return self._dense

    def trace(self) -> float:
        """The exact trace, summed over rows."""
        if "_dense" in vars(self):
            return float(self._dense.trace())
        from_rows = sum(float((rows * curved).sum()) for rows, curved in _curved_rows(self.model, self.data))
        diagonal = self.penalty_diagonal()
        return from_rows + float(penalty_dense(self.model).trace() if diagonal is None else diagonal.sum())

    def root(self) -> Iterator[Tensor] | None:
        """Λ^½J in blocks of rows; it needs a loss that is convex in the outputs."""
        return self._root_rows()

    @cached_property
    def _dense(self) -> Tensor:
        model, size = self.model, self.size  # and not the rows, so that the part can be sent to other processes

        def part(block: TrainingSet) -> tuple[Tensor]:
            matrix = torch.zeros(size, size, dtype=torch.float64, device=model.theta.device)
            for rows, curved in _curved_rows(model, block):
                matrix.addmm_(rows.T, curved)
            return (matrix,)

        matrix = summed(self.data, part, size**2)[0].add_(penalty_dense(model))
        return 0.5 * (matrix + matrix.T)

    def _root_rows(self) -> Iterator[Tensor]:
        for jacobian, curvature in _parts(self.model, self.data):
            yield (convex_root(curvature) @ jacobian).flatten(0, 1)


def _curved_rows(model: Objective, data: TrainingSet) -> Iterator[tuple[Tensor, Tensor]]:
    """J and ΛJ, each (c·k, d) in float64."""
    for jacobian, curvature in _parts(model, data):
        yield jacobian.flatten(0, 1), (curvature @ jacobian).flatten(0, 1)


def _parts(model: Objective, data: TrainingSet) -> Iterator[tuple[Tensor, Tensor]]:
    """Jacobians (c, f, d) and weighted Hessians of the loss (c, f, f); coupled rows form one block."""
    if model.family.coupled:
        rows = torch.cat([jacobian.double() for _, jacobian in jacobian_batches(model, data)])
        batch = whole(data)
        yield rows.view(1, data.n, -1), weighted_hessian(model, outputs(model, batch.inputs), batch)
        return
    for batch, followed in followed_batches(model, data):
        curved = weighted_hessian(model, outputs(model, batch.inputs), batch)
        yield followed.values.double(), followed.among(curved)


@storable
@dataclass(frozen=True)
class HessianAt(_CurvatureAt):
    """The Hessian of one model on one training set."""

    @property
    def rank(self) -> int:
        """The number of parameters: a Hessian can have full rank."""
        return self.size

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


def convex_root(curvature: Tensor) -> Tensor:
    """S (c, k, k) with SᵀS the second derivative of the loss by the outputs, which has to be convex in them."""
    values, vectors = torch.linalg.eigh(curvature)
    if float(values.min()) < -1e-6 * float(values.abs().max()):
        raise NotPositiveDefiniteError(
            "the loss is not convex in the outputs, so its Gauss–Newton matrix has no root; "
            "use solver=Cholesky() or Eigen() with a damping"
        )
    return values.clamp_min(0).sqrt().unsqueeze(-1) * vectors.mT


def symmetric(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Average out asymmetry that is due to rounding; raise if it is larger, since second derivatives are symmetric."""
    apart = float((matrix - matrix.T).abs().max() / matrix.abs().max().clamp_min(1e-300))
    if apart > ASYMMETRY[dtype]:
        raise DerivativeError(
            f"the second derivatives are not symmetric (by {apart:.1e}, relative): a layer's double backward is wrong "
            "(torch's own weight_norm is such a layer); use curvature=GaussNewton()"
        )
    return 0.5 * (matrix + matrix.T)


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
