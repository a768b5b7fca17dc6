"""Losses of counts and positive numbers; the output is the logarithm of the mean."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rue.core.concepts import Family
from rue.core.errors import SettingError
from rue.losses.loss import FitTargets, Loss, diagonal, like_outputs, within


def poisson() -> Loss:
    """eᶠ − yf, the negative log-likelihood of counts up to a constant.

    >>> poisson().value(torch.tensor([[0.0]]), torch.tensor([[2.0]]))
    tensor([1.])
    """

    def value(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.exp() - targets * outputs).sum(-1)

    def hessian(outputs: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG001  every loss has this form
        return diagonal(outputs.exp())

    return Loss("poisson", value, Family(link="log"), _at_least_zero, hessian)


def gamma() -> Loss:
    """f + ye⁻ᶠ: positive numbers whose standard deviation is proportional to their mean.

    >>> gamma().value(torch.tensor([[0.0]]), torch.tensor([[2.0]]))
    tensor([2.])
    """

    def value(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs + targets * torch.exp(-outputs)).sum(-1)

    def hessian(outputs: Tensor, targets: Tensor) -> Tensor:
        return diagonal(targets * torch.exp(-outputs))

    return Loss("gamma", value, Family(link="log"), _above_zero, hessian)


def tweedie(power: float = 1.5) -> Loss:
    """Numbers at least zero whose variance is the mean to this power, between Poisson (1) and gamma (2).

    >>> tweedie(1.5).value(torch.tensor([[0.0]]), torch.tensor([[2.0]]))
    tensor([6.])
    """
    if not 1 < power < 2:
        raise SettingError(f"power must lie between 1 and 2 (use poisson() and gamma() for the ends), got {power}")

    def value(outputs: Tensor, targets: Tensor) -> Tensor:
        return (
            torch.exp((2 - power) * outputs) / (2 - power) - targets * torch.exp((1 - power) * outputs) / (1 - power)
        ).sum(-1)

    def hessian(outputs: Tensor, targets: Tensor) -> Tensor:
        rising = (2 - power) * torch.exp((2 - power) * outputs)
        return diagonal(rising + (power - 1) * targets * torch.exp((1 - power) * outputs))

    return Loss(f"tweedie({power:g})", value, Family(link="log"), _at_least_zero, hessian)


def negative_binomial(dispersion: float = 1.0) -> Loss:
    """Counts with variance µ + dispersion·µ²: (y + 1/a) log(1 + aeᶠ) − yf.

    >>> negative_binomial().value(torch.tensor([[0.0]]), torch.tensor([[2.0]])).round(decimals=4)
    tensor([2.0794])
    """
    if not dispersion > 0:
        raise SettingError(f"dispersion must be above 0 (poisson() has none), got {dispersion}")
    shift = torch.tensor(dispersion, dtype=torch.float64).log().item()

    def value(outputs: Tensor, targets: Tensor) -> Tensor:
        return ((targets + 1 / dispersion) * softplus(outputs + shift) - targets * outputs).sum(-1)

    def hessian(outputs: Tensor, targets: Tensor) -> Tensor:
        share = torch.sigmoid(outputs + shift)
        return diagonal((targets + 1 / dispersion) * share * (1 - share))

    return Loss("negative_binomial", value, Family(), _at_least_zero, hessian)


def _ranged(wanted: str, least: float, strict: bool) -> FitTargets:
    def fit_targets(targets: Any, k: int) -> Tensor:
        fitted = like_outputs(targets, k)
        return within(fitted, fitted > least if strict else fitted >= least, wanted)

    return fit_targets


_at_least_zero = _ranged("at least zero", 0.0, strict=False)
_above_zero = _ranged("above zero", 0.0, strict=True)
