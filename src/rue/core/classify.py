"""From logits and their covariance under resampling to averaged probabilities and the chance of another decision.

There are four kinds of `Decision`. "signs": every logit decides one yes-or-no label by its sign. "largest": the
largest of k logits decides one of k classes; only differences of logits matter. "ordered": k logits with
P(y > j) = σ(f_j) decide one of k + 1 ordered classes. "shares": the outputs are the probabilities of k classes
themselves, as in a forest.
"""

from math import pi

import torch
from torch import Tensor

from rue.core.concepts import Decision

TINY = 1e-30  # replaces zero in divisions and logarithms


def probability(decision: Decision, logits: Tensor) -> Tensor:
    """Probabilities of the classes from logits (c, k): (c, k), (c, 2) for one logit, (c, k + 1) for ordered ones.

    >>> probability("signs", torch.zeros(1, 1))
    tensor([[0.5000, 0.5000]])
    """
    if decision == "largest":
        return logits.softmax(-1)
    if decision == "shares":
        inside = logits.clamp_min(0)
        return inside / inside.sum(-1, keepdim=True)
    return _from_shares(decision, logits.sigmoid())


def averaged(decision: Decision, logits: Tensor, covariance: Tensor, unit: Tensor | float = 1.0) -> Tensor:
    """The mean of `probability` over normally distributed logits, in closed form.

    It is MacKay's approximation for one logit, and for several the one of Lu, Ie and Sha (2020) over all pairs of
    classes. Margins are divided by the square root of `unit` + π/8 times their variance; a unit other than one is a
    squared temperature.

    >>> averaged("signs", torch.tensor([[2.0]]), torch.tensor([[[4.0]]])).round(decimals=2)
    tensor([[0.2200, 0.7800]])
    """
    if decision == "largest":
        margin = logits.unsqueeze(-1) - logits.unsqueeze(-2)
        shrunk = margin / (unit + pi / 8 * pair_variance(covariance)).sqrt()
        return torch.softmax(-(-shrunk).logsumexp(-1), -1)
    if decision == "shares":
        return probability(decision, logits)
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    return _from_shares(decision, (logits / (unit + pi / 8 * variance).sqrt()).sigmoid())


def sampled(decision: Decision, logits: Tensor, covariance: Tensor, members: int, generator: torch.Generator) -> Tensor:
    """The same mean as `averaged`, estimated from `members` draws of the logits."""
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors * values.clamp_min(0).sqrt().unsqueeze(-2)  # (c, k, k), root rootᵀ = covariance
    total = torch.zeros_like(probability(decision, logits))
    for _ in range(members):
        noise = torch.randn(logits.shape, generator=generator, dtype=torch.float64).to(logits)
        total += probability(decision, logits + (root @ noise.unsqueeze(-1)).squeeze(-1))
    return total / members


def flip_probability(decision: Decision, logits: Tensor, covariance: Tensor) -> Tensor:
    """The chance that another training set would have changed this decision: (c,).

    For k classes it is the chance that the likeliest rival wins; for several yes-or-no labels, that any one changes.

    >>> flip_probability("signs", torch.tensor([[1.0]]), torch.tensor([[[1.0]]])).round(decimals=4)
    tensor([0.1587])
    """
    if decision in ("largest", "shares"):
        top, first = logits.max(-1, keepdim=True)
        at = first.unsqueeze(-1).expand(-1, 1, logits.shape[-1])
        variance = pair_variance(covariance).gather(-2, at).squeeze(-2)
        return _crossing(top - logits, variance).scatter(-1, first, 0.0).amax(-1)
    crossing = _crossing(logits.abs(), covariance.diagonal(dim1=-2, dim2=-1))
    return crossing.amax(-1) if decision == "ordered" else 1 - (1 - crossing).prod(-1)


def epistemic(decision: Decision, logits: Tensor, covariance: Tensor) -> Tensor:
    """½ tr(ΛΣ) (c,): the part of the entropy, in nats, due to the training set, to second order in the spread."""
    if decision == "ordered":
        return 0.5 * (_ordered_information(logits) * covariance).sum((-2, -1))
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    if decision == "shares":
        return 0.5 * (variance / logits.clamp_min(TINY)).where(logits > 0, 0.0).sum(-1)
    share = logits.softmax(-1) if decision == "largest" else logits.sigmoid()
    if decision == "signs":
        return 0.5 * (share * (1 - share) * variance).sum(-1)
    together = torch.einsum("ci,cij,cj->c", share, covariance, share)
    return 0.5 * ((share * variance).sum(-1) - together)


