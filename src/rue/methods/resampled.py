"""How resampling moves outputs beside evidence from outside: through leaf values, or the tangent of a network."""

from dataclasses import dataclass, field

from torch import Tensor

from rue.concepts import Inputs, Objective, Resampler
from rue.curvature import GaussNewton
from rue.derivatives import jacobian
from rue.influence import pull_root
from rue.left_out import Evidence
from rue.left_out.sources import gauge, rested_tangent
from rue.methods.fitting import Fitting
from rue.models.trees import few_numbers
from rue.solve.choice import Inverted, invert


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
    seen = few_numbers(fit.model)
    inverted = invert(GaussNewton().at(seen, fit.data), None, None, gauge(seen, fit.data))
    root = pull_root(seen, fit.data, resampler, inverted.inverse, slope=evidence.slope)
    return Resampled(seen, inverted, inverted.inverse.solve(root).vectors)
