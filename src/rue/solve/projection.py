"""Random projection: all gradients seen through a few random directions, exact there at any number of outputs."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from rue.concepts import Coupling, Curvature, Facts, Family, Inputs, Inverse, Model
from rue.curvature.penalty import penalty_diagonal
from rue.derivatives import pushed
from rue.errors import SettingError
from rue.randomness import generator
from rue.solve.dense import Cholesky


@dataclass(frozen=True)
class Projection:
    """Parameters move along `size` random directions only, θ̂ + D^(−½)Pᵀz, with D the penalty's curvature.

    P has entries ±1/√size, so that products of two gradients, and with them all influences, are kept up to a relative
    error of about 1/√size (Johnson and Lindenstrauss, 1984). Parameters without a penalty keep a direction each while
    they are few. An approximation: compare with a larger `size`, or another `seed`.
    """

    notices_singular: ClassVar[bool] = True
    size: int = 2048
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size < 2:
            raise SettingError(f"size must be at least 2 directions (2048 by default), got {self.size}")

    def view(self, model: Model) -> Model:
        """The model as a function of z."""
        d = model.theta.numel()
        diagonal = penalty_diagonal(model)
        free = torch.arange(0) if diagonal is None else torch.nonzero(diagonal == 0).flatten().cpu()
        if diagonal is None or len(free) > self.size // 2:  # no scale of its own: damped later
            diagonal, free = torch.ones(d, dtype=torch.float64, device=model.theta.device), torch.arange(0)
            weight = 0.0
        else:
            weight = 1.0
        scale = torch.where(diagonal > 0, diagonal, 1.0).rsqrt() / self.size**0.5
        scale[free] = 0.0
        signs = torch.randint(2, (self.size, d), generator=generator(self.seed), dtype=torch.int8).mul_(2).sub_(1)
        z = torch.zeros(self.size + len(free), dtype=model.theta.dtype, device=model.theta.device)
        place = model.theta.device
        return ProjectedModel(model, z, signs.to(place), scale.to(model.theta), free.to(place), weight)

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor the projected matrix."""
        return Cholesky().factor(curvature, damping)


@dataclass(frozen=True)
class ProjectedModel:
    """A model along random directions: z (r,) instead of theta (d,)."""

    inner: Model
    theta: Tensor = field(repr=False)  # zeros (r,)
    signs: Tensor = field(repr=False)  # (size, d), int8
    scale: Tensor = field(repr=False)  # (d,)
    free: Tensor = field(repr=False)  # the parameters that keep a direction of their own
    weight: float  # of ½‖z‖² over the random directions

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at z."""
        if theta is self.theta:
            return self.inner.predict(self.inner.theta, inputs)
        along = (theta[: len(self.signs)] @ self.signs.to(theta.dtype)) * self.scale.to(theta)
        moved = along.index_add(0, self.free, theta[len(self.signs) :])
        return self.inner.predict(self.inner.theta.to(theta) + moved, inputs)

    def jacobian(self, inputs: Inputs) -> Tensor:
        """∂f/∂z (m, k, r), by pushing every direction forward: never a row of all parameters for each output."""
        return torch.cat([pushed(self.inner, inputs, block) for block in self._directions()], dim=-1)

    def penalty(self, theta: Tensor) -> Tensor:
        """½‖z‖² along the random directions: JL keeps D as the identity."""
        return 0.5 * self.weight * theta[: len(self.signs)].square().sum()

    @property
    def family(self) -> Family:
        """What the outputs mean."""
        return self.inner.family

    @property
    def response(self) -> Any:
        """What turns outputs into predictions."""
        return self.inner.response

    @property
    def classes(self) -> Any:
        """The labels of the classes."""
        return self.inner.classes

    def loss(self, outputs: Tensor, targets: Any) -> Tensor:
        """Loss of each example (n,)."""
        return self.inner.loss(outputs, targets)

    def loss_hessian(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """∂²ℓ/∂f², where it is known."""
        return self.inner.loss_hessian(outputs, targets)

    def coupling(self, outputs: Tensor, targets: Any, weight: Tensor) -> Coupling:
        """The loss of a family whose rows are coupled."""
        return self.inner.coupling(outputs, targets, weight)

    def answer(self, inputs: Any) -> Any:
        """What the user's own estimator predicts."""
        return self.inner.answer(inputs)

    def read(self, inputs: Any) -> Inputs:
        """Turn raw inputs into tensors."""
        return self.inner.read(inputs)

    def read_targets(self, targets: Any) -> Any:
        """Turn raw targets into what `loss` takes."""
        return self.inner.read_targets(targets)

    def bind(self, inputs: Inputs, total_weight: float) -> Self:
        """Bind the model behind."""
        return replace(self, inner=self.inner.bind(inputs, total_weight))

    def describe(self) -> Facts:
        """Say that this is an approximation, and of what."""
        return {**self.inner.describe(), "d": self.inner.theta.numel(), "projected_to": len(self.theta)}

    def _directions(self) -> Any:
        for block in self.signs.split(DIRECTIONS):
            yield block.to(self.scale) * self.scale
        for block in self.free.split(DIRECTIONS):
            rows = torch.zeros(len(block), len(self.scale), dtype=self.scale.dtype, device=self.scale.device)
            rows[torch.arange(len(block)), block] = 1.0
            yield rows


DIRECTIONS = 128  # pushed forward at once
