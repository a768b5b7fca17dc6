"""Measures whether parameters are at rest (at a minimum): the Newton decrement in units of a resampling step.

The size of the raw gradient depends on the units of the parameters; gᵀH̃⁻¹g does not. Divided by its typical value
under resampling, E[(L(w − 1))ᵀH̃⁻¹L(w − 1)], it does not depend on the units of the loss either.
"""

from dataclasses import dataclass, field
from math import inf, sqrt

import torch
from torch import Tensor

from rue.core.concepts import Objective, Solving, TrainingSet
from rue.core.derivatives import on_the_tangent
from rue.core.gradient_sums import weighted_gradients
from rue.core.nested import take
from rue.core.resample import Multinomial, generator
from rue.data.rows import Rows

DRAWS = 64  # re-weightings to estimate a typical resampling step: a relative error of at most √(2/64)
CLOSE = 0.1  # typical resampling steps up to which parameters are at rest: adds a hundredth to a squared step
FEW = 16  # rows that are used to test whether a model is linear
STRAIGHT = 1e-4  # relative deviation from the tangent up to which a model is linear


@dataclass(frozen=True)
class Distance:
    """The distance from rest, and the penalty that would make it smallest."""

    decrement: float  # gᵀH̃⁻¹g of g = Σ∇ℓ + ∇R, in units of the loss
    steps: float  # the root of the decrement, in typical resampling steps
    factor: float  # the ĉ that makes Σ∇ℓ + ĉ∇R smallest; without a penalty, the l2 that does so
    share: float  # the part of the decrement that vanishes with ĉ
    stated: bool  # whether there is a penalty


def distance(model: Objective, gradients: "Reweighted", inverse: Solving) -> Distance:
    """The distance from rest at the model's theta."""
    penalty = penalty_gradient(model)
    stated = bool((penalty != 0).any())
    direction = penalty if stated else model.theta.double()
    solved = inverse.solve(torch.stack([gradients.whole, direction, *gradients.drawn])).vectors
    across, along = float(gradients.whole @ solved[1]), float(direction @ solved[1])
    factor = -across / along if along > 0 else 0.0

    def size(times: float) -> float:
        """‖Σ∇ℓ + times·direction‖² in the metric of H̃⁻¹; both parts are added first, because they cancel at rest."""
        return max(0.0, float((gradients.whole + times * direction) @ (solved[0] + times * solved[1])))

    decrement, least = size(1.0 if stated else 0.0), size(factor)
    typical = float((gradients.drawn * solved[2:]).sum(-1).mean())
    return Distance(
        decrement=decrement,
        steps=sqrt(decrement / typical) if typical > 0 else (inf if decrement > 0 else 0.0),
        factor=factor,
        share=1 - least / decrement if decrement > 0 else 0.0,
        stated=stated,
    )


def raw_steps(gradients: "Reweighted", pull: Tensor) -> float:
    """‖Σ∇ℓ + pull‖ relative to its typical size under resampling: a quick test that needs no solve."""
    typical = float(gradients.drawn.square().sum(-1).mean())
    size = float((gradients.whole + pull).square().sum())
    return sqrt(size / typical) if typical > 0 else (inf if size > 0 else 0.0)


def penalty_gradient(model: Objective) -> Tensor:
    """∇R(θ̂): (d,) in float64."""
    with torch.enable_grad():
        theta = model.theta.detach().double().requires_grad_()
        value = model.penalty(theta)
        if not value.requires_grad:
            return torch.zeros_like(theta)
        (gradient,) = torch.autograd.grad(value, theta, allow_unused=True)
    return torch.zeros_like(theta) if gradient is None else gradient


@dataclass(frozen=True)
class Reweighted:
    """Gradients of the loss without the penalty, for the original and for resampled weights."""

    whole: Tensor = field(repr=False)  # (d,), Σ∇ℓᵢ
    drawn: Tensor = field(repr=False)  # (b, d), L(w − 1)


def reweighted(model: Objective, data: Rows, seed: int, draws: int = DRAWS) -> Reweighted:
    """The sum over all rows, and `draws` bootstrap samples of the units of a sample, in the size they have for all."""
    rows = data.sample
    drawn = Multinomial().draw(rows.units, draws, generator(seed)).sub_(1)[:, rows.unit]
    one = torch.ones(1, data.n, dtype=torch.float64)
    if rows is data:
        gradients = weighted_gradients(model, data, torch.cat([one, drawn]))
        return Reweighted(gradients[0], gradients[1:])
    times = sqrt(data.units / rows.units)
    return Reweighted(weighted_gradients(model, data, one)[0], times * weighted_gradients(model, rows, drawn))


def is_linear(model: Objective, data: TrainingSet) -> bool:
    """Whether outputs are linear in the parameters, so that influence can be used at any leverage.

    A projection of a model tells nothing about that: it stands at zero, and sketches are straight by construction.
    """
    if model.family.projected or model.family.straight:
        return False
    inputs = take(next(iter(data.batches())).inputs, slice(0, FEW))
    twice = 2 * model.theta
    with torch.no_grad():
        predicted, straight = model.predict(twice, inputs), on_the_tangent(model, twice, inputs)
    scale = float(predicted.abs().max()) + float(straight.abs().max())
    return float((predicted - straight).abs().max()) <= STRAIGHT * scale
