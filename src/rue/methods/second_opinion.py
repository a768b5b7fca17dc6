"""A second opinion on classes: the probabilities of an honest model, mixed with those of the audited one."""

from dataclasses import dataclass, field, replace
from math import exp

from torch import Tensor

from rue.calibrate.left_out.evidence import Honest
from rue.calibrate.shrinkage import Shrinkage, best_temperature
from rue.core.classify import class_shares, log_likelihood, probability
from rue.core.concepts import Decision, Inputs
from rue.core.nested import joined, leaves
from rue.core.stored import storable
from rue.data.rows import Rows

APART = 0.05  # nats per row: if the model differs so much from the honest one, the weight of its own falls by e


@storable
@dataclass(frozen=True)
class SecondOpinion:
    """The honest model's probabilities, at the temperature that suits its left-out rows, and their share."""

    honest: Honest = field(repr=False)
    unit: float  # a squared temperature
    usual: Tensor = field(repr=False)  # (classes,), their frequencies among the training rows
    rows: int  # training rows; one more row, divided by class frequencies, keeps probabilities away from zero
    share: float = 0.5  # its weight in the averaged probability; the model's own has the rest

    @classmethod
    def of(cls, decision: Decision, honest: Honest, left_out: Tensor, rows: Rows, units: int) -> "SecondOpinion":
        """Fit the temperature to its logits (s, k) of rows that were left out, of so many units in all."""
        targets = targets_of(rows)
        shares = (rows.weight / rows.weight.sum()).to(left_out)
        unit, limit = best_temperature(decision, left_out, targets, shares)
        usual = class_shares(decision, targets, shares, left_out.shape[1])
        return cls(honest, 1.0 if limit else unit, usual, units)

    def beside(self, own: Shrinkage, entropy: float) -> "SecondOpinion":
        """Set the share: half where the model's own probabilities agree, all where they differ much or are useless."""
        apart = max(0.0, own.nll - entropy)
        return replace(self, share=1.0 if own.limit else 1 - 0.5 * exp(-apart / APART))

    def tempered(self, decision: Decision, logits: Tensor) -> Tensor:
        """Probabilities (c, classes) of its logits (c, k)."""
        shares = probability(decision, logits / self.unit**0.5)
        return (self.rows * shares + self.usual.to(shares)) / (self.rows + 1)

    def wanted(self, decision: Decision, logits: Tensor, weight: Tensor) -> tuple[Tensor, float]:
        """Its probabilities as targets for another model, and the least loss that model could reach: their entropy."""
        shares = self.tempered(decision, logits)
        targets = shares[:, 1:] if decision == "signs" and logits.shape[1] == 1 else shares
        weights = (weight / weight.sum()).to(shares)
        return targets, -float(weights @ log_likelihood(decision, shares, targets))

    def probability(self, decision: Decision, inputs: Inputs) -> Tensor:
        """The honest model's own probabilities (c, classes)."""
        return self.tempered(decision, self.honest(inputs))

    def mixed(self, own: Tensor, theirs: Tensor) -> Tensor:
        """The weighted mean (c, classes) of the audited model's probabilities and the honest model's."""
        return (1 - self.share) * own + self.share * theirs


def targets_of(data: Rows) -> Tensor:
    """The labels of training rows: the first part of the targets, which may also hold weights."""
    labels: Tensor = leaves(joined([batch.targets for batch in data.batches()]))[0]
    return labels
