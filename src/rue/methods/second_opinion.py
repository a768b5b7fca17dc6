"""What an honest model says of classes, beside the audited one."""

from dataclasses import dataclass, field, replace
from math import exp

from torch import Tensor

from rue.calibrate.left_out.evidence import Honest
from rue.calibrate.left_out.witness import joined
from rue.calibrate.shrinkage import Shrinkage, best_temperature
from rue.core.classify import class_shares, log_likelihood, probability
from rue.core.concepts import Decision, Inputs
from rue.core.nested import leaves
from rue.data.rows import Rows

APART = 0.05  # nats a row between the model's own probabilities and an honest model's: their share falls by e


@dataclass(frozen=True)
class SecondOpinion:
    """Probabilities of the honest model, at the temperature its left-out rows ask for, and what they count."""

    honest: Honest = field(repr=False)
    unit: float  # a squared temperature
    usual: Tensor = field(repr=False)  # (classes,), how often they are among the training rows
    rows: int  # it learnt from: with one more of the usual kind, it is never surer than so many can make it
    share: float = 0.5  # of the averaged probability; the model's own have the rest

    @classmethod
    def of(cls, decision: Decision, honest: Honest, left_out: Tensor, data: Rows) -> "SecondOpinion":
        """At the temperature that its left-out logits (n, k) ask for."""
        targets = targets_of(data)
        shares = (data.weight / data.weight.sum()).to(left_out)
        unit, limit = best_temperature(decision, left_out, targets, shares)
        usual = class_shares(decision, targets, shares, left_out.shape[1])
        return cls(honest, 1.0 if limit else unit, usual, data.units)

    def beside(self, own: Shrinkage, entropy: float) -> "SecondOpinion":
        """Half where the model's own agree, all where they are far from it, or say nothing."""
        apart = max(0.0, own.nll - entropy)
        return replace(self, share=1.0 if own.limit else 1 - 0.5 * exp(-apart / APART))

    def tempered(self, decision: Decision, logits: Tensor) -> Tensor:
        """Probabilities (c, classes) of its logits (c, k)."""
        said = probability(decision, logits / self.unit**0.5)
        return (self.rows * said + self.usual.to(said)) / (self.rows + 1)

    def wanted(self, decision: Decision, logits: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        """Its probabilities as targets that another model is to agree with, and the least loss that one could have."""
        said = self.tempered(decision, logits)
        targets = said[:, 1:] if decision == "signs" and logits.shape[1] == 1 else said
        share = (weight / weight.sum()).to(said)
        return targets, -float(share @ log_likelihood(decision, said, targets))

    def probability(self, decision: Decision, inputs: Inputs) -> Tensor:
        """What it says itself: (c, classes)."""
        return self.tempered(decision, self.honest(inputs))

    def mixed(self, own: Tensor, said: Tensor) -> Tensor:
        """Probabilities (c, classes) between the audited model's and those it said."""
        return (1 - self.share) * own + self.share * said


def targets_of(data: Rows) -> Tensor:
    """Labels of all training rows; where they are weighted, weights come after them."""
    found: Tensor = leaves(joined([batch.targets for batch in data.batches()]))[0]
    return found
