"""Reads a loss as users state it: a name, a loss with settings, a callable, or a loss of `torch.nn`.

A new loss is a function and a line in `LOSSES`; a loss of `torch.nn` that can be read has a line in `READERS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rue.core.errors import DataError, ModelError, SettingError
from rue.core.stored import storable
from rue.losses.classes import bernoulli, cross_entropy, ordinal
from rue.losses.counts import gamma, negative_binomial, poisson
from rue.losses.loss import FitTargets, Loss, one_tensor
from rue.losses.regression import gaussian_nll, gaussian_nll_of_variance, huber, squared_error
from rue.losses.survival import cox

Reduction = Literal["sum", "mean"]

LOSSES = {
    loss.name: loss
    for loss in (
        squared_error(),
        gaussian_nll(),
        huber(),
        bernoulli(),
        cross_entropy(),
        ordinal(),
        poisson(),
        gamma(),
        negative_binomial(),
        cox(),
    )
}

NAMED = {  # torch's losses, and the names to use for them
    nn.MSELoss: "squared_error",
    nn.SmoothL1Loss: "huber",
    nn.CrossEntropyLoss: "cross_entropy",
    nn.BCEWithLogitsLoss: "bernoulli",
    nn.PoissonNLLLoss: "poisson",
    nn.HuberLoss: "huber",
    nn.GaussianNLLLoss: "gaussian_nll",
}


@storable
@dataclass(frozen=True)
class Scale:
    """The factor on a penalty R that was trained beside a loss of torch, in our objective Σᵢ ℓᵢ + factor·R.

    Training minimised factor·Σᵢ ℓᵢ + R or, as a mean, factor·Σᵢ ℓᵢ / (total count of the rows) + R. Our objective is
    that function times a number, so that both have their minimum at the same parameters.
    """

    factor: float = 1.0  # the loss of a row in torch, divided by ours
    each_output: bool = False  # whether a mean divides by the number of outputs too
    count: Callable[[Any], Tensor] | None = field(default=None, repr=False)  # (n,), of rows in a mean; None: all ones

    def penalty(self, reduction: Reduction, rows: float, k: int) -> float:
        """The factor on R, if the total count of the rows is `rows`.

        >>> Scale(factor=2.0, each_output=True).penalty("mean", rows=10, k=3)  # MSELoss: Σr²/30 + R is Σ½r² + 15R
        15.0
        """
        divisor = (rows * k if self.each_output else rows) if reduction == "mean" else 1.0
        return divisor / self.factor


OURS = Scale()  # for a loss of this package, summed or averaged over rows


@dataclass(frozen=True)
class Stated:
    """A loss as the user gave it, with what it tells about the objective of training."""

    loss: Loss
    reduction: Reduction | None = None  # None if the loss does not tell; then `reduction=` does
    scale: Scale = OURS
    said: str | None = None  # the loss object in the user's words, for messages

    def agreed(self, reduction: Reduction | None) -> Reduction:
        """The reduction of the loss, or else the one the user gave, or else a sum; raises if the two differ."""
        if reduction not in (None, "sum", "mean"):
            raise SettingError(
                f'reduction must be "sum" or "mean" of the example losses you trained on, got {reduction!r}'
            )
        if reduction is not None and self.reduction not in (None, reduction):
            raise SettingError(
                f'the loss is {self.said}, and reduction="{reduction}" is given too; leave reduction out, the loss '
                'says it, or give the loss with reduction="none" if you reduced its values yourself'
            )
        return reduction or self.reduction or "sum"


def read_torch_loss(loss: object) -> Stated | None:
    """Read an object of `torch.nn`, or a function of `torch.nn.functional` with its defaults; None for all else.

    >>> read_torch_loss(nn.MSELoss()).scale
    Scale(factor=2.0, each_output=True)
    """
    kind = next((kind for function, kind in FUNCTIONS.items() if loss is function), None)
    criterion: Any = loss if kind is None else kind()
    reader = READERS.get(type(criterion))  # not for subclasses, which may compute anything
    if reader is None:
        return None
    rule, scale = reader(criterion)
    reduction = None if criterion.reduction == "none" else criterion.reduction
    return Stated(rule, reduction, scale, f'{type(criterion).__name__}(reduction="{criterion.reduction}")')


LossAndScale = tuple[Loss, Scale]
ELEMENTWISE = Scale(each_output=True)


def _squared_error(_: Any) -> LossAndScale:
    return squared_error(), Scale(factor=2.0, each_output=True)  # r² without the ½


def _huber(criterion: Any) -> LossAndScale:
    return huber(criterion.delta), ELEMENTWISE


def _smooth_l1(criterion: Any) -> LossAndScale:
    """Huber's loss divided by beta, so that the straight lines have slope one."""
    if not criterion.beta > 0:
        raise ModelError(
            f"SmoothL1Loss(beta={criterion.beta:g}) is the absolute error, which has no second derivative; the nearest "
            'loss that has one is loss="huber"'
        )
    return huber(criterion.beta), Scale(factor=1 / criterion.beta, each_output=True)


