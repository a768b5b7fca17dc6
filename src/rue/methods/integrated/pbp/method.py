"""The method: what a user sets, and the training of all problems side by side."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from rue.auditing.auditor import Auditor
from rue.core.errors import NumericalError, SettingError
from rue.core.model import Model
from rue.core.progress import track
from rue.methods.fitting import fitting
from rue.methods.integrated.pbp.network import Networks
from rue.methods.integrated.pbp.posterior import Posterior
from rue.methods.integrated.pbp.problem import Problem, check_alike, shuffled


@dataclass(frozen=True)
class PBP:
    """Probabilistic backpropagation (Hernández-Lobato and Adams, 2015): a Gaussian for every weight of a ReLU network.

    Only the architecture of the model is used, not its trained weights or its penalty: PBP learns weights, noise and
    prior itself. Prediction, `std` and `noise_std` are those of its own network. Rows are learned one by one on the
    CPU, wherever the model is: a sequence of tiny steps gains nothing from a GPU.
    """

    epochs: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.epochs, bool) or not isinstance(self.epochs, int) or self.epochs < 1:
            raise SettingError(f"epochs must be a whole number of at least 1, got {self.epochs!r}")

    def fit(self, model: Model, data: Any) -> Auditor:
        """Train one network."""
        return self.fit_many([model], [data])[0]

    def fit_many(self, models: Sequence[Model], data: Sequence[Any]) -> list[Auditor]:
        """The same for several training sets of one size and models of one architecture, side by side.

        The i-th has the seed `seed + i`; its result does not depend on those beside it.
        """
        if len(models) != len(data) or not models:
            raise SettingError(
                f"{len(models)} models and {len(data)} training sets were given; give one training set for each model"
            )
        with ExitStack() as contexts:
            fits = [contexts.enter_context(fitting(self, *pair)) for pair in zip(models, data, strict=True)]
            problems = [Problem.of(fit, self.seed + i) for i, fit in enumerate(fits)]
            check_alike(problems)
            posteriors = _train(problems, self.epochs)
            facts = {"epochs": self.epochs, "trained_together": len(fits)}
            return [
                fit.auditor(posterior, {**facts, "noise": posterior.noise}, noise=False, predictor=posterior.predict)
                for fit, posterior in zip(fits, posteriors, strict=True)
            ]


def _train(problems: Sequence[Problem], epochs: int) -> list[Posterior]:
    """Pass over the rows, refine the prior, again."""
    starts = [problem.initial_weights() for problem in problems]
    networks = Networks([np.stack(layer) for layer in zip(*starts, strict=True)])
    for _ in track("PBP", range(epochs), total=epochs):
        with np.errstate(all="ignore"):  # a step that overflows is undone
            for row, target in shuffled(problems):
                networks.learn(row, target)
        networks.refine_prior()
    return [_posterior(networks, i, problem) for i, problem in enumerate(problems)]


def _posterior(networks: Networks, index: int, problem: Problem) -> Posterior:
    layers = tuple((mean[index].copy(), variance[index].copy()) for mean, variance in networks.weights())
    scale = float(problem.standardise_targets.scale[0])
    noise = float(networks.noise.variance[index]) * scale**2
    if not all(np.isfinite(part).all() for layer in layers for part in layer) or not np.isfinite(noise):
        raise NumericalError("PBP's weights or noise are not finite after training; check inputs and targets")
    return Posterior(layers, noise, problem.standardise_inputs, problem.standardise_targets)
