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

    @property
    def combined(self) -> bool:
        """Whether there are fewer than there are parameters that rows use."""
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


class GradientProducts(Protocol):
    """Products JD⁻¹Jᵀ with the gradients of all training rows, made without holding the gradients.

    A direction v (d,) of the parameters stands behind the rows; its product with a gradient is Jv.
    """

    @property
    def numbers(self) -> int:
        """How many numbers of a row and output are held, over all passes; as many multiplications make a product."""
        ...

    @property
    def keepable(self) -> bool:
        """Whether the gradients of all training rows take little memory."""
        ...

    def remembered(self) -> "GradientProducts":
        """The same, with the gradients of all training rows kept in memory where they take little of it."""
        ...

    def gram(self) -> Tensor:
        """The products of all outputs of training rows, and then of the direction, with each other (n·k+1, n·k+1)."""
        ...

    def with_rows(self, inputs: Any) -> tuple[Tensor, Tensor]:
        """Products of other rows with training rows and direction (c, k, n·k+1), and within each row (c, k, k)."""
        ...

    def along(self, vector: Tensor) -> Tensor:
        """The products of v (d,) with all outputs of training rows, Jv, and with the direction (n·k+1,)."""
        ...

    def held(self, rows: int) -> int:
        """Bytes of hidden layers that are in memory at once while these many rows are read."""
        ...

    def describe(self) -> dict[str, Any]:
        """Entries for an audit's facts."""
        ...
