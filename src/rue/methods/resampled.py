"""How resampling moves the outputs of a model audited by its predictions: through leaf values, or a tangent."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.auditing.trained import Solved
from rue.calibrate.left_out import Evidence
from rue.calibrate.left_out.sources import rested_tangent
from rue.core.concepts import Inputs, Resampler
from rue.core.curvature import GaussNewton
from rue.core.derivatives import jacobian, jacobian_batches
from rue.core.influence import pull_root
from rue.core.one_step import leverage
from rue.core.reach import condensed
from rue.core.solve.choice import invert
from rue.core.stored import storable
from rue.data.rows import Rows
from rue.methods.fitting import Fitting

HIGHEST = 0.9  # larger leverages are cut to this


@storable
@dataclass(frozen=True)
class Resampled:
    """An objective, and a root of the covariance of its parameters under resampling."""

    solved: Solved
    steps: Tensor = field(repr=False)  # (r, d)

    def covariance(self, inputs: Inputs) -> Tensor:
        """The covariance of outputs at new inputs (c, k, k)."""
        moved = jacobian(self.solved.objective, inputs).double() @ self.steps.T
        return moved @ moved.mT

    def without_own(self, rows: Rows, slope: Tensor) -> Tensor:
        """The covariance at training rows (s, k, k), each without the pull of the row itself, from `slope` (s, k).

        The pull of the other rows grows by (1 − leverage)⁻¹.
        """
        parts = []
        for batch, jacobians in jacobian_batches(self.solved.objective, rows):
            moved = jacobians.double() @ self.steps.T
            share = batch.weight[:, None, None] * leverage(jacobians.double(), self.solved.inverted.inverse)[0]
            own = share @ slope[batch.rows].unsqueeze(-1)
            eye = torch.eye(share.shape[-1], dtype=share.dtype)
            turn = torch.linalg.inv(eye - share.clamp_max(HIGHEST))
            parts.append(turn @ (moved @ moved.mT - own @ own.mT) @ turn.mT)
        whole = torch.cat(parts)
        values, vectors = torch.linalg.eigh(0.5 * (whole + whole.mT))
        return (vectors * values.clamp_min(0).unsqueeze(-2)) @ vectors.mT


def resampled(fit: Fitting, evidence: Evidence, resampler: Resampler) -> Resampled | None:
    """Resampling of the rows, each pulling by its left-out residual; None where the model has no parameters.

    The structure of trees is held fixed; a network is replaced by its refitted tangent.
    """
    if not fit.model.family.gradients:
        return None
    if not fit.model.family.grown:
        tangent = rested_tangent(fit.model, fit.data)
        if tangent is None:
            return None
        root = pull_root(tangent.model, fit.data, resampler, tangent.inverted.inverse)
        return Resampled(
            Solved(tangent.inverted, tangent.model), condensed(tangent.inverted.inverse.solve(root).vectors)
        )
    objective = fit.model.objective if fit.model.quick is None else fit.model.quick(fit.model.core)
    inverted = invert(GaussNewton().at(objective, fit.data), None, None)
    rows = evidence.rows
    root = pull_root(objective, rows, resampler, inverted.inverse, slope=evidence.slope)
    root *= (fit.data.units / rows.units) ** 0.5  # as large as all rows pull
    return Resampled(Solved(inverted, objective), condensed(inverted.inverse.solve(root).vectors))
