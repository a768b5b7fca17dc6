"""Models that are linear in their parameters, on the features of a network's tangent or of a kernel."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from rue.core.concepts import Batch, ExampleLoss, Family, Inputs, Objective, Solution
from rue.core.resample import generator
from rue.core.stored import storable

Movable = TypeVar("Movable", bound="Convex")
MANY = 3  # with more than so many times the wanted directions, a randomised method is used
FLAT = 1e-12  # times the largest eigenvalue: directions below it are dropped as rounding errors


class Spectrum(NamedTuple):
    """Coordinates z = rows times `basis`, in which Σ w zzᵀ is diagonal with `values`."""

    basis: Tensor  # (q, r)
    values: Tensor  # (r,)


def spectrum(rows: Tensor, weight: Tensor, most: int | None = None) -> Spectrum:
    """The spectrum of rows (N, q) with weights (N,), by the smaller Gram matrix; at most the `most` largest directions.

    If there are many more directions, the largest come from random combinations of the rows (Halko et al. 2011).

    >>> spectrum(torch.tensor([[3.0, 0.0], [0.0, 2.0]]), torch.ones(2)).values
    tensor([4., 9.])
    """
    scaled = weight.sqrt()[:, None] * rows
    if most is not None and min(scaled.shape) > MANY * most:
        mixes = torch.randn(2 * most, len(scaled), generator=generator(0), dtype=scaled.dtype).to(scaled.device)
        within = torch.linalg.qr((mixes @ scaled).T).Q  # (q, 2·most)
        inner = spectrum(scaled @ within, torch.ones_like(weight), most)
        return Spectrum(within @ inner.basis, inner.values)
    tall = len(scaled) > scaled.shape[1]
    values, vectors = torch.linalg.eigh(scaled.T @ scaled if tall else scaled @ scaled.T)
    kept = torch.nonzero(values > FLAT * values[-1]).flatten()
    kept = kept if most is None else kept[-most:]
    values, vectors = values[kept], vectors[:, kept]
    return Spectrum(vectors if tall else scaled.T @ vectors / values.sqrt(), values)


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


@storable
@dataclass(frozen=True)
class Affine:
    """Outputs are an offset plus features times u, under the loss of another model and the penalty ½λ‖u‖².

    Its inputs are dicts of an "offset" (c, k) and "features" (c, k, r).
    """

    few_outputs: ClassVar[None] = None
    eigenbases: ClassVar[None] = None

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


@storable
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

    @property
    def whole(self) -> "FeatureRows":
        """These rows."""
        return self

    def blocks(self, most: int) -> tuple["FeatureRows"]:  # noqa: ARG002  they are few
        """All rows."""
        return (self,)

    def batches(self) -> Iterator[Batch]:
        """Every row once, in the same order on every pass."""
        yield from self.parts


@storable
@dataclass(frozen=True)
class Diagonal:
    """The inverse of a diagonal curvature: squared error, in the eigenvector coordinates of the features."""

    diagonal: Tensor = field(repr=False)  # (r,)

    def solve(self, vectors: Tensor) -> Solution:
        """Divide every row of (q, r)."""
        return Solution(vectors.double() / self.diagonal, 0.0)
