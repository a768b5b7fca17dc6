"""Bootstrap SGD: one gradient step on a resampled training set, without curvature."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from rue.auditing.auditor import Auditor
from rue.auditing.meaning import Meaning, SpreadMeaning
from rue.core.concepts import Resampler
from rue.core.errors import SettingError
from rue.core.gradient_sums import weighted_gradients
from rue.core.model import Model
from rue.core.resample import Multinomial, generator
from rue.methods.ensemble import SampledMembers, check_members
from rue.methods.fitting import fitting

MEANING = Meaning(
    spread=SpreadMeaning(
        "Members'",
        "The spread of {what} after one gradient step on resampled training rows.",
        "How far training would go: the size goes by the length of the step, and only the order has a meaning.",
        "The spread is that of one gradient step on resampled training rows: its size goes by the length of the step.",
    )
)


@dataclass(frozen=True)
class BootstrapSGD:
    """The paper's first-order baseline, θ* = θ̂ − η L w, with w where RUE has w − 1. `score` is the members' std."""

    members: int = 200
    seed: int = 0
    step: float = 0.001  # the learning rate of training: section 4.1
    resampler: Resampler = field(default_factory=Multinomial)
    meaning: ClassVar[Meaning] = MEANING

    def __post_init__(self) -> None:
        check_members(self.members)
        if not 0 < self.step < float("inf"):
            raise SettingError(f"step must be a positive number, the learning rate, got {self.step}")

    def fit(self, model: Model, data: Any) -> Auditor:
        """Draw the members."""
        with fitting(self, model, data) as fit:
            drawn = self.resampler.draw(fit.data.units, self.members, generator(self.seed))
            pull = weighted_gradients(fit.model, fit.data, drawn[:, fit.data.unit])
            thetas = fit.model.theta.double() - self.step * pull
            factor = self.resampler.member_factor(fit.data.units)
            members = SampledMembers(thetas, factor)
            return fit.auditor(members, {}, drawn=members)
