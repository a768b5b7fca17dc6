"""The tangent of a network: the model that is linear in the parameters and equals the network to first order at θ̂."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from rue.calibrate.left_out.affine import FeatureRows, spectrum
from rue.calibrate.left_out.path import best_refit, downhill, gradient, value_of
from rue.calibrate.left_out.rest import distance, reweighted
from rue.core.concepts import Batch, ExampleLoss, Family, Inputs, Objective, TrainingSet
from rue.core.curvature import GaussNewton
from rue.core.derivatives import followed_batches, jacobian, on_the_tangent, outputs, width
from rue.core.followed import Followed
from rue.core.nested import joined, take
from rue.core.solve.choice import Inverted, invert
from rue.core.stored import storable
from rue.data.rows import Rows, some_units

ENTRIES = 1_500  # maximum number of outputs of rows that the penalty is chosen on
NUMBERS = 2**28  # maximum number of entries of their gradients
DIRECTIONS = 600  # of the parameters that are searched if the loss is not squared error
SETTLED = 0.3  # resampling steps from rest that do not matter for a left-out prediction
STEPS = 2  # maximum number of Newton steps over all rows
CHEAP = 2e10  # operations above which no Newton step is taken: forming the curvature takes a second or more


@storable
@dataclass(frozen=True)
class Tangent:
    """The model f(x) + J(x)(θ − θ̂) with the penalty ½λ Σ metric·(θ − centre)², at its own parameters θ."""

    eigenbases: ClassVar[None] = None

    inner: Objective = field(repr=False)  # the network, at θ̂
    theta: Tensor = field(repr=False)  # (d,)
    centre: Tensor = field(repr=False)  # (d,)
    strength: float  # λ
    metric: Tensor = field(repr=False)  # (d,)

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (c, k), by one forward pass and one directional derivative."""
        return on_the_tangent(self.inner, theta, inputs)

    def jacobian(self, inputs: Inputs) -> Tensor:
        """The Jacobian of the network at θ̂, the same for every theta."""
        return jacobian(self.inner, inputs)

    @property
    def few_outputs(self) -> Callable[[Inputs], Followed] | None:
        """As the network follows them."""
        return self.inner.few_outputs

    def penalty(self, theta: Tensor) -> Tensor:
        """½λ Σ metric·(θ − centre)²."""
        return 0.5 * self.strength * (self.metric.to(theta) * (theta - self.centre.to(theta)).square()).sum()

    def at(self, theta: Tensor) -> Self:
        """The same tangent at other parameters."""
        return replace(self, theta=theta.to(self.theta))

    @property
    def family(self) -> Family:
        """What the outputs mean."""
        return self.inner.family

    @property
    def loss(self) -> ExampleLoss:
        """The loss of an example."""
        return self.inner.loss


@dataclass(frozen=True)
class RefittedTangent:
    """The tangent at its minimum on all training rows, with its curvature."""

    model: Tangent
    inverted: Inverted
    limit: bool  # the search for a penalty ended at its limit


def refitted_tangent(
    model: Objective, data: Rows, centre: Tensor, strength: float | None, seed: int
) -> RefittedTangent:
    """Refit the tangent under a penalty of this strength; if None, of the strength with the least left-out loss."""
    if strength is not None:
        start, limit = at_own(model, centre, strength), False
    else:
        start, limit = _searched(model, data, centre, seed)
    settled, inverted = settle(start, data, seed)
    return RefittedTangent(settled, inverted, limit)


def at_own(model: Objective, centre: Tensor, strength: float) -> Tangent:
    """The tangent at the network's own parameters, under a plain l2."""
    return Tangent(model, model.theta, centre, strength, torch.ones_like(model.theta))


