"""Losses of counts and positive numbers; the output is the logarithm of the mean."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rue.core.concepts import Family
from rue.core.errors import SettingError
from rue.core.stored import storable
from rue.losses.loss import Loss, diagonal, like_outputs, within


def poisson() -> Loss:
    """eᶠ − yf, the negative log-likelihood of counts up to a constant.

    >>> poisson().value(torch.tensor([[0.0]]), torch.tensor([[2.0]]))
    tensor([1.])
    """
    return Loss("poisson", _poisson, Family(link="log"), _at_least_zero, _poisson_hessian)


@storable
def _poisson(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.exp() - targets * outputs).sum(-1)


@storable
def _poisson_hessian(outputs: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG001  every loss has this form
    return diagonal(outputs.exp())


def gamma() -> Loss:
    """f + ye⁻ᶠ: positive numbers whose standard deviation is proportional to their mean.

    >>> gamma().value(torch.tensor([[0.0]]), torch.tensor([[2.0]]))
    tensor([2.])
    """
    return Loss("gamma", _gamma, Family(link="log"), _above_zero, _gamma_hessian)


def _gamma(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs + targets * torch.exp(-outputs)).sum(-1)


def _gamma_hessian(outputs: Tensor, targets: Tensor) -> Tensor:
    return diagonal(targets * torch.exp(-outputs))


def tweedie(power: float = 1.5) -> Loss:
    """Numbers at least zero whose variance is the mean to this power, between Poisson (1) and gamma (2).

    >>> tweedie(1.5).value(torch.tensor([[0.0]]), torch.tensor([[2.0]]))
    tensor([6.])
    """
    if not 1 < power < 2:
        raise SettingError(f"power must lie between 1 and 2 (use poisson() and gamma() for the ends), got {power}")
    value, hessian = partial(_tweedie, power=power), partial(_tweedie_hessian, power=power)
    return Loss(f"tweedie({power:g})", value, Family(link="log"), _at_least_zero, hessian)


@storable
def _tweedie(outputs: Tensor, targets: Tensor, power: float) -> Tensor:
    return (
        torch.exp((2 - power) * outputs) / (2 - power) - targets * torch.exp((1 - power) * outputs) / (1 - power)
    ).sum(-1)


@storable
def _tweedie_hessian(outputs: Tensor, targets: Tensor, power: float) -> Tensor:
    rising = (2 - power) * torch.exp((2 - power) * outputs)
    return diagonal(rising + (power - 1) * targets * torch.exp((1 - power) * outputs))


def negative_binomial(dispersion: float = 1.0) -> Loss:
    """Counts with variance µ + dispersion·µ²: (y + 1/a) log(1 + aeᶠ) − yf.

    >>> negative_binomial().value(torch.tensor([[0.0]]), torch.tensor([[2.0]])).round(decimals=4)
    tensor([2.0794])
    """
    if not dispersion > 0:
        raise SettingError(f"dispersion must be above 0 (poisson() has none), got {dispersion}")
    shift = torch.tensor(dispersion, dtype=torch.float64).log().item()
    value = partial(_negative_binomial, dispersion=dispersion, shift=shift)
    hessian = partial(_negative_binomial_hessian, dispersion=dispersion, shift=shift)
    return Loss("negative_binomial", value, Family(), _at_least_zero, hessian)


def _negative_binomial(outputs: Tensor, targets: Tensor, dispersion: float, shift: float) -> Tensor:
    return ((targets + 1 / dispersion) * softplus(outputs + shift) - targets * outputs).sum(-1)


def _negative_binomial_hessian(outputs: Tensor, targets: Tensor, dispersion: float, shift: float) -> Tensor:
    share = torch.sigmoid(outputs + shift)
    return diagonal((targets + 1 / dispersion) * share * (1 - share))


@storable
def _at_least_zero(targets: Any, k: int) -> Tensor:
    fitted = like_outputs(targets, k)
    return within(fitted, fitted >= 0.0, "at least zero")


def _above_zero(targets: Any, k: int) -> Tensor:
    fitted = like_outputs(targets, k)
    return within(fitted, fitted > 0.0, "above zero")
