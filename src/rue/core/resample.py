"""Resamplers: random weights of the units, with mean one, that stand for other possible training sets.

A unit is a training row, or a group of rows. The weights of every resampler have a covariance of the same form,
scale · (I − shared · 11ᵀ/u), so that the variance of any linear statistic of the weights is exact. Random numbers come
from explicit generators, and the global random state of a program stays as it is.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rue.core.concepts import Resampler, WeightCovariance
from rue.core.process import filters_kept, surely
from rue.core.stored import storable


def generator(seed: int) -> torch.Generator:
    """Return a generator on the CPU, so that one seed gives the same draws on every device."""
    return torch.Generator(device="cpu").manual_seed(seed)


@contextmanager
def usual_switches() -> Iterator[None]:
    """Switch off what a user has switched on for the whole thread: autocast, and another default device."""
    with ExitStack() as usual:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                usual.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device().type != "cpu":
            usual.enter_context(torch.device("cpu"))
        yield


@contextmanager
def untouched() -> Iterator[None]:
    """Restore the random state of Python, NumPy and PyTorch after the block, and filters that threads mixed up.

    Inside, autocast is off and new tensors are on the CPU.
    """
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002  the global state is the point
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def restore() -> None:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002  as above
        torch.set_rng_state(cpu)
        if devices:
            torch.cuda.set_rng_state_all(devices)

    try:
        with filters_kept(), usual_switches():
            yield
    finally:
        surely(restore)


@storable
@dataclass(frozen=True)
class Multinomial:
    """Efron's bootstrap: u units drawn with replacement (Algorithm 1, line 7)."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """How often each unit was drawn: (b, u)."""
        counts = torch.empty(members, units, dtype=torch.float64)
        for row in counts:
            row.copy_(torch.bincount(torch.randint(units, (units,), generator=generator), minlength=units))
        return counts

    def covariance(self, units: int) -> WeightCovariance:  # noqa: ARG002  every resampler has this signature
        """I − 11ᵀ/u. Its diagonal is (u − 1)/u; the paper's proof of Claim 1 has a misprint there."""
        return WeightCovariance(scale=1.0, shared=1.0)

    def member_factor(self, units: int) -> float:  # noqa: ARG002  as above
        """One: the members have the right variance."""
        return 1.0


@storable
@dataclass(frozen=True)
class BayesianBootstrap:
    """Rubin's bootstrap: u times a flat Dirichlet draw, so that no unit is ever left out."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """Smooth weights that sum to u: (b, u)."""
        waits = torch.empty(members, units, dtype=torch.float64).exponential_(generator=generator)
        return units * waits / waits.sum(1, keepdim=True)

    def covariance(self, units: int) -> WeightCovariance:
        """That of the bootstrap times u/(u + 1)."""
        return WeightCovariance(scale=units / (units + 1), shared=1.0)

    def member_factor(self, units: int) -> float:  # noqa: ARG002  as above
        """One: the members have the right variance."""
        return 1.0


@storable
@dataclass(frozen=True)
class Poisson:
    """Independent Poisson counts: the size of the training set varies too."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """Independent counts with mean one: (b, u)."""
        return torch.poisson(torch.ones(members, units, dtype=torch.float64), generator=generator)

    def covariance(self, units: int) -> WeightCovariance:  # noqa: ARG002  as above
        """The identity, because the counts are independent."""
        return WeightCovariance(scale=1.0, shared=0.0)

    def member_factor(self, units: int) -> float:  # noqa: ARG002  as above
        """One: the members have the right variance."""
        return 1.0


@storable
@dataclass(frozen=True)
class Jackknife:
    """One unit left out at a time; with fewer members than units, a random choice of units."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """Zero for one unit and u/(u − 1) for the rest: (min(b, u), u)."""
        left_out = torch.randperm(units, generator=generator)[:members]
        weights = torch.full((len(left_out), units), units / (units - 1), dtype=torch.float64)
        weights[torch.arange(len(left_out)), left_out] = 0.0
        return weights

    def covariance(self, units: int) -> WeightCovariance:
        """Scaled so that the variance is the jackknife's, (u − 1)/u Σ (Tᵢ − T̄)²."""
        return WeightCovariance(scale=units / (units - 1), shared=1.0)

    def member_factor(self, units: int) -> float:
        """(u − 1)²/u: training sets that differ in one unit only vary that much less than independent ones."""
        return (units - 1) ** 2 / units


def variance(resampler: Resampler, values: Tensor) -> Tensor:
    """The exact variance of Σ values · w over the last axis: (..., u) -> (...).

    >>> float(variance(Multinomial(), torch.tensor([1.0, 2.0, 3.0])))
    2.0
    """
    return spread(resampler, values).square().sum(-1)


def spread(resampler: Resampler, values: Tensor) -> Tensor:
    """Values (..., u) multiplied by a root of the weights' covariance: products of two results are covariances."""
    scale, shared = resampler.covariance(values.shape[-1])
    return scale**0.5 * (values - _keep(shared) * values.mean(-1, keepdim=True))


def _keep(shared: float) -> float:
    """The number `keep` for which I − keep·11ᵀ/u is a root of I − shared·11ᵀ/u."""
    return 1.0 - float((1.0 - shared) ** 0.5)
