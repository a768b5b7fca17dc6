"""Losses of numbers: squared error, Gaussian likelihood with a predicted variance, Huber's loss."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from rue.core.concepts import Family
from rue.core.errors import SettingError, ShapeError
from rue.core.stored import storable
from rue.losses.loss import Loss, diagonal, like_outputs, one_for_each_row


def squared_error() -> Loss:
    """½‖y − f‖² for each row.

    >>> squared_error().value(torch.tensor([[1.0], [3.0]]), torch.tensor([[0.0], [1.0]]))
    tensor([0.5000, 2.0000])
    """
    return Loss(
        "squared_error", _half_square, Family(gaussian=True, link="identity"), like_outputs, _half_square_hessian
    )


@storable
def _half_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * (targets - outputs).square().sum(-1)


@storable
def _half_square_hessian(outputs: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG001  every loss has this form
    return diagonal(torch.ones_like(outputs))


def gaussian_nll() -> Loss:
    """Two outputs, the mean f and the logarithm s of the variance: ½(s + (y − f)²e⁻ˢ); not convex in both together.

    >>> gaussian_nll().value(torch.tensor([[1.0, 0.0]]), torch.tensor([3.0]))
    tensor([2.])
    """
    return Loss("gaussian_nll", _gaussian, Family(), _for_mean_and_log_variance, _gaussian_hessian)


def _gaussian(outputs: Tensor, targets: Tensor) -> Tensor:
    mean, log_variance = _pair(outputs)
    return 0.5 * (log_variance + (targets - mean).square() * torch.exp(-log_variance))


def _gaussian_hessian(outputs: Tensor, targets: Tensor) -> Tensor:
    mean, log_variance = _pair(outputs)
    precision, error = torch.exp(-log_variance), mean - targets
    mixed = -error * precision
    return torch.stack([precision, mixed, mixed, 0.5 * error.square() * precision], dim=-1).view(-1, 2, 2)


def _for_mean_and_log_variance(targets: Any, k: int) -> Tensor:
    if k != 2:
        raise ShapeError(f"gaussian_nll needs two outputs, the mean and the log variance, got {k}")
    return one_for_each_row(targets)


def gaussian_nll_of_variance(floor: float = 1e-6) -> Loss:
    """Two outputs, the mean f and the variance v itself, at least `floor`: ½(log v + (y − f)²/v), as in `torch.nn`.

    >>> gaussian_nll_of_variance().value(torch.tensor([[1.0, 1.0]]), torch.tensor([3.0]))
    tensor([2.])
    """
    return Loss(
        "gaussian_nll_of_variance",
        partial(_gaussian_of_variance, floor=floor),
        Family(),
        _for_mean_and_variance,
        partial(_gaussian_of_variance_hessian, floor=floor),
    )


def _gaussian_of_variance(outputs: Tensor, targets: Tensor, floor: float) -> Tensor:
    mean, variance = _pair(outputs)
    variance = variance.clamp_min(floor)
    return 0.5 * (variance.log() + (targets - mean).square() / variance)


def _gaussian_of_variance_hessian(outputs: Tensor, targets: Tensor, floor: float) -> Tensor:
    mean, variance = _pair(outputs)
    above = (variance >= floor).to(variance)
    precision, error = 1 / variance.clamp_min(floor), mean - targets
    mixed = -above * error * precision**2
    own = above * precision**2 * (error.square() * precision - 0.5)
    return torch.stack([precision, mixed, mixed, own], dim=-1).view(-1, 2, 2)


def _for_mean_and_variance(targets: Any, k: int) -> Tensor:
    if k != 2:
        raise ShapeError(
            f"GaussianNLLLoss needs two outputs (n, 2), the mean and the variance, got {k}; wrap the module in one "
            "that returns torch.stack([mean, variance], dim=-1)"
        )
    return one_for_each_row(targets)


def huber(delta: float = 1.0) -> Loss:
    """½r² up to `delta`, a straight line beyond: rows there have a constant gradient and no curvature.

    >>> huber().value(torch.tensor([[0.5], [3.0]]), torch.tensor([[0.0], [0.0]]))
    tensor([0.1250, 2.5000])
    """
    if not delta > 0:
        raise SettingError(f"delta must be above 0, the residual beyond which a row pulls no harder, got {delta}")
    value, hessian = partial(_huber, delta=delta), partial(_huber_hessian, delta=delta)
    return Loss("huber", value, Family(link="identity"), like_outputs, hessian)


@storable
def _huber(outputs: Tensor, targets: Tensor, delta: float) -> Tensor:
    return torch.nn.functional.huber_loss(outputs, targets.to(outputs), reduction="none", delta=delta).sum(-1)


@storable
def _huber_hessian(outputs: Tensor, targets: Tensor, delta: float) -> Tensor:
    return diagonal(((outputs - targets).abs() <= delta).to(outputs.dtype))


def _pair(outputs: Tensor) -> tuple[Tensor, Tensor]:
    return outputs[:, 0], outputs[:, 1]
