"""Resampling Uncertainty Estimation: Algorithm 1 of the paper."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from rue.auditing.auditor import Auditor
from rue.auditing.meaning import NOT_THE_ERROR, Meaning, ScoreMeaning
from rue.auditing.trained import Solved
from rue.core.concepts import CurvatureRule, Damping, Resampler, Solver
from rue.core.curvature import Hessian
from rue.core.gradient_sums import weighted_gradients
from rue.core.model import Model
from rue.core.resample import Multinomial, generator
from rue.core.solve import SmallestEigenvalue
from rue.methods.ensemble import SampledMembers, check_members
from rue.methods.fitting import fitting

MEANING = Meaning(
    made="Training sets are drawn as a bootstrap would; parameters follow to first order, and each draw predicts.",
    score=ScoreMeaning(
        "The standard deviation of the prediction over sampled training sets: with other training rows it would change "
        "by about so much.",
        NOT_THE_ERROR,
    ),
)


@dataclass(frozen=True)
class RUE:
    """The spread of the predictions of b resampled parameter vectors, each one Newton step from the trained one.

    The defaults are the paper's: the Hessian, lifted so that every eigenvalue is at least one, and
    multinomial weights. `score` is the members' standard deviation.
    """

    members: int = 200
    seed: int = 0
    curvature: CurvatureRule = field(default_factory=Hessian)
    damping: Damping | None = field(default_factory=SmallestEigenvalue)
    solver: Solver | None = None
    resampler: Resampler = field(default_factory=Multinomial)
    meaning: ClassVar[Meaning] = MEANING

    def __post_init__(self) -> None:
        check_members(self.members)

    def fit(self, model: Model, data: Any) -> Auditor:
        """Draw the members (Algorithm 1, lines 1 to 8)."""
        with fitting(self, model, data) as fit:
            inverted = fit.invert(self.curvature, self.damping, self.solver)
            drawn = self.resampler.draw(fit.data.units, self.members, generator(self.seed))
            change = drawn.sub_(1)[:, fit.data.unit]  # w − 1, the same for every row of a unit
            pull = weighted_gradients(fit.model, fit.data, change)  # L (w − 1), line 8
            step, residual = inverted.inverse.solve(pull)
            thetas = fit.model.theta.double() - step
            factor = self.resampler.member_factor(fit.data.units)
            members = SampledMembers(thetas, factor)
            solved = Solved(inverted, fit.model, residual)
            return fit.auditor(members, inverted.describe(), solved=solved, drawn=members)
