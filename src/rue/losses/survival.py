"""Cox's partial likelihood, where the loss of a row depends on all rows that are still at risk."""

from typing import Any

import torch
from torch import Tensor

from rue.core.concepts import Coupling, Family
from rue.core.errors import DataError, ShapeError
from rue.losses.loss import Loss, one_tensor


def cox() -> Loss:
    """Negative log partial likelihood, Breslow's for ties; targets (n, 2) are time and event, the output a log hazard.

    A row also counts in the risk sets of earlier events, so that its influence is the score residual of Lin and Wei
    (1989), not the derivative of its own term.

    >>> cox().value(torch.zeros(2, 1), torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
    tensor([0.6931, 0.0000])
    """
    return Loss("cox", _own_term, Family(coupled=True), _times_and_events, coupling=_coupling)


def _own_term(outputs: Tensor, targets: Tensor) -> Tensor:
    logs = _at_risk(outputs[:, 0], targets, torch.ones_like(outputs[:, 0])).logsumexp(1)
    return targets[:, 1] * (logs - outputs[:, 0])


def _coupling(outputs: Tensor, targets: Tensor, weight: Tensor) -> Coupling:
    f, event = outputs[:, 0].double(), weight * targets[:, 1].double()
    logs = _at_risk(f, targets, weight)
    objective = (event * (logs.logsumexp(1) - f)).sum()
    share = logs.softmax(1).detach()  # row i: the probability of each row to have the event at the time of i
    met = (event @ share).detach()
    curvature = torch.diag(met) - share.T @ (event[:, None] * share)
    slope = event[:, None] * share - torch.diag(event) + curvature
    return Coupling(objective, slope, curvature)


def _at_risk(log_hazard: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    """Log hazards (n, n) of those still at risk (column) at the time of each row, −∞ for the others."""
    there = targets[None, :, 0] >= targets[:, 0, None]
    tiny = torch.finfo(log_hazard.dtype).tiny  # replaces a weight of zero, so that the logarithm is finite
    return torch.where(there, (log_hazard + weight.to(log_hazard).clamp_min(tiny).log())[None, :], -torch.inf)


def _times_and_events(targets: Any, k: int) -> Tensor:
    targets = one_tensor(targets)
    if targets.dim() != 2 or targets.shape[1] != 2:
        raise ShapeError(
            f"targets have shape {tuple(targets.shape)}, expected two columns (n, 2): the time, and 1 for an event, 0 "
            "for a row last seen without one"
        )
    if k != 1:
        raise ShapeError(f"cox needs one output, the log hazard, got {k}")
    time, event = targets.T
    if not bool(((event == 0) | (event == 1)).all()) or not bool((time >= 0).all()) or not bool(event.any()):
        raise DataError("times must be at least 0, events 0 or 1, one a 1; check the columns")
    return targets
