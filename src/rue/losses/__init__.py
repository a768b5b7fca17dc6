"""The loss of one example, by name, with settings, or as a callable; a new one is a function and a line in `LOSSES`."""

from collections.abc import Callable

from torch import Tensor, nn

from rue.errors import ModelError
from rue.losses.class_weights import one_vs_rest, row_weighted
from rue.losses.classes import bernoulli, cross_entropy, ordinal
from rue.losses.counts import gamma, negative_binomial, poisson, tweedie
from rue.losses.loss import Loss
from rue.losses.margins import modified_huber, signed_squared_error, squared_epsilon_insensitive, squared_hinge
from rue.losses.regression import gaussian_nll, huber, squared_error
from rue.losses.survival import cox

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

NAMED = {  # torch's losses, and what to say instead of them
    nn.CrossEntropyLoss: "cross_entropy",
    nn.BCEWithLogitsLoss: "bernoulli",
    nn.PoissonNLLLoss: "poisson",
    nn.HuberLoss: "huber",
    nn.GaussianNLLLoss: "gaussian_nll",
}


def as_loss(loss: str | Loss | Callable[..., Tensor] | None) -> Loss:
    """Find a loss by its name, take one with settings, or a callable for what it is."""
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
    if isinstance(loss, type):
        raise ModelError(f'loss is the class {loss.__name__}; give an object of it: {loss.__name__}(reduction="none")')
    if not callable(loss):
        raise ModelError(f"loss must be a name or a callable, got {type(loss).__name__}")
    return Loss(getattr(loss, "__name__", type(loss).__name__), loss)


def _refuse_torch_losses(loss: object) -> None:
    """What averages or sums over the rows has lost the loss of a row; each has a name here."""
    if isinstance(loss, nn.MSELoss) or loss in (nn.MSELoss, nn.functional.mse_loss):
        raise ModelError(
            'MSELoss has no ½: it is 2·½(y − f)². Say loss="squared_error", which has it, with half of your l2; if '
            'you averaged, also reduction="mean", and with k outputs k times that l2: MSELoss averages over them too'
        )
    kind = loss if isinstance(loss, type) else type(loss)
    name = next((name for known, name in NAMED.items() if issubclass(kind, known)), None)
    if name is not None and getattr(loss, "reduction", "mean") != "none":
        raise ModelError(
            f"{kind.__name__} gives one number for a whole batch; say loss={name!r} (rue.losses.{name}(...) has its "
            'settings) and reduction="mean" if you averaged over rows'
        )
    if issubclass(kind, nn.L1Loss):
        raise ModelError('the absolute error has no second derivative; the nearest loss that has one is loss="huber"')


def _near(name: str) -> str:
    """The nearest supported choice for what has no curvature, or another name here."""
    unsmooth = ("quantile", "pinball", "absolute", "mae", "l1", "hinge")
    if any(part in name.lower() for part in unsmooth):
        return f"; {name!r} has no second derivative, the nearest loss that has one is 'huber'"
    others = {"mse": "squared_error", "bce": "bernoulli", "logistic": "bernoulli", "nll": "cross_entropy"}
    found = next((known for part, known in others.items() if part in name.lower()), None)
    return "" if found is None else f"; you may mean {found!r}"
