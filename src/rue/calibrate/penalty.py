"""Chooses the strength of a penalty by leave-one-out error or by evidence, without holding out rows."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, NamedTuple

import torch

from rue.calibrate.evidence import log_evidence
from rue.calibrate.leaving_one_out import GAUSS_NEWTON, optimism, reading
from rue.core.errors import ModelError, RueWarning, SettingError
from rue.core.model import Model
from rue.core.one_step import left_out, left_out_losses
from rue.core.progress import track
from rue.core.resample import untouched
from rue.core.solve.choice import invert

Criterion = Literal["leave-one-out", "evidence"]


class PenaltyTrial(NamedTuple):
    """One value of the penalty, and the quality of the model trained with it."""

    value: float
    loss: float  # mean left-out loss, without the penalty: lower is better
    evidence: float | None  # log p(y): higher is better; None if it is not defined
    effective_parameters: float


@dataclass(frozen=True)
class PenaltyChoice:
    """The chosen value, the model trained with it, and every trial, from the smallest value to the largest."""

    value: float
    model: Model = field(repr=False)
    criterion: Criterion
    trials: tuple[PenaltyTrial, ...] = field(repr=False)
    n: int
    warnings: tuple[str, ...] = field(repr=False, default=())

    @property
    def effective_parameters(self) -> float:
        """The effective parameters of the chosen model."""
        return next(trial.effective_parameters for trial in self.trials if trial.value == self.value)

    def __str__(self) -> str:
        lines = [
            f"penalty {self.value:g} of {len(self.trials)} values, by {self.criterion} on n = {self.n} training rows",
            f"  {'value':>10}  {'left-out loss':>13}  {'log evidence':>12}  {'effective parameters':>20}",
        ]
        for value, loss, evidence, effective in self.trials:
            mark = "→" if value == self.value else " "
            shown = "none" if evidence is None else f"{evidence:.2f}"
            lines.append(f"{mark} {value:>10.4g}  {loss:>13.5g}  {shown:>12}  {effective:>20.1f}")
        return "\n".join([*lines, *(f"! {text}" for text in self.warnings)])


def choose_penalty(
    train: Callable[[float], Model], values: Iterable[float], data: Any, *, criterion: Criterion = "leave-one-out"
) -> PenaltyChoice:
    """Train with every value and keep the best. There is no validation split, so no row is lost for training.

    `train(value)` trains on all of `data` and returns `rue.wrap(net, loss=..., l2=value)`. Every training starts from
    the same random state.

    >>> import rue
    >>> def ridge(l2):  # of one weight: the targets 0, 3 and 6 at an input of one
    ...     net = torch.nn.Linear(1, 1, bias=False)
    ...     net.weight.data.fill_(9 / (3 + l2))
    ...     return rue.wrap(net, loss="squared_error", l2=l2)
    >>> choice = choose_penalty(ridge, [0.1, 1.0, 10.0], (torch.ones(3, 1), torch.tensor([0.0, 3.0, 6.0])))
    >>> choice.value, round(choice.trials[1].loss, 3)  # left out: 9/3, 6/3 and 3/3, of losses 4.5, 0.5 and 12.5
    (1.0, 5.833)
    """
    grid = _grid(values)
    if criterion not in ("leave-one-out", "evidence"):
        raise SettingError(f'criterion must be "leave-one-out" or "evidence", got {criterion!r}')
    models: list[Model] = []
    tried: list[_Tried] = []
    for value in track("penalties", grid, total=len(grid)):
        with untouched():
            models.append(train(value))
        tried.append(_try(value, models[-1], data, criterion))
    _check_comparable(tried)
    best = min(range(len(grid)), key=lambda i: _cost(tried[i].trial, criterion))
    texts = [f"value {each.trial.value:g}: {each.damped}" for each in tried if each.damped]
    texts += [text for text in (_boundary(grid, best), tried[best].optimism, models[best].held_fixed) if text]
    for text in texts:
        warnings.warn(text, RueWarning, stacklevel=2)
    return PenaltyChoice(
        grid[best], models[best], criterion, tuple(each.trial for each in tried), tried[best].n, tuple(texts)
    )


class _Tried(NamedTuple):
    """A trial, and the facts that decide whether it can be compared with others."""

    trial: PenaltyTrial
    n: int
    kind: tuple[str, int]  # the loss, and the number of outputs
    penalty: float  # its value at parameters that are all one
    damped: str | None
    optimism: str | None


def _try(value: float, model: Model, data: Any, criterion: Criterion) -> _Tried:
    """Compute both criteria for a trained model."""
    with reading(model, data, f"choose_penalty, train({value:g}),") as (bound, rows):
        curvature = GAUSS_NEWTON.at(bound, rows)
        inverted = invert(curvature, None, None)
        left = left_out(bound, rows, inverted.inverse)
        weight = rows.weight.to(left.fitted.device)
        loss = float((weight * left_out_losses(bound, rows, left)).sum() / weight.sum())
        try:
            evidence = log_evidence(bound, rows, curvature)
        except SettingError:
            if criterion == "evidence":
                raise
            evidence = None
        return _Tried(
            PenaltyTrial(value, loss, evidence, left.effective),
            n=rows.n,
            kind=(bound.loss.name, left.fitted.shape[1]),
            penalty=float(bound.penalty(torch.ones_like(bound.theta))),
            damped=inverted.damped.warning,
            optimism=optimism(bound, left, rows.n),
        )


def _cost(trial: PenaltyTrial, criterion: Criterion) -> float:
    if criterion == "leave-one-out" or trial.evidence is None:  # by evidence, a missing one has raised already
        return trial.loss
    return -trial.evidence


def _grid(values: Iterable[float]) -> list[float]:
    """The values sorted; raises unless they are finite, different and at least zero."""
    try:
        grid = sorted(float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise SettingError(f"values must be numbers, such as [0.1, 1.0, 10.0], got {values!r}") from error
    if len(grid) < 2:
        raise SettingError(f"values has {len(grid)} entries, expected at least two to choose from: [0.1, 1.0, 10.0]")
    if not all(isfinite(value) and value >= 0 for value in grid):
        raise SettingError(f"values must be finite and at least 0, as penalties are, got {grid}")
    if len(set(grid)) < len(grid):
        raise SettingError(f"values has {len(grid) - len(set(grid))} duplicates in {grid}; give each value once")
    return grid


def _check_comparable(tried: list[_Tried]) -> None:
    """Raise unless all models have the same loss and outputs, and each a penalty of its own."""
    first = tried[0]
    for other in tried[1:]:
        if other.kind != first.kind:
            raise ModelError(
                f"the models of {first.trial.value:g} and {other.trial.value:g} have {first.kind} and {other.kind} as "
                "loss and number of outputs, so that their left-out losses cannot be compared; only the penalty may "
                "differ"
            )
    value_of: dict[float, float] = {}  # by the penalty
    for each in tried:
        if each.penalty in value_of:
            raise ModelError(
                f"the models of {value_of[each.penalty]:g} and {each.trial.value:g} were wrapped with the same "
                "penalty; pass the value on: rue.wrap(net, loss=..., l2=value)"
            )
        value_of[each.penalty] = each.trial.value


def _boundary(grid: list[float], best: int) -> str | None:
    """A warning if the best value is at an end of the grid, where a better one may lie beyond."""
    if best == len(grid) - 1:
        wanted = f"larger than {grid[best]:g}"
    elif best == 0 and grid[0] > 0:
        wanted = f"smaller than {grid[0]:g}"
    else:
        return None
    return f"the best of {len(grid)} penalties lies at the end of the grid; extend it by values {wanted}"
