"""Which training sets might have been: random weights of the units, with mean one.

A unit is a training row, or a group of rows. Every resampler's weights have a covariance of the same form,
scale · (I − shared · 11ᵀ/u), so that the variance of any linear statistic of them is known exactly.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rue.core.concepts import Resampler, WeightCovariance


@dataclass(frozen=True)
class Multinomial:
    """Efron's bootstrap: u units drawn with replacement (Algorithm 1, line 7)."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """How often each unit was drawn: (b, u)."""
        counts = torch.empty(members, units, dtype=torch.float64)
        for row in counts:
            row.copy_(torch.bincount(torch.randint(units, (units,), generator=generator), minlength=units))
        return counts

    def covariance(self, units: int) -> WeightCovariance:  # noqa: ARG002  the form is the family's
        """I − 11ᵀ/u: the diagonal is (u − 1)/u, which the paper's proof of Claim 1 misprints."""
        return WeightCovariance(scale=1.0, shared=1.0)

    def member_factor(self, units: int) -> float:  # noqa: ARG002  as above
        """Members vary as much as they should."""
        return 1.0


@dataclass(frozen=True)
class BayesianBootstrap:
    """Rubin's bootstrap: u times a flat Dirichlet draw, so that no unit is ever left out."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """Smooth weights that sum to u: (b, u)."""
        waits = torch.empty(members, units, dtype=torch.float64).exponential_(generator=generator)
        return units * waits / waits.sum(1, keepdim=True)

    def covariance(self, units: int) -> WeightCovariance:
        """Slightly less than the bootstrap's."""
        return WeightCovariance(scale=units / (units + 1), shared=1.0)

    def member_factor(self, units: int) -> float:  # noqa: ARG002  as above
        """Members vary as much as they should."""
        return 1.0


@dataclass(frozen=True)
class Poisson:
    """Independent counts: the size of the training set might have been otherwise too."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """Independent counts with mean one: (b, u)."""
        return torch.poisson(torch.ones(members, units, dtype=torch.float64), generator=generator)

    def covariance(self, units: int) -> WeightCovariance:  # noqa: ARG002  as above
        """The identity: nothing is centred."""
        return WeightCovariance(scale=1.0, shared=0.0)

    def member_factor(self, units: int) -> float:  # noqa: ARG002  as above
        """Members vary as much as they should."""
        return 1.0


@dataclass(frozen=True)
class Jackknife:
    """One unit left out at a time; with fewer members than units, a random choice of those left out."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """Zero for one unit and u/(u − 1) for the rest: (min(b, u), u)."""
        left_out = torch.randperm(units, generator=generator)[:members]
        weights = torch.full((len(left_out), units), units / (units - 1), dtype=torch.float64)
        weights[torch.arange(len(left_out)), left_out] = 0.0
        return weights

    def covariance(self, units: int) -> WeightCovariance:
        """The jackknife's own variance, (u − 1)/u Σ (Tᵢ − T̄)²."""
        return WeightCovariance(scale=units / (units - 1), shared=1.0)

    def member_factor(self, units: int) -> float:
        """Training sets that differ in one unit only vary (u − 1)²/u times too little."""
        return (units - 1) ** 2 / units


def variance(resampler: Resampler, values: Tensor) -> Tensor:
    """The exact variance of Σ values · w over the last axis: (..., u) -> (...).

    >>> float(variance(Multinomial(), torch.tensor([1.0, 2.0, 3.0])))
    2.0
    """
    return spread(resampler, values).square().sum(-1)


def spread(resampler: Resampler, values: Tensor) -> Tensor:
    """Values (..., u) turned so that products of two spreads are exact covariances."""
    scale, shared = resampler.covariance(values.shape[-1])
    return scale**0.5 * (values - _keep(shared) * values.mean(-1, keepdim=True))


def _keep(shared: float) -> float:
    """I − shared·11ᵀ/u has the root I − keep·11ᵀ/u."""
    return 1.0 - float((1.0 - shared) ** 0.5)
