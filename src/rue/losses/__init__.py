"""Losses of one example, by name, with settings, or as a callable."""

from rue.losses.class_weights import one_vs_rest, row_weighted
from rue.losses.classes import bernoulli, cross_entropy, ordinal
from rue.losses.counts import gamma, negative_binomial, poisson, tweedie
from rue.losses.loss import Loss
from rue.losses.margins import modified_huber, signed_squared_error, squared_epsilon_insensitive, squared_hinge
from rue.losses.regression import gaussian_nll, huber, squared_error
from rue.losses.stated import LOSSES, as_loss, stated
from rue.losses.survival import cox

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
    "stated",
    "tweedie",
]
