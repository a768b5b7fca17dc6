"""Coordinates: a few combinations of many parameters."""

from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor


class Coordinates(Protocol):
    """A few combinations of the parameters, z = Pθ (r,), and the Jacobian in them.

    P is random and PᵀP the identity on average, so that products of gradients are kept on average.
    """

    @property
    def size(self) -> int:
        """The number of coordinates, r."""
        ...

    def jacobian(self, inputs: Any, followed: int | None = None) -> Tensor:
        """∂f/∂z (m, k, r); with `followed`, of so many of the largest outputs of a row, zero for the others."""
        ...

    def project(self, vectors: Tensor) -> Tensor:
        """The coordinates (..., r) of vectors (..., d)."""
        ...

    def parts(self, vector: Tensor) -> Iterator[tuple[Tensor, int]]:
        """A vector (d,) cut into the parameters that are combined with each other, and their coordinates' number."""
        ...

    def describe(self) -> dict[str, Any]:
        """Entries for an audit's facts."""
        ...
