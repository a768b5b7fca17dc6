"""Models that are linear in their parameters: a network's tangent, a kernel's features."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, TypeVar

from torch import Tensor

from rue.core.concepts import Batch, ExampleLoss, Family, Inputs, Objective, Solution

Movable = TypeVar("Movable", bound="Convex")


class Judge(Protocol):
    """What outputs are worth beside targets: the part of an `Objective` that knows no parameters."""

    @property
    def family(self) -> Family:
        """What the outputs mean."""
        ...

    @property
    def loss(self) -> ExampleLoss:
        """The loss of an example."""
        ...


class Convex(Objective, Protocol):
    """An objective that is convex in its parameters, and can be moved to others."""

    def at(self, theta: Tensor) -> Self:
        """The same at other parameters (d,)."""
        ...


@dataclass(frozen=True)
class Affine:
    """Outputs are an offset plus features times u, under the loss of another model and the penalty ½λ‖u‖².

    Its inputs are dicts of an "offset" (c, k) and "features" (c, k, r).
    """

    like: Judge = field(repr=False)  # whose loss it has
    theta: Tensor = field(repr=False)  # u (r,)
    strength: float  # λ

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (c, k)."""
        found: Tensor = inputs["offset"] + inputs["features"] @ theta
        return found

    def jacobian(self, inputs: Inputs) -> Tensor:
        """The features (c, k, r)."""
        found: Tensor = inputs["features"]
        return found

    def penalty(self, theta: Tensor) -> Tensor:
        """½λ‖u‖²."""
        return 0.5 * self.strength * theta.square().sum()

    def at(self, theta: Tensor) -> Self:
        """The same at other parameters."""
        return replace(self, theta=theta)

    @property
    def family(self) -> Family:
        """What the outputs mean."""
        return self.like.family

    @property
    def loss(self) -> ExampleLoss:
        """The loss of an example."""
        return self.like.loss


@dataclass(frozen=True)
class FeatureRows:
    """Training rows as features: what an `Affine` model reads."""

    parts: tuple[Batch, ...] = field(repr=False)
    weight: Tensor = field(repr=False)  # (n,)
    unit: Tensor = field(repr=False)  # (n,)
    units: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.weight)

    def batches(self) -> Iterator[Batch]:
        """Every row once, in the same order on every pass."""
        yield from self.parts


@dataclass(frozen=True)
class Diagonal:
    """Of a curvature that is diagonal: squared error, in the coordinates of the features' own spectrum."""

    diagonal: Tensor = field(repr=False)  # (r,)

    def solve(self, vectors: Tensor) -> Solution:
        """Divide every row of (q, r)."""
        return Solution(vectors.double() / self.diagonal, 0.0)
