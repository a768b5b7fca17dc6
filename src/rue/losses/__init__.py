"""Losses of one example, by name, with settings, or as a callable. A new one is a function and a line in `LOSSES`."""

from collections.abc import Callable

from torch import Tensor, nn

from rue.core.errors import ModelError
from rue.losses.class_weights import one_vs_rest, row_weighted
from rue.losses.classes import bernoulli, cross_entropy, ordinal
from rue.losses.counts import gamma, negative_binomial, poisson, tweedie
from rue.losses.loss import Loss
from rue.losses.margins import modified_huber, signed_squared_error, squared_epsilon_insensitive, squared_hinge
from rue.losses.regression import gaussian_nll, huber, squared_error
from rue.losses.survival import cox
from rue.losses.torch_losses import Stated, read_torch_loss

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

__all__ = [
    "LOSSES",
    "Loss",
    "as_loss",
    "bernoulli",
    "cox",
    "cross_entropy",
    "gamma",
    "gaussian_nll",
    "huber",
    "modified_huber",
    "negative_binomial",
    "one_vs_rest",
    "ordinal",
    "poisson",
    "row_weighted",
    "signed_squared_error",
    "squared_epsilon_insensitive",
    "squared_error",
    "squared_hinge",
    "tweedie",
]

NAMED = {  # torch's losses, and the names to use for them
    nn.MSELoss: "squared_error",
    nn.SmoothL1Loss: "huber",
    nn.CrossEntropyLoss: "cross_entropy",
    nn.BCEWithLogitsLoss: "bernoulli",
    nn.PoissonNLLLoss: "poisson",
    nn.HuberLoss: "huber",
    nn.GaussianNLLLoss: "gaussian_nll",
}


def stated(loss: str | Loss | Callable[..., Tensor] | None) -> Stated:
    """A loss as users give it for a module: any that `as_loss` takes, or a loss of torch with its reduction."""
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
