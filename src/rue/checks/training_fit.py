"""Does the model fit its own training rows better than a constant? Shuffled targets and foreign rows do not."""

from math import sqrt
from typing import Any

import torch
from torch import Tensor

from rue.checks.check import Check, Light
from rue.checks.subject import Subject
from rue.concepts import Model
from rue.derivatives import outputs

NAME = "training fit"
ERRORS = 2.0  # standard errors of the difference: 2 to 3 % of models without any skill would be beyond it, either side
LIMITS = (
    f"green where the model beats the best constant output by more than {ERRORS:g} standard errors of the difference "
    f"over the rows, red where the constant beats the model by that much, amber between"
)


def training_fit(subject: Subject) -> Check | str:
    """Mean loss of the rows against that of the best constant."""
    model, data = subject.model, subject.data
    if model.family.coupled:
        return "the loss of a row depends on the other rows: no constant can be compared row by row"
    batches = [(outputs(model, batch.inputs), batch.targets, batch.weight) for batch in data.batches()]
    constant = best_constant(model, batches)
    own, flat, weight = [], [], []
    with torch.no_grad():
        for found, targets, weights in batches:
            own.append(model.loss(found, targets).double())
            flat.append(model.loss(constant.to(found).expand_as(found), targets).double())
            weight.append(weights)
    losses, others, shares = torch.cat(own), torch.cat(flat), torch.cat(weight) / float(data.weight.sum())
    better = others - losses
    mean = float((shares * better).sum())
    error = sqrt(float((shares.square() * (better - mean).square()).sum()))
    score = mean / error if error > 0 else 0.0
    light: Light = "green" if score > ERRORS else "red" if score < -ERRORS else "amber"
    return Check(
        NAME,
        light,
        score,
        f"the mean loss of n = {data.n} training rows is {float((shares * losses).sum()):.3g}, that of the best "
        f"constant {float((shares * others).sum()):.3g}: a difference of {mean:.3g} ± {error:.2g} (standard error)",
        LIMITS,
        {"green": "", "amber": _AMBER, "red": _RED}[light],
    )


_AMBER = "the model says little more of its training rows than a constant: check that it was trained, and on these rows"
_RED = "targets and inputs do not belong together: check the order of rows and targets, their scaling and the weights"


def best_constant(model: Model, batches: list[tuple[Tensor, Any, Tensor]]) -> Tensor:
    """The outputs (k,) that fit all rows best when every row gets the same."""
    total = sum(float(weight.sum()) for _, _, weight in batches)
    start = sum((weight[:, None] * found.double()).sum(0) for found, _, weight in batches) / total
    constant = torch.as_tensor(start).detach().clone().requires_grad_()
    search = torch.optim.LBFGS([constant], max_iter=100, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

    def objective() -> Tensor:
        search.zero_grad()
        mean = torch.zeros((), dtype=torch.float64, device=constant.device)
        for found, targets, weight in batches:
            losses = model.loss(constant.to(found.dtype).expand_as(found), targets)
            mean = mean + (weight * losses.double()).sum() / total
        mean.backward()
        return mean

    with torch.enable_grad():
        search.step(objective)
    return constant.detach()
