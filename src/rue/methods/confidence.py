"""A classifier's own confidence: the baselines that every audit of a classifier has to beat."""

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from rue.auditing.assessment import Assessment, ClassShares
from rue.auditing.auditor import Auditor
from rue.calibrate.shrinkage import best_temperature
from rue.core.classify import averaged, entropy, wrong
from rue.core.concepts import Decision, Inputs
from rue.core.curvature import GaussNewton
from rue.core.derivatives import outputs
from rue.core.errors import SettingError
from rue.core.model import Model
from rue.core.nested import leaves
from rue.core.one_step import left_out
from rue.core.stored import storable
from rue.methods.classifier_rue import classifier
from rue.methods.fitting import Fitting, fitting


@dataclass(frozen=True)
class Confidence:
    """`score` is one minus the largest probability ("largest": maximum softmax), or the entropy of the probabilities.

    `tempered` divides the logits by a temperature first (Guo et al. 2017), fitted to left-out training rows.
    """

    by: Literal["largest", "entropy"] = "largest"
    tempered: bool = False

    def __post_init__(self) -> None:
        if self.by not in ("largest", "entropy"):
            raise SettingError(
                f'by must be "largest" (one minus the largest probability) or "entropy", got {self.by!r}'
            )

    def fit(self, model: Model, data: Any) -> Auditor:
        """Fit the temperature, if there is one."""
        with fitting(self, model, data, project=self.tempered) as fit:
            decision = classifier(fit.model, "Confidence")
            unit = _unit(fit, decision) if self.tempered else 1.0
            return fit.auditor(OwnConfidence(decision, self.by, unit), {"temperature": unit**0.5})


@storable
@dataclass(frozen=True)
class OwnConfidence:
    """The probabilities that the logits give, after division by a temperature."""

    decision: Decision
    by: Literal["largest", "entropy"]
    unit: float = field(repr=False)  # a squared temperature

    def of_sums(self) -> "OwnConfidence":
        """Itself: nothing in it is of a single row."""
        return self

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Probabilities and their score; there is no covariance."""
        logits = outputs(model, inputs).double()
        k = logits.shape[1]
        shares = averaged(self.decision, logits, logits.new_zeros(len(logits), k, k), self.unit)
        largest = self.by == "largest"
        score = wrong(self.decision, shares, logits) if largest else entropy(self.decision, shares, k)
        return Assessment(logits, score=score, classes=ClassShares(shares))


def _unit(fit: Fitting, decision: Decision) -> float:
    """A squared temperature by leave-one-out."""
    rows = fit.data.sample
    left = left_out(fit.model, rows, fit.invert(GaussNewton(), None, None).inverse)
    targets = torch.cat([leaves(batch.targets)[0] for batch in rows.batches()])
    unit, limit = best_temperature(decision, left.prediction, targets, rows.weight.to(left.prediction))
    return 1.0 if limit else unit