def _binary(criterion: Any) -> LossAndScale:
    if criterion.weight is not None:
        raise ModelError(
            "BCEWithLogitsLoss has a weight, one for each row of a batch or each output, which the data do not tell; "
            "give the rows' as rue.Data(X, y, weight=...), the positives' as pos_weight, or a callable loss"
        )
    if criterion.pos_weight is None:
        return bernoulli(), ELEMENTWISE
    if criterion.pos_weight.dim() > 1:
        raise ModelError(
            f"pos_weight of BCEWithLogitsLoss has shape {tuple(criterion.pos_weight.shape)}, expected one number, or "
            "one for each output; give a callable loss"
        )
    return bernoulli(criterion.pos_weight.tolist()), ELEMENTWISE


def _poisson(criterion: Any) -> LossAndScale:
    """Poisson loss. The option `full` adds a term that depends on the targets only, so it is ignored."""
    if not criterion.log_input:
        raise ModelError(
            "PoissonNLLLoss(log_input=False) takes the mean itself, and the loss here its logarithm; let the module "
            "return the logarithm and say PoissonNLLLoss(), or give a callable (outputs, targets) -> (n,)"
        )
    return poisson(), ELEMENTWISE


def _gaussian(criterion: Any) -> LossAndScale:
    """Gaussian loss. The option `full` adds a constant, so it is ignored."""
    return gaussian_nll_of_variance(criterion.eps), OURS


def _cross_entropy(criterion: Any) -> LossAndScale:
    weight = None if criterion.weight is None else criterion.weight.detach().double().cpu()
    rule = cross_entropy(criterion.label_smoothing, None if weight is None else weight.tolist())
    rule = _without_ignored(rule, criterion.ignore_index)
    if weight is None or criterion.reduction == "none":  # a mean that users take themselves is over rows
        return rule, OURS
    return rule, Scale(count=partial(_label_weight, weight))


@storable
def _label_weight(weight: Tensor, targets: Tensor) -> Tensor:
    """The weight of each row's label, which a mean divides by; one for targets that are probabilities."""
    labels = not targets.is_floating_point()
    return weight.to(targets.device)[targets] if labels else torch.ones(len(targets)).to(targets)


def _without_ignored(rule: Loss, ignored: int) -> Loss:
    """Raise for labels that torch leaves out of the sum, because such rows were not trained on."""
    assert rule.fit_targets is not None
    return replace(rule, fit_targets=partial(_none_ignored, rule.fit_targets, ignored))


@storable
def _none_ignored(fit: FitTargets, ignored: int, targets: Any, k: int) -> Tensor:
    labels = one_tensor(targets)
    out = int((labels == ignored).sum()) if labels.dim() == 1 or labels.shape[1] == 1 else 0
    if out:
        raise DataError(
            f"{out} of {len(labels)} targets are {ignored}, which CrossEntropyLoss(ignore_index={ignored}) leaves "
            "out of the sum; leave these rows out of the training data (tokens: rue.tokens.rows)"
        )
    return fit(targets, k)


