"""A block of parameters as a layer uses it, and a few random combinations of them, drawn for rows and columns apart.

A coordinate of a matrix of weights is Σ rᵢ wᵢⱼ cⱼ, with random rows r and columns c, so that for a gradient that is a
product of what comes back and what went in, it is a product of two numbers. Coordinates come in groups, each with every
pair of `side` rows and `side` columns: large groups need fewer products with long vectors, small ones keep products of
gradients better, with a relative variance of about (4/side + 4/side²)/groups. Best are combinations of all products of
a row and a column, with 2/size, where there are few enough of them to be made. On average all keep them exactly.

The direction from the penalty's centre to the parameters has a coordinate of its own, and the random ones are
orthogonal to it. Without it the tangent of a sketch would not have the network's own outputs at the centre: what a
random projection makes of so long a vector differs from row to row by as much as the outputs do.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rue.core.resample import generator
from rue.core.stored import storable

SHORT = 4  # a side of a matrix up to this length is kept whole


@storable
class Place(NamedTuple):
    """Where a tensor lies in theta."""

    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def numel(self) -> int:
        """The number of parameters."""
        return torch.Size(self.shape).numel()

    @property
    def end(self) -> int:
        """One past the last entry of theta that it may touch."""
        return self.offset + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True)) + 1

    def of(self, vectors: Tensor) -> Tensor:
        """The part of vectors (..., d) that lies here, in its own shape."""
        flat = vectors[..., self.offset : self.end].contiguous()
        lead = flat.shape[:-1]
        steps = torch.empty(lead, device="meta").stride()
        strides = (*(step * flat.shape[-1] for step in steps), *self.stride)
        return flat.as_strided((*lead, *self.shape), strides, flat.storage_offset())


@storable
class Grouping(NamedTuple):
    """The groups of a block: how many, and how many rows and columns each has."""

    groups: int
    rows: int
    columns: int
    mixes: int = 0  # combinations of all these products; 0 where the products themselves are the coordinates

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.mixes or self.groups * self.rows * self.columns


def planned(lengths: tuple[int, int], most: int, side: int) -> Grouping:
    """The groups of a matrix with these lengths, at most about `most` coordinates, with sides of about `side`.

    A side of 0 stands for combinations of all products.

    >>> planned((3, 5), 100, 1).size, planned((64, 64), 128, 1).size, planned((1, 50), 8, 1).size
    (15, 128, 8)
    >>> planned((64, 64), 128, 8)
    Grouping(groups=2, rows=8, columns=8, mixes=0)
    """
    a, b = lengths
    if a * b <= most:
        return Grouping(1, a, b)
    if min(a, b) <= SHORT:
        return Grouping(1, a, max(1, most // a)) if a <= b else Grouping(1, max(1, most // b), b)
    if side == 0:
        return Grouping(1, a, b, most)
    p, q = min(side, a), min(side, b)
    return Grouping(max(1, most // (p * q)), p, q)


@storable
class KeptDirection(NamedTuple):
    """A direction of a block that has a coordinate of its own, the last one."""

    direction: Tensor  # (a, b), of length 1
    shadow: Tensor  # (·,), the direction in the other coordinates before they are made orthogonal to it

    def beside(self, numbers: Tensor, along: Tensor) -> Tensor:
        """The coordinates (..., · + 1), from those that are not yet orthogonal and the one along the direction."""
        return torch.cat([numbers - along[..., None] * self.shadow.to(numbers), along[..., None].to(numbers)], -1)


class TappedBlock(Protocol):
    """What a tap makes of a matrix of weights: numbers of every row, from what comes back and what went in."""

    @property
    def place(self) -> Place:
        """Where the parameters lie."""
        ...

    @property
    def size(self) -> int:
        """How many numbers are made of a row."""
        ...

    @property
    def whole(self) -> bool:
        """Whether the numbers are entries of the matrix, or of some of its columns, in their order."""
        ...

    @property
    def kept(self) -> KeptDirection | None:
        """A direction with a coordinate beside those of `products`."""
        ...

    @property
    def rows(self) -> Tensor | None:
        """The combinations of rows (·, a); None where they are kept as they are."""
        ...

    @property
    def columns(self) -> Tensor | None:
        """The combinations of columns (·, b); None where they are kept as they are."""
        ...

    def of_rows(self, values: Tensor) -> Tensor:
        """Combine the last axis: (..., a) -> (..., ·)."""
        ...

    def of_columns(self, values: Tensor) -> Tensor:
        """Combine the last axis: (..., b) -> (..., ·)."""
        ...

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """The numbers of each row (c, ·) from combined rows and columns (c, ·, positions)."""
        ...


@storable
@dataclass(frozen=True)
class LayerBlock:
    """Parameters at one place, combined to `size` coordinates; a side without combinations (None) is kept whole."""

    place: Place
    vector: bool  # all parameters are one row
    grouping: Grouping
    rows: Tensor | None = field(repr=False)  # (groups·p, a)
    columns: Tensor | None = field(repr=False)  # (groups·q, b)
    mix: Tensor | None = field(default=None, repr=False)  # (mixes, a·b)
    kept: KeptDirection | None = field(default=None, repr=False)

    @classmethod
    def drawn(cls, place: Place, vector: bool, grouping: Grouping, seed: int, like: Tensor) -> "LayerBlock":
        """Draw the combinations."""
        a, b = lengths(place, vector)
        source, device = generator(seed * 1_000_003 + place.offset), like.device
        if grouping.mixes:
            mix = _combinations(a * b, grouping.mixes, source, device)
            return cls(place, vector, grouping, None, None, mix.to(like))
        sides = [
            None
            if grouping.groups == 1 and count == length
            else _combinations(length, grouping.groups * count, source, device)
            for length, count in ((a, grouping.rows), (b, grouping.columns))
        ]
        share = grouping.groups**0.25  # so that the sum over the groups is the identity on average
        return cls(place, vector, grouping, *(None if side is None else (share * side).to(like) for side in sides))

    def keeping(self, vector: Tensor) -> "LayerBlock":
        """The same combinations, orthogonal to a vector of parameters (a·b) that has a coordinate of its own."""
        unit = (vector.double() / vector.double().norm()).to(vector)
        if self.mix is not None:
            mix = _orthogonal(self.mix, unit)
            return replace(self, mix=mix, grouping=self.grouping._replace(mixes=len(mix)))
        if self.rows is None and self.grouping.rows == 1:
            assert self.columns is not None
            columns = _orthogonal(self.columns, unit)
            return replace(self, columns=columns, grouping=self.grouping._replace(columns=len(columns)))
        if self.columns is None and self.grouping.columns == 1:
            assert self.rows is not None
            rows = _orthogonal(self.rows, unit)
            return replace(self, rows=rows, grouping=self.grouping._replace(rows=len(rows)))
        direction = unit.view(lengths(self.place, self.vector))
        return replace(self, kept=KeptDirection(direction, self.combine(unit.view(self.place.shape))))

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.grouping.size + (self.kept is not None)

    @property
    def whole(self) -> bool:
        """Whether nothing is combined."""
        return self.rows is None and self.columns is None and self.mix is None

    def project(self, vectors: Tensor) -> Tensor:
        """The coordinates (..., size) of parameters or gradients (..., d)."""
        return self.combine(self.place.of(vectors))

    def combine(self, part: Tensor) -> Tensor:
        """The coordinates (..., size) of what lies here, in its own shape (..., *shape)."""
        lead = part.shape[: part.dim() - len(self.place.shape)]
        matrix = part.reshape(-1, *lengths(self.place, self.vector))
        if self.mix is not None:
            return (matrix.flatten(1) @ self.mix.to(matrix).T).reshape(*lead, self.size)
        groups, p, q, _ = self.grouping
        half = self.of_rows(matrix.mT).unflatten(-1, (groups, p))  # (·, b, groups, p)
        columns = torch.eye(q).to(half)[None] if self.columns is None else self.columns.to(half).view(groups, q, -1)
        numbers = torch.einsum("nbgp,gqb->ngpq", half, columns).flatten(1)
        if self.kept is not None:
            numbers = self.kept.beside(numbers, (matrix * self.kept.direction.to(matrix)).sum((1, 2)))
        return numbers.reshape(*lead, self.size)

    def of_rows(self, values: Tensor) -> Tensor:
        """Combine the last axis, one value for each row of the matrix: (..., a) -> (..., groups·p)."""
        return values if self.rows is None else values @ self.rows.to(values).T

    def of_columns(self, values: Tensor) -> Tensor:
        """Combine the last axis, one value for each column of the matrix: (..., b) -> (..., groups·q)."""
        return values if self.columns is None else values @ self.columns.to(values).T

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """Coordinates (c, ·) from combined rows (c, groups·p, positions) and columns (c, groups·q, positions)."""
        if left.dtype != right.dtype:  # one of them was computed in bfloat16
            left, right = left.to(torch.bfloat16), right.to(torch.bfloat16)
        groups, p, q, _ = self.grouping
        if self.mix is not None:
            return (left @ right.mT).flatten(1) @ self.mix.to(left).T
        if p == q == 1:
            return (left * right).sum(2)
        return (left.unflatten(1, (groups, p)) @ right.unflatten(1, (groups, q)).mT).flatten(1)


def lengths(place: Place, vector: bool) -> tuple[int, int]:
    """The numbers of rows and columns of a place as a matrix."""
    return (1, place.numel) if vector else (place.shape[0], place.numel // max(1, place.shape[0]))


def _orthogonal(combinations: Tensor, unit: Tensor) -> Tensor:
    """Combinations (·, n) without their part along a unit vector (n,), and that vector itself."""
    return torch.cat([combinations - torch.outer(combinations @ unit, unit), unit[None]])


def _combinations(length: int, count: int, source: torch.Generator, device: torch.device) -> Tensor:
    """Rows (count, length), orthogonal in turns of `length` of them, whose squares sum to length/count each.

    They are drawn on the CPU and made orthogonal where they are used.
    """
    drawn = [
        torch.randn(length, min(length, count - done), generator=source, dtype=torch.float64)
        for done in range(0, count, length)
    ]
    turns = [torch.linalg.qr(turn.to(device)).Q.T for turn in drawn]
    return torch.cat(turns) * (length / count) ** 0.5
