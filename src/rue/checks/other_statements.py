"""Looks for other targets, label smoothing, class weights or another centre under which the parameters are at rest.

Each changes the gradient of the objective along a few directions, exactly and not only to first order: the slopes of
these losses are linear in the targets, in the share of smoothing and in the class weights. The best coefficients are
least squares in the metric of the inverse curvature. What was trained leaves nothing of the gradient, in any metric.
"""

from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from rue.calibrate.left_out.rest import penalty_gradient
from rue.checks.subject import Subject
from rue.core.concepts import Decision, Solving
from rue.core.derivatives import loss_gradient, outputs
from rue.core.gradient_sums import pulled_sums
from rue.core.model import Model
from rue.core.nested import take
from rue.models.torch.module import ModuleCore, plain_module

MOST = 10  # directions of one statement at most, because each costs a backward pass over the rows
SAME = 0.01  # a factor that is nearer to one than this, and a share that is nearer to zero, is as stated
TIMES = 50.0  # larger and smaller class weights are not named: a loss that counts for nothing explains any gradient
UNITS = 20.0  # and factors on targets: before its first step a model at zero seems trained on targets of zero
SMOOTHEST = 0.9  # larger shares are not named: before its first step a classifier seems trained on even labels
BETTER = 10.0  # a statement must leave so many times less than some l2 does, because stopping early looks like an l2
SINGULAR = 1e-10  # eigenvalues of a Gram matrix below this part of the largest belong to repeated directions


class OtherStatement(NamedTuple):
    """A statement in words, the share of the decrement that it explains, and how many coefficients it could choose."""

    words: str
    advice: str
    share: float
    directions: int


class Worded(Protocol):
    """Something that may have been stated wrongly."""

    def words(self, coefficients: list[float]) -> str | None:
        """What was trained with; None where it is as stated, or nobody would train so."""
        ...

    @property
    def advice(self) -> str:
        """What to do where the words are right."""
        ...


class Restated(Worded, Protocol):
    """Something about the training rows."""

    def slopes(self, model: Model, predicted: Tensor, targets: Any) -> Tensor:
        """What is added to the slope of the loss, for each coefficient: (q, c, k)."""
        ...


def other_statements(subject: Subject) -> list[OtherStatement]:
    """The statements that make sense here, with the fewest coefficients first; none about estimators.

    Everything about an estimator is read off it, and cannot be stated wrongly.
    """
    core = plain_module(subject.model)
    if core is None or subject.factored.inverse.iterative:  # every direction would need a solve of its own
        return []
    pull = penalty_gradient(subject.model)
    restated = _of_rows(subject, core, bool((pull != 0).any()))
    centre = (core.penalty_scale * core.l2 * core.centre).double()[None]
    if not restated and not bool(centre.any()):
        return []
    gradient, directions = _directions(subject, restated)
    parts = [(gradient + pull)[None], core.theta.double()[None], *directions, centre]
    whole, theta, *others = _measured(subject.factored.inverse, parts)
    statements: list[Worded] = [*restated, TowardsZero()]
    found = [_found(one, whole, rows) for one, rows in zip(statements, others, strict=True)]
    shrunken = explained(whole, theta).share
    told = [one for one in found if one is not None and BETTER * (1 - one.share) < 1 - shrunken]
    return sorted(told, key=lambda one: one.directions)


class InMetric(NamedTuple):
    """Vectors (r, d), and their products with the inverse curvature."""

    rows: Tensor
    solved: Tensor


class Explained(NamedTuple):
    """The share of a decrement that some directions take away at best, and their coefficients."""

    share: float
    coefficients: list[float]


def explained(whole: InMetric, directions: InMetric) -> Explained:
    """The coefficients c (q,) for which the decrement of whole (1, d) + Σ cⱼ directionsⱼ (q, d) is smallest.

    >>> whole, direction = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0, 0.0]])
    >>> share, coefficients = explained(InMetric(whole, whole), InMetric(direction, direction))
    >>> round(share, 6), coefficients
    (0.36, [-1.5])
    """
    gram = directions.rows @ directions.solved.T
    size = gram.diagonal().clamp_min(0).sqrt()
    unit = torch.where(size > 0, 1 / size, 0.0)
    inverted = torch.linalg.pinv(unit[:, None] * gram * unit, rtol=SINGULAR, hermitian=True)
    best = -unit * (inverted @ (unit * (directions.rows @ whole.solved[0])))
    decrement = float(whole.rows[0] @ whole.solved[0])
    rest, solved = (own[0] + best @ others for own, others in zip(whole, directions, strict=True))  # cancel first
    return Explained(1 - max(0.0, float(rest @ solved)) / decrement if decrement > 0 else 0.0, best.tolist())