READERS: dict[type, Callable[[Any], LossAndScale]] = {
    nn.MSELoss: _squared_error,
    nn.CrossEntropyLoss: _cross_entropy,
    nn.BCEWithLogitsLoss: _binary,
    nn.HuberLoss: _huber,
    nn.SmoothL1Loss: _smooth_l1,
    nn.PoissonNLLLoss: _poisson,
    nn.GaussianNLLLoss: _gaussian,
}
FUNCTIONS: dict[Callable[..., Tensor], type[nn.Module]] = {
    functional.mse_loss: nn.MSELoss,
    functional.cross_entropy: nn.CrossEntropyLoss,
    functional.binary_cross_entropy_with_logits: nn.BCEWithLogitsLoss,
    functional.huber_loss: nn.HuberLoss,
    functional.smooth_l1_loss: nn.SmoothL1Loss,
    functional.poisson_nll_loss: nn.PoissonNLLLoss,
}


def stated(loss: str | Loss | Callable[..., Tensor] | None) -> Stated:
    """A loss as users give it for a module: any that `as_loss` takes, or a loss of torch with its reduction.

    A name of `torch.nn`, as "MSELoss", is that loss with its default settings.
    """
    if isinstance(loss, str) and loss.endswith("Loss") and hasattr(nn, loss):
        loss = getattr(nn, loss)()
    return read_torch_loss(loss) or Stated(as_loss(loss))


def as_loss(loss: str | Loss | Callable[..., Tensor] | None) -> Loss:
    """Turn a name, a loss with settings or a callable into a `Loss`."""
    if loss is None:
        raise ModelError(
            'a module does not know the loss it was trained with; say loss="squared_error" or another of '
            f"{', '.join(sorted(LOSSES))}, or give a callable (outputs, targets) -> (n,), one value per example"
        )
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        if loss in LOSSES:
            return LOSSES[loss]
        raise ModelError(f"unknown loss {loss!r}; known: {', '.join(sorted(LOSSES))}, or give a callable{_near(loss)}")
    _refuse_torch_losses(loss)
    if not callable(loss):
        raise ModelError(f"loss must be a name or a callable, got {type(loss).__name__}")
    return Loss(getattr(loss, "__name__", type(loss).__name__), loss)


def _refuse_torch_losses(loss: object) -> None:
    """Raise for torch losses that average or sum over rows, because the loss of each row is needed."""
    kind = loss if isinstance(loss, type) else type(loss)
    if issubclass(kind, nn.L1Loss) or loss is nn.functional.l1_loss:
        raise ModelError('the absolute error has no second derivative; the nearest loss that has one is loss="huber"')
    if isinstance(loss, type):
        raise ModelError(f"loss is the class {kind.__name__}; give an object: {kind.__name__}()")
    name = next((name for known, name in NAMED.items() if issubclass(kind, known)), None)
    if name is not None and getattr(loss, "reduction", "mean") != "none":
        raise ModelError(
            f"{kind.__name__} gives one number for a whole batch, and only torch's own losses of a torch.nn.Module are "
            f"read with their reduction; say loss={name!r} (rue.losses.{name}(...) has its settings)"
        )


def _near(name: str) -> str:
    """A hint for unknown names: the nearest loss with a second derivative, or the name used here."""
    unsmooth = ("quantile", "pinball", "absolute", "mae", "l1", "hinge")
    if any(part in name.lower() for part in unsmooth):
        return f"; {name!r} has no second derivative, the nearest loss that has one is 'huber'"
    others = {"mse": "squared_error", "bce": "bernoulli", "logistic": "bernoulli", "nll": "cross_entropy"}
    meant = next((known for part, known in others.items() if part in name.lower()), None)
    return "" if meant is None else f"; you may mean {meant!r}"
