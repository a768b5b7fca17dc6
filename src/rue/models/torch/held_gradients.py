"""Gradients of many rows by the same parameters: all their entries, or the pairs of short vectors they are products of.

Both stand in the place of a block while layers are tapped, and are filled in during the backward passes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from rue.core.errors import DerivativeError
from rue.core.stored import storable, storable_rows
from rue.models.torch.blocks import Place, TappedBlock, lengths

DOUBLES = 2**24  # numbers that are converted to float64 at once
BLOCKS = 8  # of rows: of a symmetric matrix only blocks up to the diagonal are computed


@storable
class Cut(NamedTuple):
    """Some columns of a matrix of parameters."""

    place: Place
    vector: bool  # all parameters are one row
    columns: slice

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of these columns, a and q."""
        return lengths(self.place, self.vector)[0], self.columns.stop - self.columns.start

    def of(self, vector: Tensor) -> Tensor:
        """The part of a vector (d,) that lies here: (a, q)."""
        return self.place.of(vector).reshape(lengths(self.place, self.vector))[:, self.columns]


class Held(TappedBlock, Protocol):
    """Gradients of rows by the parameters of a cut; N counts all outputs of all rows."""

    @property
    def cut(self) -> Cut:
        """The parameters."""
        ...

    def keep(self, rows: slice, output: int, slope: Tensor) -> None:
        """Keep what a backward pass of one output gave for some rows; `slope` (c, size) is what the taps returned."""
        ...

    def divide(self, root: Tensor) -> None:
        """Divide all gradients by (a, q), once all rows are there."""
        ...

    def add(self, others: Self, total: Tensor) -> None:
        """Add the products with those of others to a total (N, N'); with themselves, up to the diagonal alone."""
        ...

    def within(self) -> Tensor:
        """The products of outputs of the same row (n, k, k)."""
        ...

    def along(self, vector: Tensor) -> Tensor:
        """The products with a vector (a, q): (N,)."""
        ...


