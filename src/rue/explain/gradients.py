"""The effect of training rows on a prediction, by gradients in the metric of the curvature of one objective."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from rue.calibrate.smoother import products, similarity, sizes
from rue.core.arrays import Array, Whole
from rue.core.concepts import Batch, Inputs, Inverse, Objective, Resampler
from rue.core.derivatives import coupled, followed, jacobian, jacobian_batches, loss_gradient, outputs, whole
from rue.core.errors import ModelError, SettingError
from rue.core.influence import Meat
from rue.core.nested import take
from rue.core.one_step import LeftOut, left_out, leverage, step_without
from rue.core.resample import generator
from rue.core.stored import storable
from rue.data.rows import Rows, sample_numbers
from rue.explain.lens import ALL, MODEL, Sight, Usual, of_output
from rue.explain.misfit import ROWS, usual_rows

HELD = 2**24  # entries of Jacobians in memory at once


@storable
@dataclass(frozen=True)
class GradientLens:
    """Computes a(x, xᵢ) = J(x) H̃⁻¹ J(xᵢ)ᵀ for each batch of inputs, without storing anything of size n×d."""

    model: Objective = field(repr=False)  # at its minimum: the audited model, or its refitted tangent
    data: Rows = field(repr=False)
    inverse: Inverse = field(repr=False)
    resampler: Resampler
    meat: Meat = "HC0"

    @property
    def whose(self) -> str:
        """The model that is explained, in words."""
        return MODEL

    @cached_property
    def residual(self) -> Array:
        """Left-out slopes; the fitted slopes if rows cannot be left out."""
        return _array(self._slopes if self._left is None else self._left.slope)

    @cached_property
    def prediction(self) -> Array:
        """Left-out outputs; the fitted outputs if rows cannot be left out."""
        if self._left is not None:
            return _array(self._left.prediction)
        return _array(torch.cat([outputs(self.model, batch.inputs) for batch in self.data.batches()]))

    def usual(self, output: int) -> Usual | None:
        """The measures of some training rows, each without its own unit; cached for each output."""
        if self._left is None:
            return None
        if output not in self._usual:
            sample, at = self.data.sample, torch.from_numpy(sample_numbers(self.data))
            usable = torch.nonzero(sample.weight > 0).flatten()
            rows = usable[torch.randperm(len(usable), generator=generator(0))[:ROWS]].sort().values
            reach = self._left.reach[at[rows].to(self._left.reach.device)]
            density = _mean_diagonal(reach) if output == ALL else reach[:, output, output]
            residual, weight = of_output(self.residual, output)[at.numpy()], sample.weight.numpy()
            self._usual[output] = usual_rows(rows.numpy(), _array(density), residual, weight, self._similar_rows)
        return self._usual[output]

    @cached_property
    def _usual(self) -> dict[int, Usual]:
        return {}

    def look(self, inputs: Inputs, contrast: Tensor) -> Sight:
        """Compute all influences on the explained numbers in one pass over the training rows."""
        rows = jacobian(self.model, inputs).double()
        c, k, d = rows.shape
        solved = self.inverse.solve(rows.flatten(0, 1)).vectors.view(c, k, d)
        own = rows @ solved.mT
        pull, change = (
            torch.zeros(c, self.data.units, dtype=torch.float64, device=rows.device) for _ in ("pull", "change")
        )
        kernel, square = (torch.empty(c, self.data.n, dtype=torch.float64, device=rows.device) for _ in range(2))
        mixed = []  # only for coupled rows
        for part, others in jacobian_batches(self.model, self.data):
            pairs = products(solved, others.double())
            square[:, part.rows] = pairs.square().sum((1, 3))
            toward = torch.einsum("ck,ckbj->cbj", contrast.to(pairs), pairs)
            kernel[:, part.rows] = toward.square().sum(-1)
            if self.model.family.coupled:
                mixed.append(toward[:, :, 0])
                continue
            units = self.data.unit[part.rows].to(rows.device)
            for total, slopes in ((pull, self._pulls), (change, self._changes)):
                total.index_add_(1, units, torch.einsum("cbj,bj->cb", toward, slopes[part.rows].to(toward)))
        if mixed:  # the weight of a row affects every output
            moved = torch.cat(mixed, dim=1) @ self._coupled_slopes.T
            pull.index_add_(1, self.data.unit.to(rows.device), moved)
            change = pull
        kappa = similarity(square, torch.linalg.matrix_norm(own), self._sizes).clamp(max=1)
        return Sight(*(_array(values) for values in (pull, change, kernel, kappa, _density(own, contrast))))

    def without(self, inputs: Inputs, contrast: Tensor, rows: Whole) -> float:
        """The change without all these rows together: exact for a linear model with squared error."""
        if self.model.family.coupled:
            raise ModelError("rows whose losses depend on each other cannot be left out together; refit without them")
        step = step_without(self.model, self.data, self.inverse, torch.as_tensor(np.sort(rows)))
        moved = jacobian(self.model, inputs).double()[0] @ step
        return float(contrast[0].to(moved) @ moved)

    def _similar_rows(self, rows: Whole) -> Array:
        """κ of some rows (s,) of the sample to all of it: (s, n), zero within a unit."""
        sample = self.data.sample
        together = max(1, HELD // (self.residual.shape[1] * self.model.theta.numel()))
        if len(rows) > together:
            parts = np.split(rows, range(together, len(rows), together))
            return np.concatenate([self._similar_rows(part) for part in parts])
        wanted, jacobians = torch.as_tensor(rows), []
        for batch in sample.batches():
            here = wanted[(wanted >= batch.rows.start) & (wanted < batch.rows.stop)] - batch.rows.start
            jacobians += [self._of_rows(batch, here)] if len(here) else []
        chosen = torch.cat(jacobians)
        solved = self.inverse.solve(chosen.flatten(0, 1)).vectors.view_as(chosen)
        square = torch.empty(len(chosen), sample.n, dtype=torch.float64, device=chosen.device)
        for part, others in jacobian_batches(self.model, sample):
            square[:, part.rows] = products(solved, others.double()).square().sum((1, 3))
        same = (sample.unit[wanted][:, None] == sample.unit[None, :]).to(square.device)
        sizes_of = self._sizes[torch.from_numpy(sample_numbers(self.data)).to(self._sizes.device)]
        kappa = similarity(square, sizes_of[wanted.to(square.device)], sizes_of, same)
        return _array(kappa.clamp(max=1))

    def _of_rows(self, batch: Batch, here: Tensor) -> Tensor:
        """The Jacobians (s, k, d) of some rows of a batch in float64; those of a whole batch of a sketch are kept."""
        if self.model.family.straight:
            return followed(self.model, batch.inputs).some(here.to(self.model.theta.device)).double().whole()
        return jacobian(self.model, take(batch.inputs, here)).double()

    @cached_property
    def _left(self) -> LeftOut | None:
        """Every row without its unit; None for coupled rows, and for groups that do not fit in memory."""
        try:
            return left_out(self.model, self.data, self.inverse, sole="first order")
        except (ModelError, SettingError):
            return None

    @cached_property
    def _sizes(self) -> Tensor:
        """The Frobenius norm of JH̃⁻¹Jᵀ (n,); infinite for rows of weight zero, so that their similarity is zero."""
        if self._left is not None:
            return torch.where(self.data.weight.to(self._left.size) > 0, self._left.size, torch.inf)
        own = [leverage(rows, self.inverse)[0] for _, rows in jacobian_batches(self.model, self.data)]
        return sizes(torch.cat(own), self.data.weight)

    @cached_property
    def _slopes(self) -> Tensor:
        """∂ℓ/∂f at the fitted outputs: (n, k)."""
        parts = [
            loss_gradient(self.model, outputs(self.model, batch.inputs), batch.targets).double()
            for batch in self.data.batches()
        ]
        return torch.cat(parts)

    @property
    def _pulls(self) -> Tensor:
        """The slopes behind the resampling variance: weighted fitted slopes, or left-out ones for HC3."""
        if self.meat == "HC3" and self._left is not None:
            return self._left.pull
        return self.data.weight.to(self._slopes)[:, None] * self._slopes

    @property
    def _changes(self) -> Tensor:
        """The slopes behind the change without a unit: exact for a linear model with squared error."""
        return self._pulls if self._left is None else self._left.pull

    @cached_property
    def _coupled_slopes(self) -> Tensor:
        batch = whole(self.data)
        return coupled(self.model, outputs(self.model, batch.inputs), batch.targets, batch.weight).slope


def _density(own: Tensor, contrast: Tensor) -> Tensor:
    """JH̃⁻¹Jᵀ of the explained output, or its mean over all outputs for a margin: (c,)."""
    single = (contrast != 0).sum(1) == 1
    at = contrast.abs().argmax(1).to(own.device)
    return torch.where(
        single.to(own.device), own[torch.arange(len(own), device=own.device), at, at], _mean_diagonal(own)
    )


def _mean_diagonal(blocks: Tensor) -> Tensor:
    return blocks.diagonal(dim1=1, dim2=2).mean(1)


def _array(values: Tensor) -> Array:
    return np.asarray(values.detach().cpu().double().numpy())
