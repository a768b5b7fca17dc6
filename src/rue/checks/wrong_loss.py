"""Looks for another named loss under which the parameters would be at rest."""

from dataclasses import replace
from typing import NamedTuple

from rue.calibrate.left_out.rest import distance, reweighted
from rue.checks.subject import Subject, gauss_newton
from rue.core.errors import RueError
from rue.data.opening import training_rows
from rue.losses import LOSSES
from rue.losses.stated import Scale
from rue.models.torch.module import ModuleCore, plain_module

SMALL = 2_000  # at most so many parameters, because a matrix is factored for each loss
TIMES = 10**0.5  # the other loss must be so many times closer to rest: ten times in the decrement
DIGITS = 6  # distances are rounded to so many digits
CLEARLY = 100.0  # so many times closer, where the stated loss is close to rest as well


class Named(NamedTuple):
    """A loss, and how far from rest the parameters are under it, in typical resampling steps."""

    name: str
    steps: float


def better_loss(subject: Subject, steps: float, close: float) -> Named | None:
    """The loss under which the parameters are at rest; None where there is none, or for an estimator's own loss."""
    core = plain_module(subject.model)
    if core is None or core.theta.numel() > SMALL:
        return None
    others = [Named(name, _steps(subject, core, name)) for name in LOSSES if name != core.loss.name]
    best = min(others, key=lambda other: round(other.steps, DIGITS))  # of equal ones the first
    times = TIMES if steps > close else CLEARLY
    return best if best.steps < min(close, steps / times) else None


def _steps(subject: Subject, core: ModuleCore, name: str) -> float:
    if LOSSES[name].family.coupled:
        return float("inf")
    try:
        plain = Scale(each_output=core.scale.each_output)
        named = replace(core, loss=LOSSES[name], scale=plain, row_shape=None)
        data, other = training_rows(subject.data.source, replace(subject.model, core=named))
        return distance(other, reweighted(other, data, subject.seed), gauss_newton(other, data).inverse).steps
    except RueError:  # the targets or the number of outputs do not suit this loss
        return float("inf")
