"""The Gauss–Newton matrix: the Hessian without the second derivatives of the network."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Objective, TrainingSet
from rue.core.curvature.logits import logits
from rue.core.curvature.penalty import penalty_dense, penalty_diagonal
from rue.core.derivatives import (
    gauss_newton_product,
    jacobian_batches,
    outputs,
    penalty_product,
    weighted_hessian,
    whole,
)
from rue.core.errors import NotPositiveDefiniteError


@dataclass(frozen=True)
class GaussNewton:
    """Σᵢ JᵢᵀΛᵢJᵢ + ∇²R: positive semi-definite for a convex loss, and equal to the Hessian at a perfect fit."""

    def at(self, model: Objective, data: TrainingSet) -> Curvature:
        """The Gauss–Newton matrix at the model's theta."""
        return GaussNewtonAt(model, data)


@dataclass(frozen=True)
class GaussNewtonAt:
    """The Gauss–Newton matrix of one model on one training set."""

    model: Objective
    data: TrainingSet

    @property
    def size(self) -> int:
        """Number of parameters, d."""
        return self.model.theta.numel()

    @cached_property
    def rank(self) -> int:
        """At most one direction for each output of each row."""
        batch = next(self.data.batches())
        return self.data.n * outputs(self.model, batch.inputs).shape[1]

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
        return gauss_newton_product(self.model, self.data, vectors) + penalty_product(self.model, vectors)

    def dense(self) -> Tensor:
        """The whole matrix, (d, d)."""
        return self._dense

    def trace(self) -> float:
        """The exact trace, summed over rows."""
        if "_dense" in vars(self):
            return float(self._dense.trace())
        from_rows = sum(float((rows * curved).sum()) for rows, curved in self._curved_rows())
        diagonal = self.penalty_diagonal()
        return from_rows + float(penalty_dense(self.model).trace() if diagonal is None else diagonal.sum())

    def penalty_diagonal(self) -> Tensor | None:
        """The curvature of the penalty (d,), where it is diagonal."""
        return penalty_diagonal(self.model)

    def root(self) -> Iterator[Tensor] | None:
        """Λ^½J in blocks of rows; it needs a loss that is convex in the outputs."""
        return self._root_rows()

    @cached_property
    def _dense(self) -> Tensor:
        matrix = penalty_dense(self.model)
        for rows, curved in self._curved_rows():
            matrix.addmm_(rows.T, curved)
        return 0.5 * (matrix + matrix.T)

    def _curved_rows(self) -> Iterator[tuple[Tensor, Tensor]]:
        """J and ΛJ, each (c·k, d) in float64."""
        for jacobian, curvature in self._parts():
            yield jacobian.flatten(0, 1), (curvature @ jacobian).flatten(0, 1)

    def _root_rows(self) -> Iterator[Tensor]:
        for jacobian, curvature in self._parts():
            values, vectors = torch.linalg.eigh(curvature)
            if float(values.min()) < -1e-6 * float(values.abs().max()):
                raise NotPositiveDefiniteError(
                    "the loss is not convex in the outputs, so its Gauss–Newton matrix has no root; "
                    "use solver=Cholesky() or Eigen() with a damping"
                )
            half = values.clamp_min(0).sqrt().unsqueeze(-1) * vectors.mT
            yield (half @ jacobian).flatten(0, 1)

    def _parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Jacobians (c, k, d) and weighted Hessians of the loss (c, k, k); coupled rows form one block."""
        if self.model.family.coupled:
            rows = torch.cat([jacobian.double() for _, jacobian in jacobian_batches(self.model, self.data)])
            batch = whole(self.data)
            yield rows.view(1, self.data.n, -1), weighted_hessian(self.model, outputs(self.model, batch.inputs), batch)
            return
        for batch, jacobian in jacobian_batches(self.model, self.data):
            yield jacobian.double(), weighted_hessian(self.model, outputs(self.model, batch.inputs), batch)
