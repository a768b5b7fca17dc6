"""Models that are linear in their parameters, on the features of a network's tangent or of a kernel."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, TypeVar

from torch import Tensor

from rue.core.concepts import Batch, ExampleLoss, Family, Inputs, Objective, Solution

Movable = TypeVar("Movable", bound="Convex")


class Judge(Protocol):
    """The loss of outputs, and their meaning: the part of an `Objective` that does not depend on parameters."""

    @property
    def family(self) -> Family:
        """What the outputs mean."""
        ...

    @property
    def loss(self) -> ExampleLoss:
        """The loss of an example."""
        ...


class Convex(Objective, Protocol):
    """An objective that is convex in its parameters, and that can be evaluated at other parameters."""

    def at(self, theta: Tensor) -> Self:
        """The same objective at other parameters (d,)."""
        ...


@dataclass(frozen=True)
class Affine:
    """Outputs are an offset plus features times u, under the loss of another model and the penalty ½λ‖u‖².

    Its inputs are dicts of an "offset" (c, k) and "features" (c, k, r).
    """

    like: Judge = field(repr=False)  # provides the loss
    theta: Tensor = field(repr=False)  # u (r,)
    strength: float  # λ

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (c, k)."""
        predicted: Tensor = inputs["offset"] + inputs["features"] @ theta
        return predicted

    def jacobian(self, inputs: Inputs) -> Tensor:
        """The features (c, k, r)."""
        features: Tensor = inputs["features"]
        return features

    def penalty(self, theta: Tensor) -> Tensor:
        """½λ‖u‖²."""
        return 0.5 * self.strength * theta.square().sum()

    def at(self, theta: Tensor) -> Self:
        """The same model at other parameters."""
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
    """Training rows as the features that an `Affine` model reads."""

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
    """The inverse of a diagonal curvature: squared error, in the eigenvector coordinates of the features."""

    diagonal: Tensor = field(repr=False)  # (r,)

    def solve(self, vectors: Tensor) -> Solution:
        """Divide every row of (q, r)."""
        return Solution(vectors.double() / self.diagonal, 0.0)