def settle(start: Tangent, data: Rows, seed: int) -> tuple[Tangent, Inverted]:
    """Move a tangent to its minimum on all rows: one Newton step for squared error, a few for other convex losses.

    A few steps from a good start are enough, because left-out predictions are honest also near the minimum.
    """
    curvature = GaussNewton().at(start, data)
    model, inverted = start, invert(curvature, None, None)
    if model.family.gaussian:  # the curvature is the same everywhere, and one step is exact
        step = inverted.inverse.solve(gradient(model, data)[None]).vectors[0]
        return model.at(model.theta.double() - step), inverted
    work = curvature.rank * curvature.size * min(curvature.rank, curvature.size)
    for _ in range(STEPS if work <= CHEAP else 0):
        if distance(model, reweighted(model, data, seed), inverted.inverse).steps <= SETTLED:
            break
        slope = gradient(model, data)
        step = inverted.inverse.solve(slope[None]).vectors[0]
        model, _ = downhill(model, data, step, value_of(model, data), float(slope @ step))
        inverted = invert(GaussNewton().at(model, data), None, None)
    return model, inverted


def _searched(model: Objective, data: TrainingSet, centre: Tensor, seed: int) -> tuple[Tangent, bool]:
    """The tangent with the strength of least left-out loss on some of the rows, at its minimum on these rows."""
    sample = _some_rows(model, data, centre, seed)
    wide = torch.cat([batch.inputs["features"] for batch in sample.parts])
    n, k, d = wide.shape
    weight = sample.weight.to(wide.device).repeat_interleave(k)
    most = None if model.family.gaussian else DIRECTIONS
    metric = _metric(model, wide.view(n * k, d)[weight > 0])
    directions = spectrum(wide.view(n * k, d) * metric.rsqrt(), weight, most)
    basis = metric.rsqrt()[:, None] * directions.basis
    best = best_refit(model, along(sample, basis), directions.values)
    theta = centre.double() + basis @ best.model.theta
    return Tangent(model, theta.to(model.theta), centre, best.model.strength, metric), best.limit


def _metric(model: Objective, gradients: Tensor) -> Tensor:
    """The largest squared gradient of every parameter (d,); a penalty in this metric is independent of their units.

    The mean is not used: it would hardly penalise a parameter that only few rows depend on. A parameter that no row
    depends on is penalised in proportion to its own size, as strongly as the others on average. Parameters that are
    axes of gradients have no units of their own, and are penalised alike.
    """
    theta = model.theta.double()
    if model.family.turned:
        return torch.ones_like(theta)
    largest = gradients.square().amax(0)
    typical = float((largest * theta.square()).mean())
    unmoved = torch.where(theta != 0, typical / theta.square(), 1.0)
    return torch.where(largest > 0, largest, unmoved)


def along(rows: FeatureRows, basis: Tensor) -> FeatureRows:
    """The same rows in the coordinates of a basis (q, r)."""
    parts = tuple(
        batch._replace(inputs={"offset": batch.inputs["offset"], "features": batch.inputs["features"] @ basis})
        for batch in rows.parts
    )
    return replace(rows, parts=parts)


def _some_rows(model: Objective, data: TrainingSet, centre: Tensor, seed: int) -> FeatureRows:
    """Offsets f − J(θ̂ − centre) and gradients J in float64, for whole units drawn at random."""
    k = width(model, data)
    most = min(ENTRIES // k if model.family.gaussian else ENTRIES, NUMBERS // (k * model.theta.numel()))
    chosen = some_units(data, most, seed)
    moved = (model.theta - centre.to(model.theta)).double()
    parts, start = [], 0
    for batch, all_rows in followed_batches(model, data):
        here = torch.nonzero(chosen[batch.rows]).flatten().to(all_rows.values.device)
        if not len(here):
            continue
        features = all_rows.some(here).double().whole()
        offset = outputs(model, batch.inputs)[here].double() - features @ moved
        rows = slice(start, start + len(here))
        start = rows.stop
        inputs = {"offset": offset, "features": features}
        parts.append(Batch(inputs, take(batch.targets, here), batch.weight[here], rows))
    unit = torch.unique(data.unit[chosen], return_inverse=True)[1]
    return FeatureRows((_together(parts),), data.weight[chosen], unit, int(unit.max()) + 1)


def _together(parts: list[Batch]) -> Batch:
    """Several batches as one, because each of hundreds of evaluations goes over all of them."""
    inputs = {name: torch.cat([part.inputs[name] for part in parts]) for name in ("offset", "features")}
    targets = joined([part.targets for part in parts])
    return Batch(inputs, targets, torch.cat([part.weight for part in parts]), slice(0, parts[-1].rows.stop))