def _measured(inverse: Solving, parts: list[Tensor]) -> list[InMetric]:
    """All parts by one solve, because each reads the whole factor."""
    solved = inverse.solve(torch.cat(parts)).vectors.split([len(part) for part in parts])
    return [InMetric(*pair) for pair in zip(parts, solved, strict=True)]


def _found(statement: Worded, whole: InMetric, directions: InMetric) -> OtherStatement | None:
    share, coefficients = explained(whole, directions)
    words = statement.words(coefficients)
    return None if words is None else OtherStatement(words, statement.advice, share, len(coefficients))


def _of_rows(subject: Subject, core: ModuleCore, penalised: bool) -> list[Restated]:
    """What can be asked of this loss; nothing of a user's own, whose slopes need not be linear in anything."""
    if core.loss.fit_targets is None:
        return []
    first = next(subject.data.batches())
    k = outputs(subject.model, take(first.inputs, slice(0, 1))).shape[1]
    if core.loss.name in ("squared_error", "poisson"):
        scaled: list[Restated] = [ScaledTargets()]
        return [*scaled, MovedTargets(k)] if core.loss.family.gaussian and 2 * k <= MOST else scaled
    if core.loss.name in ("cross_entropy", "bernoulli"):
        smoothed: list[Restated] = [SmoothedLabels()]
        shares = _class_shares(subject, core, k) if k < MOST else []
        return [*smoothed, WeightedClasses(k, penalised, tuple(shares))] if shares else smoothed
    return []


def _class_shares(subject: Subject, core: ModuleCore, k: int) -> list[float]:
    """The share of every class in what a mean divides by; for yes-or-no outputs that of no and of each yes."""
    total = torch.zeros((), dtype=torch.float64, device=core.theta.device)
    count = core.scale.count if core.reduction == "mean" else None
    for batch in subject.data.batches():
        weight = batch.weight if count is None else batch.weight * count(batch.targets)
        total = total + weight @ _members(batch.targets, k, core.loss.family.decision).sum(-1).T.double()
    return (total / total.sum()).tolist()


def _members(targets: Tensor, k: int, decision: Decision | None) -> Tensor:
    """Which outputs' slopes belong to each class: (classes, c, k), all of a row's, or each output's yes and the no."""
    if decision == "largest":
        shares = targets if targets.is_floating_point() else one_hot(targets, k)
        return shares.T[..., None].expand(-1, -1, k)
    yes = targets.reshape(-1, k) * torch.eye(k).to(targets)[:, None]
    return torch.cat([1 - yes.sum(0, keepdim=True), yes])


def _directions(subject: Subject, restated: list[Restated]) -> tuple[Tensor, list[Tensor]]:
    """The gradient of the loss (d,), and for every statement its directions (q, d)."""
    model = subject.model

    def parts(predicted: Tensor, targets: Any) -> list[Tensor]:
        return [one.slopes(model, predicted, targets) for one in restated]

    def cotangents(predicted: Tensor, targets: Any) -> Tensor:
        return torch.cat([loss_gradient(model, predicted, targets)[None], *parts(predicted, targets)])

    first = next(subject.data.batches())
    few = [take(each, slice(0, 2)) for each in (first.inputs, first.targets)]
    sizes = [len(part) for part in parts(outputs(model, few[0]), few[1])]
    sums = pulled_sums(model, subject.data, cotangents)
    return sums[0], list(sums[1:].split(sizes))


@dataclass(frozen=True)
class ScaledTargets:
    """Training had targets that are a factor times those given: f − αy = (f − y) + (1 − α)y."""

    advice = "give the targets in the units of training (currency, logarithm, scale)"

    def slopes(self, model: Model, predicted: Tensor, targets: Any) -> Tensor:  # noqa: ARG002  every statement has this form
        """The targets themselves."""
        return targets.reshape(1, *predicted.shape)

    def words(self, coefficients: list[float]) -> str | None:
        """The factor, and the bases of logarithms that have it."""
        factor = 1 - coefficients[0]
        if not 1 / UNITS <= factor <= UNITS or abs(factor - 1) < SAME:
            return None
        bases = next((said for other, said in LOGARITHMS.items() if abs(factor / other - 1) < SAME / 10), "")
        return f"targets {factor:.4g} times those given{bases}"


