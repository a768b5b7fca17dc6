"""Losses built from other losses: weighted by the class of a row, or one yes-or-no loss for each class."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from rue.core.concepts import Family
from rue.core.errors import ShapeError
from rue.core.stored import storable
from rue.losses.loss import Loss, diagonal, whole


def row_weighted(loss: Loss) -> Loss:
    """The loss of each row times its weight; targets are pairs (targets of `loss`, weights (n,)).

    >>> from rue.losses import squared_error
    >>> pair = torch.tensor([[0.0]]), torch.tensor([3.0])
    >>> row_weighted(squared_error()).value(torch.tensor([[2.0]]), pair)
    tensor([6.])
    """
    return replace(loss, value=partial(_weighted, loss), hessian=partial(_weighted_hessian, loss), fit_targets=None)


@storable
def _weighted(loss: Loss, outputs: Tensor, targets: Any) -> Tensor:
    target, weight = _pair(targets)
    return weight * loss.value(outputs, target)


@storable
def _weighted_hessian(loss: Loss, outputs: Tensor, targets: Any) -> Tensor:
    assert loss.hessian is not None
    target, weight = _pair(targets)
    return weight[:, None, None] * loss.hessian(outputs, target)


def one_vs_rest(loss: Loss) -> Loss:
    """A yes-or-no loss for each of k classes; the largest output decides. Targets are the labels 0 to k − 1.

    With pairs (labels, weights (n,)), the weight multiplies the term of a row's own class only, not the k − 1 others,
    as in LIBLINEAR and scikit-learn's SGD.

    >>> from rue.losses import squared_hinge
    >>> one_vs_rest(squared_hinge()).value(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([2.])
    """
    family = Family(decision="largest", likelihood=False)
    value, hessian = partial(_each_class, loss), partial(_each_class_hessian, loss)
    return Loss(f"one_vs_rest({loss.name})", value, family, whole, hessian)


@storable
def _each_class(loss: Loss, outputs: Tensor, targets: Any) -> Tensor:
    yes, weight = _yes_and_weight(outputs, targets)
    return (weight * loss.value(outputs.reshape(-1, 1), yes.reshape(-1, 1)).view_as(outputs)).sum(-1)


@storable
def _each_class_hessian(loss: Loss, outputs: Tensor, targets: Any) -> Tensor:
    assert loss.hessian is not None
    yes, weight = _yes_and_weight(outputs, targets)
    return diagonal(weight * loss.hessian(outputs.reshape(-1, 1), yes.reshape(-1, 1)).view_as(outputs))


def _yes_and_weight(outputs: Tensor, targets: Any) -> tuple[Tensor, Tensor]:
    """For each class, a column with one for the row's own class, and a column with the weight of this term."""
    labels, weight = targets if isinstance(targets, tuple) else (targets, None)
    yes = one_hot(labels, outputs.shape[1]).to(outputs)
    return yes, torch.ones_like(yes) if weight is None else 1 + yes * (weight.to(outputs)[:, None] - 1)


def _pair(targets: Any) -> tuple[Any, Tensor]:
    if not isinstance(targets, tuple) or len(targets) != 2:
        raise ShapeError(
            f"targets are a {type(targets).__name__}, expected a pair (targets, weights (n,)); give labels as array, "
            "not tensor, where classes are weighted"
        )
    return targets
