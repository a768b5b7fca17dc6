"""Does a regression repeat its training rows? With as many parameters as rows, its residuals say nothing."""

import torch

from rue.checks.check import Check, Senseless
from rue.checks.subject import Subject
from rue.core.derivatives import loss_gradient, outputs

NAME = "interpolation"
REPEATED = 0.01  # residuals below this part of the targets' deviation: a rerun of the targets, not a fit of them
LIMITS = (
    "red where there are at least as many parameters as training rows, and residuals are smaller than "
    f"{REPEATED:.0%} of the targets' deviation; fewer parameters with such residuals tell of data without noise"
)
_ADVICE = (
    "re-weighting rows that are fitted exactly moves nothing, so that std and noise_std are far too small whatever the "
    "model has learnt; give held-out rows (auditor.calibrate), or train on fewer columns or with a larger penalty"
)


def interpolation(subject: Subject) -> Check | str:
    """Compare the residuals of a regression that is linear in its parameters with the deviation of its targets."""
    family, n = subject.model.family, int((subject.data.weight > 0).sum())
    if not (family.gaussian and family.gradients and family.joint) or family.grown:
        return Senseless("only least squares repeats its rows when it has as many parameters")
    if subject.stated_by_user or subject.may_stop_early:
        return Senseless("networks have many parameters, and residuals that are measured otherwise")
    d = (subject.model.behind or subject.model.core).theta.numel()
    size = _residual(subject) if d >= n else 1.0
    red = size < REPEATED
    found = f"d = {d} parameters for n = {n} training rows" if d >= n else f"d = {d} parameters are fewer than n = {n}"
    if red:
        found += f" repeat the targets exactly, within {size:.1g} of their deviation"
    return Check(NAME, "red" if red else "green", size, found, LIMITS, _ADVICE if red else "")


def _residual(subject: Subject) -> float:
    """The root mean square of the residuals, in deviations of the targets."""
    residuals, targets = [], []
    for batch in subject.data.batches():
        predicted = outputs(subject.model, batch.inputs)
        residual = loss_gradient(subject.model, predicted, batch.targets)
        counted = batch.weight > 0
        residuals.append(residual[counted].double())
        targets.append((predicted - residual)[counted].double())
    deviation = torch.cat(targets).std(0, correction=0).clamp_min(1e-300)
    return float((torch.cat(residuals).square().mean(0).sqrt() / deviation).max())
