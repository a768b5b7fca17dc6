"""Another named loss under which the parameters would be at rest."""

from dataclasses import replace
from typing import NamedTuple

from rue.calibrate.left_out.rest import distance, reweighted
from rue.checks.subject import Subject, gauss_newton
from rue.core.errors import RueError
from rue.data.rows import training_rows
from rue.losses import LOSSES
from rue.losses.torch_losses import Scale
from rue.models.torch.module import ModuleCore, plain_module

SMALL = 2_000  # parameters: each loss has its own matrix to factor
TIMES = 10**0.5  # closer than under the stated loss, where that is not close: ten times in the decrement
DIGITS = 6  # of a step: less is rounding
CLEARLY = 100.0  # closer, where the stated one is close as well


class Named(NamedTuple):
    """A loss, and how far from rest the parameters are under it, in typical resampling steps."""

    name: str
    steps: float


def better_loss(subject: Subject, steps: float, close: float) -> Named | None:
    """The loss that explains where the parameters are; None where none does, or the loss is the estimator's own."""
    core = plain_module(subject.model)
    if core is None or core.theta.numel() > SMALL:
        return None
    others = [Named(name, _steps(subject, core, name)) for name in LOSSES if name != core.loss.name]
    best = min(others, key=lambda one: round(one.steps, DIGITS))  # losses that are the same here: the first of them
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
    except RueError:  # targets, or a number of outputs, that are not this loss's
        return float("inf")