LOGARITHMS = {
    log(a) / log(b): f" (logarithms of base {named[0]} are given, and those of training had base {named[1]})"
    for a, b, named in (
        (2.0, 2.718281828459045, ("2", "e")),
        (2.718281828459045, 2.0, ("e", "2")),
        (10.0, 2.718281828459045, ("10", "e")),
        (2.718281828459045, 10.0, ("e", "10")),
        (2.0, 10.0, ("2", "10")),
        (10.0, 2.0, ("10", "2")),
    )
}


@dataclass(frozen=True)
class MovedTargets:
    """Training had other units and another zero for each of k outputs: f − (αy + β) = (f − y) + (1 − α)y − β."""

    k: int
    advice = "give the targets in the units of training, and with their zero (standardised, if they were)"

    def slopes(self, model: Model, predicted: Tensor, targets: Any) -> Tensor:  # noqa: ARG002  every statement has this form
        """The targets of each output, then ones for each."""
        each = torch.eye(self.k).to(predicted)[:, None]
        return torch.cat([each * targets.reshape(predicted.shape), each.expand(-1, len(predicted), -1)])

    def words(self, coefficients: list[float]) -> str | None:
        """Factor and shift of every output."""
        factors = [1 - one for one in coefficients[: self.k]]
        shifts = [-one for one in coefficients[self.k : 2 * self.k]]
        if not all(1 / UNITS <= factor <= UNITS for factor in factors):
            return None
        said = [f"{factor:.4g} times those given {shift:+.4g}" for factor, shift in zip(factors, shifts, strict=True)]
        return f"targets {', '.join(said)}"


@dataclass(frozen=True)
class SmoothedLabels:
    """Training mixed a share ε of even labels into those given: the slope is (1 − ε)·slope + ε·(slope of even ones)."""

    advice = "state the label smoothing of training: loss=torch.nn.CrossEntropyLoss(label_smoothing=...)"

    def slopes(self, model: Model, predicted: Tensor, targets: Any) -> Tensor:
        """From the labels to even ones."""
        even = 1 / predicted.shape[1] if model.family.decision == "largest" else 0.5
        other = loss_gradient(model, predicted, torch.full_like(predicted, even))
        return (other - loss_gradient(model, predicted, targets))[None]

    def words(self, coefficients: list[float]) -> str | None:
        """The share; below zero where more smoothing is stated than was trained with."""
        share = coefficients[0]
        if not SAME < abs(share) < SMOOTHEST:
            return None
        return f"labels smoothed by {share:.3g}" if share > 0 else "labels smoothed less than is stated"


@dataclass(frozen=True)
class WeightedClasses:
    """Training multiplied the loss by a weight for each class; for yes-or-no outputs, that of each output's yes.

    Without a penalty only ratios of weights matter, and the first stays as it is. Beside one all are found, and must
    be as people choose them: one class counts as stated, or all do on average. Other weights are another penalty.
    """

    k: int
    penalised: bool
    shares: tuple[float, ...]  # of the classes in a mean
    advice = (
        "state the class weights of training, or leave them out if it had none: "
        "loss=torch.nn.CrossEntropyLoss(weight=...), torch.nn.BCEWithLogitsLoss(pos_weight=...)"
    )

    def slopes(self, model: Model, predicted: Tensor, targets: Any) -> Tensor:
        """The slope at rows of one class, for each class."""
        slope = loss_gradient(model, predicted, targets)
        parts = _members(targets, self.k, model.family.decision) * slope
        return parts if self.penalised else parts[1:]

    def words(self, coefficients: list[float]) -> str | None:
        """The weights as multiples of the first."""
        weights = [1 + one for one in coefficients]
        weights = weights if self.penalised else [1.0, *weights]
        if not all(1 / TIMES <= weight <= TIMES for weight in weights) or max(weights) < (1 + SAME) * min(weights):
            return None
        average = sum(share * weight for share, weight in zip(self.shares, weights, strict=True))
        if all(abs(weight - 1) > SAME for weight in (*weights, average)):
            return None
        ratios = " : ".join(f"{weight / weights[0]:.3g}" for weight in weights)
        return f"class weights {ratios} beside those stated"


@dataclass(frozen=True)
class TowardsZero:
    """The penalty pulled to zero, and a centre is stated."""

    advice = "leave centre= away"

    def words(self, coefficients: list[float]) -> str | None:
        """Only where the whole centre has to be taken away."""
        whole = abs(coefficients[0] - 1) < SAME
        return "the stated penalty, pulling to zero and not to the centre" if whole else None
