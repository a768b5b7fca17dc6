"""The Laplace approximation: it measures how dense the training rows are, but not how well they are fitted."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.auditing.meaning import Meaning, SpreadMeaning
from rue.auditing.trained import Solved
from rue.core.concepts import CurvatureRule, Damping, Inputs, Inverse, Solver
from rue.core.curvature import Hessian
from rue.core.derivatives import jacobian, outputs
from rue.core.model import Model
from rue.core.one_step import leverage
from rue.core.resample import generator
from rue.core.solve import SmallestEigenvalue
from rue.core.stored import storable
from rue.methods.ensemble import SampledMembers, check_members
from rue.methods.fitting import fitting

MEANING = Meaning(
    spread=SpreadMeaning(
        "Posterior",
        "The posterior: {what} would change by about so much were the parameters drawn from a Gaussian around the "
        "trained ones, with the inverse curvature as its covariance.",
        "What other training rows, or training from scratch, would do.",
        "The spread is that of a Gaussian around the trained parameters with the inverse curvature as its covariance. "
        "Other minima, and a model that is wrong, are no part of it.",
    )
)


@dataclass(frozen=True)
class Laplace:
    """Predictions of parameters drawn from N(θ̂, H̃⁻¹): the paper's baseline.

    With `linearised=True` nothing is drawn: the variance is gᵀH̃⁻¹g. `score` is the standard deviation.
    """

    members: int = 200
    seed: int = 0
    linearised: bool = False
    curvature: CurvatureRule = field(default_factory=Hessian)
    damping: Damping | None = field(default_factory=SmallestEigenvalue)
    solver: Solver | None = None
    meaning: ClassVar[Meaning] = MEANING

    def __post_init__(self) -> None:
        check_members(self.members)

    def fit(self, model: Model, data: Any) -> Auditor:
        """Factor the curvature, and draw the members unless linearised."""
        with fitting(self, model, data) as fit:
            inverted = fit.invert(self.curvature, self.damping, self.solver)
            solved = Solved(inverted, fit.model)
            if self.linearised:
                return fit.auditor(InverseSpread(inverted.inverse), inverted.describe(), solved=solved)
            draws = inverted.inverse.sample(self.members, generator(self.seed))
            members = SampledMembers(fit.model.theta.double() + draws)
            return fit.auditor(members, inverted.describe(), solved=solved, drawn=members)


@storable
@dataclass(frozen=True)
class InverseSpread:
    """The inverse curvature as the covariance of the parameters."""

    inverse: Inverse = field(repr=False)

    def of_sums(self) -> "InverseSpread":
        """Itself: nothing in it is of a single row."""
        return self

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """J H̃⁻¹ Jᵀ for a batch of inputs."""
        covariance, residual = leverage(jacobian(model, inputs), self.inverse)
        return Assessment(outputs(model, inputs), covariance, residual=residual)
