"""Losses of classes with logits as outputs: yes-or-no, one of several, and ordered classes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from rue.core.concepts import Family
from rue.core.errors import DataError, SettingError, ShapeError
from rue.core.stored import storable
from rue.losses.loss import Loss, diagonal, like_outputs, one_tensor, whole, within


def bernoulli(pos_weight: float | Sequence[float] = 1.0) -> Loss:
    """log(1 + eᶠ) − yf: one logit for yes or no, or one for each of several labels that may hold together.

    `pos_weight` is the weight of positive targets, one number or one for each logit.

    >>> bernoulli().value(torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    tensor([0.6931])
    """
    weight = torch.as_tensor(pos_weight, dtype=torch.float64)
    if weight.dim() > 1 or not bool(((weight > 0) & weight.isfinite()).all()):
        raise SettingError(f"pos_weight must be above 0 and finite, what a positive row counts, got {pos_weight}")
    value, fit_targets, hessian = (
        partial(part, weight=weight) for part in (_yes_or_no, _shares_of_yes, _yes_or_no_hessian)
    )
    return Loss("bernoulli", value, Family(decision="signs"), fit_targets, hessian)


@storable
def _yes_or_no(outputs: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    return (weight.to(outputs) * targets * softplus(-outputs) + (1 - targets) * softplus(outputs)).sum(-1)


@storable
def _yes_or_no_hessian(outputs: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    share = torch.sigmoid(outputs)
    return diagonal((weight.to(outputs) * targets + 1 - targets) * share * (1 - share))


@storable
def _shares_of_yes(targets: Any, k: int, weight: Tensor) -> Tensor:
    fitted = like_outputs(targets, k)
    if weight.numel() not in (1, k):
        raise SettingError(f"pos_weight has {weight.numel()} entries for {k} outputs; give one, or one for each")
    return within(fitted, (fitted >= 0) & (fitted <= 1), "0 or 1, or a probability between them")


def cross_entropy(label_smoothing: float = 0.0, class_weight: Sequence[float] | None = None) -> Loss:
    """−log softmax(f) of the label, with k logits; labels are 0 to k − 1, or probabilities (n, k).

    `class_weight` multiplies a row's loss by the weight of its label, `label_smoothing` mixes the label with all k.

    >>> cross_entropy().value(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor([0.6931])
    """
    if not 0 <= label_smoothing < 1:
        raise SettingError(f"label_smoothing must be at least 0 and below 1, got {label_smoothing}")
    weight = None if class_weight is None else torch.as_tensor(class_weight, dtype=torch.float64)
    if weight is not None and not bool(((weight >= 0) & weight.isfinite()).all() and (weight > 0).any()):
        raise SettingError(
            "class_weight must be finite, at least 0 and not all 0, what a row of each class counts, got "
            f"{class_weight}"
        )
    rule = _CrossEntropy(label_smoothing, weight)
    return Loss("cross_entropy", rule.value, Family(decision="largest"), rule.fit_targets, rule.hessian)


@storable
@dataclass(frozen=True)
class _CrossEntropy:
    """−log softmax(f) of the label, smoothed and weighted."""

    smoothing: float
    weight: Tensor | None = field(repr=False)  # (k,), of the classes

    def value(self, outputs: Tensor, targets: Tensor) -> Tensor:
        scale = None if self.weight is None else self.weight.to(outputs)
        smoothing = self.smoothing
        return torch.nn.functional.cross_entropy(outputs, targets, scale, reduction="none", label_smoothing=smoothing)

    def hessian(self, outputs: Tensor, targets: Tensor) -> Tensor:
        share = outputs.softmax(-1)
        shape = diagonal(share) - share.unsqueeze(-1) * share.unsqueeze(-2)
        return shape * self._mass(targets, outputs)[:, None, None]

    def _mass(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Σ of the target's class weights: one, without weights and for targets that sum to one."""
        k = outputs.shape[1]
        shares = targets if targets.is_floating_point() else torch.nn.functional.one_hot(targets, k).to(outputs)
        shares = (1 - self.smoothing) * shares + self.smoothing / k
        return shares.sum(-1) if self.weight is None else shares @ self.weight.to(outputs)

    def fit_targets(self, targets: Any, k: int) -> Tensor:
        targets = one_tensor(targets)
        if k < 2:
            raise ShapeError('cross_entropy needs at least two logits, got one; for one logit use loss="bernoulli"')
        if self.weight is not None and len(self.weight) != k:
            raise SettingError(f"class_weight has {len(self.weight)} entries for {k} classes; give one for each")
        if targets.dim() == 2 and targets.shape[1] == k:
            ok = (targets >= 0) & ((targets.sum(-1, keepdim=True) - 1).abs() < 1e-4)
            return within(targets, ok, "probabilities that sum to one")
        return whole(targets, k)


def ordinal() -> Loss:
    """Ordered classes 0 to k with k outputs: P(y > j) = σ(f_j), falling in j (proportional odds and its relatives).

    >>> ordinal().value(torch.tensor([[1.0, -1.0]]), torch.tensor([1])).round(decimals=4)
    tensor([0.7719])
    """
    return Loss("ordinal", _ordinal, Family(decision="ordered"), _one_class_more)


def _ordinal(outputs: Tensor, targets: Tensor) -> Tensor:
    above, below = _bounds(outputs, targets)
    # log(σ(a) − σ(b)) = log σ(a) + log σ(−b) + log(1 − e^{b − a})
    return -(logsigmoid(above) + logsigmoid(-below) + torch.log(-torch.expm1(below - above)))


def _one_class_more(targets: Any, k: int) -> Tensor:
    return whole(one_tensor(targets), k + 1)


FAR = 50.0  # a logit whose probability rounds to one in double precision


def _bounds(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The logits of y > label − 1 and of y > label; below the first class certain, beyond the last impossible."""
    if bool((outputs.detach().diff(dim=-1) >= 0).any()):
        raise DataError(
            "the outputs of an ordinal model must fall from class to class, P(y > j) = σ(f_j); these cross; for K "
            'independent yes-or-no outputs use loss="bernoulli"'
        )
    edge = torch.full_like(outputs[:, :1], FAR)
    bounds = torch.cat([edge, outputs, -edge], dim=1)
    at = targets.unsqueeze(-1)
    return bounds.gather(1, at).squeeze(-1), bounds.gather(1, at + 1).squeeze(-1)
