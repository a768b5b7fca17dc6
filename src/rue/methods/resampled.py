"""How resampling moves outputs beside evidence from outside: through leaf values, or the tangent of a network."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.calibrate.left_out import Evidence
from rue.calibrate.left_out.sources import rested_tangent
from rue.core.concepts import Inputs, Objective, Resampler
from rue.core.curvature import GaussNewton
from rue.core.derivatives import jacobian, jacobian_batches
from rue.core.influence import pull_root
from rue.core.one_step import leverage
from rue.core.solve.choice import Inverted, invert
from rue.data.rows import Rows
from rue.methods.fitting import Fitting

HIGHEST = 0.9  # leverage that a row is believed to have


@dataclass(frozen=True)
class Resampled:
    """An objective, and the root of the covariance of its parameters."""

    objective: Objective = field(repr=False)
    inverted: Inverted
    steps: Tensor = field(repr=False)  # (r, d)

    def covariance(self, inputs: Inputs) -> Tensor:
        """Of outputs at new inputs (c, k, k)."""
        moved = jacobian(self.objective, inputs).double() @ self.steps.T
        return moved @ moved.mT

    def without_own(self, data: Rows, slope: Tensor) -> Tensor:
        """Of outputs at the training rows (n, k, k), each without the row: not its own pull by `slope` (n, k).

        The others then pull harder, by (1 − leverage)⁻¹.
        """
        found = []
        for batch, rows in jacobian_batches(self.objective, data):
            moved = rows.double() @ self.steps.T
            share = batch.weight[:, None, None] * leverage(rows.double(), self.inverted.inverse)[0]
            own = share @ slope[batch.rows].unsqueeze(-1)
            eye = torch.eye(share.shape[-1], dtype=share.dtype)
            turn = torch.linalg.inv(eye - share.clamp_max(HIGHEST))
            found.append(turn @ (moved @ moved.mT - own @ own.mT) @ turn.mT)
        whole = torch.cat(found)
        values, vectors = torch.linalg.eigh(0.5 * (whole + whole.mT))
        return (vectors * values.clamp_min(0).unsqueeze(-2)) @ vectors.mT


def resampled(fit: Fitting, evidence: Evidence, resampler: Resampler) -> Resampled | None:
    """Rows pull on leaf values by what honest models miss them by; None where no parameters are known.

    The trees themselves are held fixed, and networks replaced by their refitted tangent.
    """
    if not fit.model.family.gradients:
        return None
    if not fit.model.family.grown:
        found = rested_tangent(fit.model, fit.data)
        if found is None:
            return None
        root = pull_root(found.model, fit.data, resampler, found.inverted.inverse)
        return Resampled(found.model, found.inverted, found.inverted.inverse.solve(root).vectors)
    seen = fit.model.objective if fit.model.quick is None else fit.model.quick(fit.model.core)
    inverted = invert(GaussNewton().at(seen, fit.data), None, None)
    root = pull_root(seen, fit.data, resampler, inverted.inverse, slope=evidence.slope)
    return Resampled(seen, inverted, inverted.inverse.solve(root).vectors)
