"""Does the model fit its training rows better than a constant? With shuffled targets or other rows it does not."""

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rue.calibrate.left_out.rest import CLOSE
from rue.checks.at_rest import at_rest
from rue.checks.check import Check, Light, Senseless
from rue.checks.subject import Subject
from rue.core.arrays import Array
from rue.core.classify import class_shares
from rue.core.derivatives import outputs
from rue.core.errors import RueError
from rue.core.model import Model
from rue.core.nested import joined, leaves

NAME = "training fit"
ERRORS = 2.0  # standard errors of the difference: 2 to 3 % of models without skill exceed it on either side
SURE = 3.0  # standard errors by which outputs that vary less must be better
CALMER = 0.8  # of the variation of the outputs: what was trained on these rows would not fit them better so
MATTERS = 1e-3  # smaller differences, relative to the constant's loss, do not matter, however significant
SLOPE = 1e-5  # of a mean log likelihood by a logit, in float32: a difference of a millionth of a nat or less
WALL = 1e6  # stands for a loss that does not exist, times the loss at the start; finite for the line search
FARTHEST = 1e6  # units of the outputs that a constant is searched within: a wrong loss may have no minimum
LIMITS = (
    f"green where the model beats the best constant output by more than {ERRORS:g} standard errors of the difference "
    f"over the rows; red where the constant beats the model by that much and by {MATTERS:.1%} of its loss, and the "
    "objective is not at rest on these rows, or where outputs that vary a fifth less would be better by "
    f"{SURE:g} standard errors; amber between"
)


def training_fit(subject: Subject) -> Check | str:
    """Compare the mean loss of the training rows with that of the best constant."""
    model, data = subject.model, subject.data
    if model.family.coupled:
        return Senseless("the loss of a row depends on the other rows: no constant can be compared row by row")
    batches = [(outputs(model, batch.inputs), batch.targets, batch.weight) for batch in data.batches()]
    constant = best_constant(model, batches)
    total = float(data.weight.sum())
    centre = (
        torch.as_tensor(sum((weights[:, None] * predicted.double()).sum(0) for predicted, _, weights in batches))
        / total
    )
    own, flat, calmer, weight = [], [], [], []
    with torch.no_grad():
        for predicted, targets, weights in batches:
            calm = centre + CALMER * (predicted.double() - centre)
            calmer.append(model.loss(calm.to(predicted), targets).double())
            own.append(model.loss(predicted, targets).double())
            flat.append(model.loss(constant.to(predicted).expand_as(predicted), targets).double())
            weight.append(weights)
    losses, others, shares = torch.cat(own), torch.cat(flat), torch.cat(weight) / total
    gain, less = _gain(others - losses, shares), _gain(losses - torch.cat(calmer), shares)
    size = float((shares * others.abs()).sum())
    light: Light = "green" if gain.score > ERRORS else "amber"
    advice, more = "" if light == "green" else _AMBER, ""
    if gain.score < -ERRORS and -gain.mean > MATTERS * size:
        light, advice = ("amber", _HELD) if _rests(subject) else ("red", _RED)
    elif model.family.gradients and less.score > SURE and less.mean > MATTERS * size and not _rests(subject):
        more = f"; outputs that vary {1 - CALMER:.0%} less would lose {less.mean:.3g} ± {less.error:.2g} less"
        light, advice = "red", _TOO_BOLD
    return Check(
        NAME,
        light,
        gain.score,
        f"the mean loss of n = {data.n} training rows is {float((shares * losses).sum()):.3g}, that of the best "
        f"constant {float((shares * others).sum()):.3g}: a difference of {gain.mean:.3g} ± {gain.error:.2g} (standard "
        f"error){more}",
        LIMITS,
        advice,
    )


class Gain(NamedTuple):
    """The weighted mean of differences between losses, and its standard error."""

    mean: float
    error: float

    @property
    def score(self) -> float:
        """The mean in standard errors."""
        return self.mean / self.error if self.error > 0 else 0.0


