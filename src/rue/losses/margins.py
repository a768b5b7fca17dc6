"""Margin losses, zero on one side of the margin: the smooth losses of support vector machines and similar models."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from rue.core.concepts import Family
from rue.core.errors import SettingError
from rue.losses.loss import Loss, diagonal, like_outputs, within


def squared_hinge() -> Loss:
    """max(0, 1 − sf)² with s = ±1 for yes and no; rows beyond the margin have no gradient and no curvature.

    >>> squared_hinge().value(torch.tensor([[0.5], [2.0]]), torch.tensor([[1.0], [1.0]]))
    tensor([0.2500, 0.0000])
    """
    return Loss("squared_hinge", _hinge, Family(decision="signs", likelihood=False), _yes_or_no, _hinge_hessian)


def _hinge(outputs: Tensor, targets: Tensor) -> Tensor:
    return _short_of_margin(outputs, targets).clamp_min(0).square().sum(-1)


def _hinge_hessian(outputs: Tensor, targets: Tensor) -> Tensor:
    return diagonal(2.0 * (_short_of_margin(outputs, targets) > 0).to(outputs.dtype))


def modified_huber() -> Loss:
    """The squared hinge, but the straight line −4sf for rows that are wrong by more than the margin.

    >>> modified_huber().value(torch.tensor([[0.5], [-2.0]]), torch.tensor([[1.0], [1.0]]))
    tensor([0.2500, 8.0000])
    """
    family = Family(decision="signs", likelihood=False)
    return Loss("modified_huber", _modified_huber, family, _yes_or_no, _modified_huber_hessian)


def _modified_huber(outputs: Tensor, targets: Tensor) -> Tensor:
    short = _short_of_margin(outputs, targets).clamp_min(0)
    return torch.where(short <= 2, short.square(), 4 * (short - 1)).sum(-1)


def _modified_huber_hessian(outputs: Tensor, targets: Tensor) -> Tensor:
    short = _short_of_margin(outputs, targets)
    return diagonal(2.0 * ((short > 0) & (short <= 2)).to(outputs.dtype))


def signed_squared_error() -> Loss:
    """½(s − f)² with s = ±1 for yes and no: least squares as a classifier.

    >>> signed_squared_error().value(torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [0.0]]))
    tensor([0.5000, 2.0000])
    """
    family = Family(decision="signs", likelihood=False)
    return Loss("signed_squared_error", _signed_square, family, _yes_or_no, _signed_square_hessian)


def _signed_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * (2 * targets - 1 - outputs).square().sum(-1)


def _signed_square_hessian(outputs: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG001  every loss has this form
    return diagonal(torch.ones_like(outputs))


def squared_epsilon_insensitive(epsilon: float = 0.1) -> Loss:
    """max(0, |y − f| − epsilon)²: rows within `epsilon` have no gradient and no curvature.

    >>> squared_epsilon_insensitive(0.5).value(torch.tensor([[0.25], [2.5]]), torch.tensor([[0.0], [0.0]]))
    tensor([0., 4.])
    """
    if not epsilon >= 0:
        raise SettingError(f"epsilon must be at least 0, the residual that counts as none, got {epsilon}")
    value, hessian = partial(_insensitive, epsilon=epsilon), partial(_insensitive_hessian, epsilon=epsilon)
    return Loss("squared_epsilon_insensitive", value, Family(link="identity"), like_outputs, hessian)


def _insensitive(outputs: Tensor, targets: Tensor, epsilon: float) -> Tensor:
    return ((targets - outputs).abs() - epsilon).clamp_min(0).square().sum(-1)


def _insensitive_hessian(outputs: Tensor, targets: Tensor, epsilon: float) -> Tensor:
    return diagonal(2.0 * ((targets - outputs).abs() > epsilon).to(outputs.dtype))


def _short_of_margin(outputs: Tensor, targets: Tensor) -> Tensor:
    """1 − sf: positive for rows that are not beyond the margin."""
    return 1 - (2 * targets - 1) * outputs


def _yes_or_no(targets: Any, k: int) -> Tensor:
    fitted = like_outputs(targets, k)
    return within(fitted, (fitted == 0) | (fitted == 1), "0 or 1")