def alternatives(decision: Decision, shares: Tensor, k: int) -> Tensor:
    """Probabilities (c, questions, answers): one question, or one for each of k labels that may hold together."""
    if decision == "signs" and k > 1:
        return torch.stack([1 - shares, shares], -1)
    return shares.unsqueeze(-2)


def wrong(decision: Decision, shares: Tensor, logits: Tensor) -> Tensor:
    """The probability (c,) that the decision of logits (c, k) is wrong, from probabilities (c, classes)."""
    chosen = decided(decision, logits)
    answers = alternatives(decision, shares, logits.shape[-1])
    return 1 - answers.gather(-1, chosen.reshape(*answers.shape[:-1], 1)).squeeze(-1).prod(-1)


def log_likelihood(decision: Decision, shares: Tensor, targets: Tensor) -> Tensor:
    """Log probability (c,) of targets in the form the loss takes: labels (c,), or probabilities."""
    if decision == "signs":
        k = targets.shape[-1]
        logs = alternatives(decision, shares, k).clamp_min(TINY).log()
        yes = targets.to(shares)
        return (torch.stack([1 - yes, yes], -1) * logs).sum((-2, -1))
    logs = shares.clamp_min(TINY).log()
    if targets.is_floating_point():
        return (targets * logs).sum(-1)
    return logs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def class_shares(decision: Decision, targets: Tensor, weight: Tensor, k: int) -> Tensor:
    """The weighted frequency of each class among the targets, for weights (n,) that sum to one: (classes,).

    >>> class_shares("largest", torch.tensor([0, 1, 1, 1]), torch.full((4,), 0.25), 2)
    tensor([0.2500, 0.7500])
    """
    if targets.dim() == 1:
        return weight.new_zeros(k).index_add_(0, targets, weight)
    yes = (weight[:, None] * targets.to(weight)).sum(0)
    return torch.cat([1 - yes, yes]) if decision == "signs" and k == 1 else yes


def entropy(decision: Decision, shares: Tensor, k: int) -> Tensor:
    """The entropy (c,) in nats of probabilities (c, classes) that come from k logits."""
    answers = alternatives(decision, shares, k)
    return -torch.special.xlogy(answers, answers).sum((-2, -1))


def decided(decision: Decision, logits: Tensor) -> Tensor:
    """The class (c,) that the logits decide for; (c, k) for several yes-or-no labels."""
    if decision in ("largest", "shares"):
        return logits.argmax(-1)
    above = (logits > 0).long()
    if decision == "ordered":
        return above.sum(-1)
    return above.squeeze(-1) if logits.shape[-1] == 1 else above


def pair_variance(covariance: Tensor) -> Tensor:
    """Variances of the differences of all pairs of logits: (c, k, k)."""
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    return (variance.unsqueeze(-1) + variance.unsqueeze(-2) - covariance - covariance.mT).clamp_min(0)


def _crossing(margin: Tensor, variance: Tensor) -> Tensor:
    """The chance that a normal variable with mean `margin` ≥ 0 and this variance falls below zero."""
    return torch.special.ndtr(-margin / variance.clamp_min(TINY).sqrt())


def _from_shares(decision: Decision, shares: Tensor) -> Tensor:
    """Class probabilities from the k probabilities of "yes": (c, k) -> (c, classes)."""
    if decision == "signs":
        return torch.cat([1 - shares, shares], -1) if shares.shape[-1] == 1 else shares
    edges = [torch.ones_like(shares[..., :1]), shares, torch.zeros_like(shares[..., :1])]
    steps = (-torch.cat(edges, -1).diff(dim=-1)).clamp_min(0)
    return steps / steps.sum(-1, keepdim=True)


def _ordered_information(logits: Tensor) -> Tensor:
    """Fisher's information of ordered classes about their logits: (c, k, k)."""
    rise = logits.sigmoid() * (1 - logits.sigmoid())
    k = logits.shape[-1]
    moves = torch.zeros(*logits.shape[:-1], k + 1, k, dtype=logits.dtype, device=logits.device)
    at = torch.arange(k, device=logits.device)
    moves[..., at, at], moves[..., at + 1, at] = -rise, rise  # P(y = j) falls and P(y = j + 1) rises with f_j
    shares = probability("ordered", logits).clamp_min(1e-12)
    return moves.mT @ (moves / shares.unsqueeze(-1))