def _gain(better: Tensor, shares: Tensor) -> Gain:
    mean = float((shares * better).sum())
    return Gain(mean, sqrt(float((shares.square() * (better - mean).square()).sum())))


_AMBER = "the model says little more of its training rows than a constant: check that it was trained, and on these rows"
_HELD = (
    "the model is at rest on these rows, and still a constant fits them better: its penalty, or a missing intercept, "
    "keeps it from one; leave the bias out of the penalty, or centre the targets"
)
_TOO_BOLD = (
    "training would have made the outputs vary less: these are other rows or targets than those of training, or it "
    "began from something else (base_margin, init_score, a baseline) that predictions leave out"
)
_RED = "targets and inputs do not belong together: check the order of rows and targets, their scaling and the weights"


def _rests(subject: Subject) -> bool:
    """Whether the objective is at rest on these rows: then they are the training rows with the right targets."""
    if subject.without_objective is not None:
        return False
    try:
        check = at_rest(subject, other_losses=False)
    except RueError:
        return False
    return isinstance(check, Check) and check.value is not None and check.value <= CLOSE


def best_constant(model: Model, batches: list[tuple[Tensor, Any, Tensor]]) -> Tensor:
    """The outputs (k,) that fit all rows best when every row gets the same.

    The search is in units of the model's outputs and loss, so that the result does not depend on the targets' units.
    """
    predicted, weight = (torch.cat([batch[part] for batch in batches]).detach() for part in (0, 2))
    targets = joined([targets for _, targets, _ in batches])  # many small batches take longer than one
    shares = (weight / weight.sum())[:, None]
    start = (shares * predicted.double()).sum(0)
    unit = (shares * predicted.double().square()).sum(0).sqrt()
    unit = torch.where(unit > 0, unit, 1.0)

    def mean_loss(constant: Tensor) -> Tensor:
        losses = model.loss(constant.to(predicted.dtype).expand_as(predicted), targets)
        return (shares[:, 0] * losses.double()).sum()

    with torch.enable_grad():
        usual = _of_frequencies(model, targets, shares[:, 0], len(start))
        if usual is not None and _is_least(mean_loss, usual):
            return usual
        return start + unit * _least(lambda moved: mean_loss(start + unit * moved), unit)


def _of_frequencies(model: Model, targets: Any, shares: Tensor, k: int) -> Tensor | None:
    """The logits of the frequencies of the classes (k,), which are the best constant of a plain likelihood."""
    labels = leaves(targets)[0]
    if model.family.decision != "largest" or labels.dim() != 1:
        return None
    frequencies = class_shares("largest", labels, shares, k)
    return frequencies.log() if bool((frequencies > 0).all()) else None


def _is_least(objective: Callable[[Tensor], Tensor], point: Tensor) -> bool:
    """Whether a convex objective has no slope at a point."""
    at = point.detach().requires_grad_()
    (slope,) = torch.autograd.grad(objective(at), at)
    return bool(slope.abs().max() <= SLOPE)


def _least(objective: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """The minimum of an objective, searched from zero; where the objective does not exist it counts as `WALL`."""
    from scipy.optimize import minimize

    with torch.no_grad():
        size = abs(float(objective(torch.zeros_like(like)))) or 1.0

    def evaluated(point: Array) -> tuple[float, Array]:
        moved = torch.from_numpy(point).to(like).requires_grad_()
        try:
            value = objective(moved) / size
        except RueError:  # the thresholds of an ordinal model cross
            return WALL, np.zeros_like(point)
        if not bool(torch.isfinite(value)):  # a loss without a lower limit, or outside of its range
            return WALL, np.zeros_like(point)
        (slope,) = torch.autograd.grad(value, moved)
        return float(value.detach()), slope.double().cpu().numpy()

    found = minimize(
        evaluated,
        np.zeros(len(like)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-FARTHEST, FARTHEST)] * len(like),
        options={"gtol": 1e-9, "ftol": 0, "maxiter": 100},
    )
    return torch.from_numpy(found.x).to(like)
