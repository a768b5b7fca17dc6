"""Honest models at new inputs: a refitted tangent, or a mixture of two honest models."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rue.calibrate.left_out.evidence import Honest
from rue.calibrate.left_out.tangent import Tangent
from rue.core.classify import log_likelihood, probability
from rue.core.concepts import Decision, Inputs
from rue.core.derivatives import outputs
from rue.core.stored import storable

LEAST = 1e-12  # smallest probability, before it becomes a logit
SHARES = 41  # number of shares of the first model that are tried, from 0 to 1


@storable
@dataclass(frozen=True)
class OfTangent:
    """Predicts with the refitted tangent."""

    tangent: Tangent = field(repr=False)

    def __call__(self, inputs: Inputs) -> Tensor:
        """Outputs (c, k) in float64."""
        return outputs(self.tangent, inputs).double()


@storable
@dataclass(frozen=True)
class Mixed:
    """A mixture of two honest models: of their outputs, or of their class probabilities."""

    first: Honest
    second: Honest
    share: float
    decision: Decision | None

    def __call__(self, inputs: Inputs) -> Tensor:
        """Outputs (c, k) in float64."""
        return mixed(self.decision, self.first(inputs), self.second(inputs), self.share)


def mixed(decision: Decision | None, first: Tensor, second: Tensor, share: float) -> Tensor:
    """The mixture of two outputs (c, k): of the numbers, or the logits of the mixture of probabilities.

    >>> mixed(None, torch.tensor([[1.0]]), torch.tensor([[3.0]]), 0.25)
    tensor([[2.5000]])
    """
    if decision is None or share in (0.0, 1.0):
        return share * first + (1 - share) * second
    if decision == "largest":
        return (share * first.softmax(-1) + (1 - share) * second.softmax(-1)).clamp_min(LEAST).log()
    return torch.logit(share * first.sigmoid() + (1 - share) * second.sigmoid(), eps=LEAST)


def share_of_first(decision: Decision | None, first: Tensor, second: Tensor, targets: Any, weight: Tensor) -> float:
    """The share of the first model for which the mixture of left-out outputs (n, k) is best."""
    if decision is None:
        apart, missed = first - second, targets - second
        least = weight @ missed.square()  # scales every output, so that their units do not matter
        counts = weight[:, None] / torch.where(least > 0, least, 1.0)
        square = float((counts * apart.square()).sum())
        best = float((counts * apart * missed).sum()) / square if square > 0 else 1.0
        return min(1.0, max(0.0, best))

    def likelihood(share: float) -> float:
        shares = probability(decision, mixed(decision, first, second, share))
        return float(weight @ log_likelihood(decision, shares, targets))

    return max(torch.linspace(0, 1, SHARES).tolist(), key=likelihood)