@storable_rows
@dataclass(frozen=True)
class Entries:
    """Every entry of the gradients."""

    whole: ClassVar[bool] = True
    rows: ClassVar[None] = None
    kept: ClassVar[None] = None

    cut: Cut
    values: Tensor = field(repr=False)  # (n, k, a·q)

    @classmethod
    def none(cls, cut: Cut, count: int, outputs: int, like: Tensor) -> "Entries":
        """Room for so many rows."""
        a, q = cut.shape
        return cls(cut, like.new_empty(count, outputs, a * q))

    @property
    def place(self) -> Place:
        """Where the parameters lie."""
        return self.cut.place

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.values.shape[2]

    @property
    def columns(self) -> Tensor:
        """The columns as combinations (q, b)."""
        _, b = lengths(self.place, self.cut.vector)
        chosen = torch.arange(b)[self.cut.columns]
        return torch.zeros(len(chosen), b).scatter_(1, chosen[:, None], 1.0)

    def of_rows(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def of_columns(self, values: Tensor) -> Tensor:
        """Those of the columns (..., q)."""
        return values[..., self.cut.columns]

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """The entries (c, a·q)."""
        return (left @ right.mT).flatten(1)

    def keep(self, rows: slice, output: int, slope: Tensor) -> None:
        """Keep the entries."""
        self.values[rows, output] = slope

    def divide(self, root: Tensor) -> None:
        """Divide every entry."""
        self.values.div_(root.flatten().to(self.values))

    def add(self, others: "Entries", total: Tensor) -> None:
        """Add the products with those of others, some entries at a time."""
        step = max(1, DOUBLES // max(total.shape))
        for entries in _steps(self.size, step):
            left = self.values[:, :, entries].double().flatten(0, 1)
            right = left if others is self else others.values[:, :, entries].double().flatten(0, 1)
            for rows, most in _blocks(total, others is self):
                total[rows, :most].addmm_(left[rows], right[:most].T)

    def within(self) -> Tensor:
        """The products of outputs of the same row."""
        n, k, _ = self.values.shape
        parts = (self.values[:, :, entries].double() for entries in _steps(self.size, max(1, DOUBLES // (n * k))))
        return sum((part @ part.mT for part in parts), self.values.new_zeros(n, k, k, dtype=torch.float64))

    def along(self, vector: Tensor) -> Tensor:
        """The products with a vector."""
        n, k, _ = self.values.shape
        total, flat = self.values.new_zeros(n * k, dtype=torch.float64), vector.double().flatten()
        for entries in _steps(self.size, max(1, DOUBLES // (n * k))):
            total += self.values[:, :, entries].double().flatten(0, 1) @ flat[entries]
        return total


@storable_rows
@dataclass(frozen=True)
class Pairs:
    """Pairs of what comes back to a layer and what went in, of which the gradients are products."""

    whole: ClassVar[bool] = False
    rows: ClassVar[None] = None
    kept: ClassVar[None] = None
    columns: ClassVar[None] = None
    size: ClassVar[int] = 0

    cut: Cut
    back: Tensor = field(repr=False)  # (n, k, a)
    entered: Tensor = field(repr=False)  # (n, k, b)
    noted: list[tuple[Tensor, Tensor]] = field(default_factory=list, repr=False)  # during a backward pass

    @classmethod
    def none(cls, cut: Cut, count: int, outputs: int, like: Tensor) -> "Pairs":
        """Room for so many rows."""
        back, entered = (like.new_zeros(count, outputs, side) for side in cut.shape)
        return cls(cut, back, entered)

    @property
    def place(self) -> Place:
        """Where the parameters lie."""
        return self.cut.place

    def of_rows(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def of_columns(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """Note both (c, ·, positions), and give no numbers (c, 0)."""
        self.noted.append((left, right))
        return left.new_zeros(len(left), 0)

    def keep(self, rows: slice, output: int, slope: Tensor) -> None:  # noqa: ARG002  what was noted is kept instead
        """Keep what was noted, of one use at one position; an output that does not depend on it has none."""
        if [right.shape[2] for _, right in self.noted] not in ([], [1]):
            raise DerivativeError(
                "a layer is used at several positions of these rows, and at one position of the first rows; pad every "
                "batch to one length, or use solver=rue.solve.Projection()"
            )
        for left, right in self.noted:
            self.back[rows, output], self.entered[rows, output] = left[:, :, 0], right[:, :, 0]
        self.noted.clear()

    def divide(self, root: Tensor) -> None:
        """Divide what comes back: the root is the same everywhere."""
        self.back.div_(root.flatten()[0].to(self.back))

    def add(self, others: "Pairs", total: Tensor) -> None:
        """Add the products with those of others: a product of gradients is that of both products of vectors."""
        one, other = self._doubles(), others._doubles()
        for rows, most in _blocks(total, others is self):
            total[rows, :most].addcmul_(one[0][rows] @ other[0][:most].T, one[1][rows] @ other[1][:most].T)

    def within(self) -> Tensor:
        """The products of outputs of the same row."""
        back, entered = self.back.double(), self.entered.double()
        return (back @ back.mT) * (entered @ entered.mT)

    def along(self, vector: Tensor) -> Tensor:
        """The products with a vector."""
        back, entered = self._doubles()
        return ((back @ vector.double()) * entered).sum(1)

    def _doubles(self) -> tuple[Tensor, Tensor]:
        return self.back.double().flatten(0, 1), self.entered.double().flatten(0, 1)


def _steps(size: int, step: int) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, size, step))


def _blocks(total: Tensor, symmetric: bool) -> Iterator[tuple[slice, int]]:
    """Blocks of rows of a matrix, and how many of its columns belong to them: those up to the diagonal, or all."""
    rows, columns = total.shape
    step = max(1, -(-rows // BLOCKS))
    return (
        (slice(start, start + step), min(rows, start + step) if symmetric else columns)
        for start in range(0, rows, step)
    )
