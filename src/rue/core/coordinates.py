"""Coordinates: combinations of parameters, a few of many or as many in another basis."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from torch import Tensor


class CurvedRows(NamedTuple):
    """Some training rows, and how their losses curve."""

    inputs: Any
    root: Tensor  # (c, k, k), S with SᵀS = ∂²ℓ/∂f²
    weight: Tensor  # (c,)


class Coordinates(Protocol):
    """Combinations of the parameters, z = Pθ (r,), and the Jacobian in them.

    A few are random, with PᵀP the identity on average, so that products of gradients are kept on average; as many
    as there are parameters are orthogonal, and keep them exactly.
    """

    @property
    def size(self) -> int:
        """The number of coordinates, r."""
        ...

    def jacobian(self, inputs: Any, followed: Tensor | None = None) -> Tensor:
        """∂f/∂z (m, k, r), or of the `followed` outputs of each row (m, f) alone: (m, f, r)."""
        ...

    def held(self, rows: int) -> int:
        """Bytes of hidden layers that are in memory at once while these many rows are read."""
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
