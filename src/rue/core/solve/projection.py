"""Random projection: the parameters move only along the images of random vectors under the curvature."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from rue.core.concepts import (
    Curvature,
    ExampleLoss,
    Facts,
    Family,
    Inputs,
    Inverse,
    Objective,
    TrainedObjective,
    TrainingSet,
)
from rue.core.curvature import penalty_diagonal
from rue.core.derivatives import pushed
from rue.core.errors import SettingError
from rue.core.memory import kept
from rue.core.products import gauss_newton_product
from rue.core.progress import track
from rue.core.resample import generator
from rue.core.solve.dense import Cholesky
from rue.core.stored import storable

DIRECTIONS = 128  # multiplied by the Jacobian at once
COLUMNS = 2**13  # of the directions combined at once
FLAT = 1e-12  # times the largest eigenvalue: below it, a direction is a combination of the others


@dataclass(frozen=True)
class Projection:
    """Parameters move along `size` directions only, θ̂ + D^(−½)Qᵀz, with D the penalty's curvature over its mean.

    Q spans D^(−½)HD^(−½) times random vectors (Halko, Martinsson and Tropp, 2011), where H is the Gauss–Newton matrix
    of the data. If its eigenvalues fall quickly, few directions carry nearly all of every influence. Parameters without
    a penalty keep a direction of their own, if they are few. Where penalties differ, a damping is in units of them.
    This is an approximation: compare it with a larger `size` or another `seed`.
    """

    notices_singular: ClassVar[bool] = True
    size: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size < 2:
            raise SettingError(f"size must be at least 2 directions (1024 by default), got {self.size}")

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:
        """The objective as a function of z."""
        d, place = core.theta.numel(), core.theta.device
        diagonal = penalty_diagonal(core)
        free = torch.arange(0) if diagonal is None else torch.nonzero(diagonal == 0).flatten().cpu()
        penalised = diagonal is not None and len(free) <= self.size // 2
        strength = 0.0
        if diagonal is None or not penalised:  # the penalty gives no scale; the curvature is damped later
            diagonal, free = torch.ones(d, dtype=torch.float64, device=place), torch.arange(0)
        else:  # in units of their own, so that one penalty for all parameters changes no damping
            strength = float(diagonal[diagonal > 0].double().log().mean().exp()) if len(free) < d else 1.0
            diagonal = diagonal / strength
        scale = torch.where(diagonal > 0, diagonal, torch.inf).rsqrt()
        directions = self._directions(core, data, scale) if bool(scale.any()) else core.theta.new_zeros(0, d)
        z = torch.zeros(len(directions) + len(free), dtype=core.theta.dtype, device=place)
        return ProjectedObjective(core, z, directions, free.to(place), diagonal, strength)

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor the projected matrix."""
        return Cholesky().factor(curvature, damping)

    def _directions(self, model: Objective, data: TrainingSet, scale: Tensor) -> Tensor:
        """QD^(−½), rows (r, d)."""
        drawn = generator(self.seed)
        rows = torch.empty(self.size, len(scale), dtype=torch.float64, device=scale.device)
        for part in track("directions", rows.split(DIRECTIONS)):
            block = torch.randn(len(part), len(scale), generator=drawn, dtype=torch.float32).to(scale.device)
            part.copy_(gauss_newton_product(model, data, block.mul_(scale.to(block))).mul_(scale))
        values, vectors = torch.linalg.eigh(rows @ rows.T)
        kept = values > FLAT * values[-1].clamp_min(torch.finfo(torch.float64).tiny)
        mixing = (vectors[:, kept] / values[kept].sqrt()).T
        directions = torch.empty(len(mixing), len(scale), dtype=model.theta.dtype, device=scale.device)
        for columns in torch.arange(len(scale), device=scale.device).split(COLUMNS):  # avoids a second float64 copy
            directions[:, columns] = (mixing @ rows[:, columns] * scale[columns]).to(directions)
        return directions


@storable
@dataclass(frozen=True)
class ProjectedObjective:
    """An objective along random directions: z (r,) instead of theta (d,)."""

    sketched: ClassVar[None] = None
    ridge: ClassVar[None] = None
    eigenbases: ClassVar[None] = None
    few_outputs: ClassVar[None] = None
    gradient_products: ClassVar[None] = None
    by_layer: ClassVar[None] = None

    inner: TrainedObjective
    theta: Tensor = field(repr=False)  # zeros (r,)
    directions: Tensor = field(repr=False)  # (r − f, d)
    free: Tensor = field(repr=False)  # (f,), the parameters that keep a direction of their own
    diagonal: Tensor = field(repr=False)  # (d,), D, in whose units the directions are orthonormal
    weight: float  # of the penalty ½‖z − centre‖² along `directions`; 0 without a penalty

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at z."""
        if theta is self.theta:
            return self.inner.predict(self.inner.theta, inputs)
        along, alone = theta.split([len(self.directions), len(self.free)])
        moved = (along @ self.directions.to(theta)).index_add(0, self.free, alone)
        return self.inner.predict(self.inner.theta.to(theta) + moved, inputs)

    def jacobian(self, inputs: Inputs) -> Tensor:
        """∂f/∂z (m, k, r) by forward derivatives along every direction, so that ∂f/∂θ (m, k, d) is never stored."""

        def make() -> Tensor:
            return torch.cat([pushed(self.inner, inputs, block) for block in self._blocks()], dim=-1)

        return kept("Jacobian", self, inputs, make)

    def penalty(self, theta: Tensor) -> Tensor:
        """½‖z − centre‖²: the directions are orthonormal in the units of the penalty."""
        away = (theta - self.centre.to(theta))[: len(self.directions)]
        return 0.5 * self.weight * away.square().sum()

    @cached_property
    def centre(self) -> Tensor:
        """The z (r,) where the penalty is least: the inner centre in the coordinates of the directions."""
        away = (self.inner.centre - self.inner.theta).double()
        pulled, along = self.diagonal * away, away.new_zeros(len(self.directions))
        for columns in torch.arange(len(away), device=away.device).split(COLUMNS):  # avoids a second float64 copy
            along += self.directions[:, columns].double() @ pulled[columns]
        return torch.cat([along, away[self.free]]).to(self.theta)

    @property
    def stated(self) -> bool:
        """Delegates to the inner objective."""
        return self.inner.stated

    @property
    def family(self) -> Family:
        """The family of the inner objective, marked as projected."""
        return replace(self.inner.family, projected=True)

    @property
    def loss(self) -> ExampleLoss:
        """The loss of an example."""
        return self.inner.loss

    def contents(self) -> Iterator[str | Tensor]:
        """The contents of the inner objective."""
        return self.inner.contents()

    def describe(self) -> Facts:
        """The facts of the inner objective, and the number of directions it was projected to."""
        return {**self.inner.describe(), "d": self.inner.theta.numel(), "projected_to": len(self.theta)}

    def _blocks(self) -> Iterator[Tensor]:
        yield from self.directions.split(DIRECTIONS)
        for block in self.free.split(DIRECTIONS):
            yield torch.nn.functional.one_hot(block, self.inner.theta.numel()).to(self.inner.theta)
