"""How far parameters are from where an objective is at rest: the Newton decrement in units of a resampling step.

The raw gradient cannot tell: its size depends on the units of the parameters. gᵀH̃⁻¹g does not, and divided by what
resampling makes of it, E[(L(w − 1))ᵀH̃⁻¹L(w − 1)], it has no units of the loss either.
"""

from dataclasses import dataclass, field
from math import inf, sqrt

import torch
from torch import Tensor

from rue.core.concepts import Objective, Solving, TrainingSet
from rue.core.derivatives import on_the_tangent, weighted_gradients
from rue.core.nested import take
from rue.core.randomness import generator
from rue.core.resample import Multinomial

DRAWS = 64  # re-weightings behind the size of a typical resampling step: known to √(2/64) at worst, of one parameter
CELLS = 2**25  # weights drawn at once, at most: fewer re-weightings of very many rows
# Of a typical resampling step: its square, a hundredth, is what being off adds to a squared step
CLOSE = 0.1
FEW = 16  # rows that tell whether a model is linear
STRAIGHT = 1e-4


@dataclass(frozen=True)
class Distance:
    """The distance, and the penalty under which it would be least."""

    decrement: float  # gᵀH̃⁻¹g of g = Σ∇ℓ + ∇R, in units of the loss
    steps: float  # its root, in typical resampling steps
    factor: float  # ĉ that makes Σ∇ℓ + ĉ∇R smallest; without a penalty, the l2 that does so
    share: float  # of the decrement that ĉ takes away
    stated: bool  # whether there is a penalty


def distance(model: Objective, seen: "Reweighted", inverse: Solving) -> Distance:
    """Measure at the model's theta."""
    penalty = penalty_gradient(model)
    stated = bool((penalty != 0).any())
    direction = penalty if stated else model.theta.double()
    solved = inverse.solve(torch.stack([seen.whole, direction, *seen.drawn])).vectors
    across, along = float(seen.whole @ solved[1]), float(direction @ solved[1])
    factor = -across / along if along > 0 else 0.0

    def size(times: float) -> float:
        """‖Σ∇ℓ + times·direction‖² in the metric of H̃⁻¹; sums first, because both parts cancel at rest."""
        return max(0.0, float((seen.whole + times * direction) @ (solved[0] + times * solved[1])))

    decrement, least = size(1.0 if stated else 0.0), size(factor)
    typical = float((seen.drawn * solved[2:]).sum(-1).mean())
    return Distance(
        decrement=decrement,
        steps=sqrt(decrement / typical) if typical > 0 else (inf if decrement > 0 else 0.0),
        factor=factor,
        share=1 - least / decrement if decrement > 0 else 0.0,
        stated=stated,
    )


def raw_steps(seen: "Reweighted", pull: Tensor) -> float:
    """‖Σ∇ℓ + pull‖ in units of what resampling makes of it: a first look, in the units of the parameters."""
    typical = float(seen.drawn.square().sum(-1).mean())
    size = float((seen.whole + pull).square().sum())
    return sqrt(size / typical) if typical > 0 else (inf if size > 0 else 0.0)


def penalty_gradient(model: Objective) -> Tensor:
    """∇R(θ̂): (d,) in float64."""
    with torch.enable_grad():
        theta = model.theta.detach().double().requires_grad_()
        value = model.penalty(theta)
        if not value.requires_grad:
            return torch.zeros_like(theta)
        (found,) = torch.autograd.grad(value, theta, allow_unused=True)
    return torch.zeros_like(theta) if found is None else found


@dataclass(frozen=True)
class Reweighted:
    """Gradients of the loss, the penalty left aside."""

    whole: Tensor = field(repr=False)  # (d,), Σ∇ℓᵢ
    drawn: Tensor = field(repr=False)  # (b, d), L(w − 1)


def reweighted(model: Objective, data: TrainingSet, seed: int) -> Reweighted:
    """One pass over the rows for the sum and for `DRAWS` bootstrap samples of the units."""
    count = min(DRAWS, max(8, CELLS // data.n))
    drawn = Multinomial().draw(data.units, count, generator(seed)).sub_(1)[:, data.unit]
    weights = torch.cat([torch.ones(1, data.n, dtype=torch.float64), drawn])
    found = weighted_gradients(model, data, weights)
    return Reweighted(found[0], found[1:])


def is_linear(model: Objective, data: TrainingSet) -> bool:
    """Whether outputs are linear in the parameters: influence is then what leaving out does, whatever the leverage."""
    inputs = take(next(iter(data.batches())).inputs, slice(0, FEW))
    twice = 2 * model.theta
    with torch.no_grad():
        found, straight = model.predict(twice, inputs), on_the_tangent(model, twice, inputs)
    scale = float(found.abs().max()) + float(straight.abs().max())
    return float((found - straight).abs().max()) <= STRAIGHT * scale
