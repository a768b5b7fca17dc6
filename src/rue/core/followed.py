"""Jacobians of some outputs of every row, where the other outputs count as fixed."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from rue.core.stored import storable


@storable
@dataclass(frozen=True)
class Followed:
    """The Jacobian (c, f, d) of the outputs of each row that are followed; where `at` is None, of all k in order.

    >>> one = Followed(torch.ones(1, 1, 2), torch.tensor([[2]]), 3)
    >>> one.whole()
    tensor([[[0., 0.],
             [0., 0.],
             [1., 1.]]])
    """

    values: Tensor = field(repr=False)  # (c, f, d)
    at: Tensor | None = field(repr=False)  # (c, f), the numbers of the outputs
    k: int  # all outputs

    def whole(self) -> Tensor:
        """The Jacobian (c, k, d) of all outputs."""
        return self.placed(self.values)

    def double(self) -> "Followed":
        """The same in float64."""
        return replace(self, values=self.values.double())

    def some(self, rows: Any) -> "Followed":
        """The same for some rows."""
        return Followed(self.values[rows], None if self.at is None else self.at[rows], self.k)

    def of(self, numbers: Tensor) -> Tensor:
        """The entries of the followed outputs: (c, k) -> (c, f)."""
        return numbers if self.at is None else numbers.gather(1, self.at)

    def among(self, matrices: Tensor) -> Tensor:
        """The entries of pairs of followed outputs: (c, k, k) -> (c, f, f)."""
        return matrices if self.at is None else matrices.gather(1, _rows(self.at, self.k)).gather(2, _columns(self.at))

    def placed(self, numbers: Tensor) -> Tensor:
        """Numbers of the followed outputs among zeros: (c, f, ...) -> (c, k, ...)."""
        if self.at is None:
            return numbers
        place = self.at.view(*self.at.shape, *[1] * (numbers.dim() - 2)).expand_as(numbers)
        return numbers.new_zeros(len(numbers), self.k, *numbers.shape[2:]).scatter(1, place, numbers)

    def blocks(self, matrices: Tensor, beside: float = 0.0) -> "OutputBlocks":
        """Matrices (c, f, f) of pairs of followed outputs, as those (c, k, k) of all."""
        return OutputBlocks(matrices, self.at, self.k, beside)


@storable
@dataclass(frozen=True)
class OutputBlocks:
    """Matrices (c, k, k) of pairs of outputs, of which only those of followed outputs are kept.

    Elsewhere they are zero but for their diagonal, which is `beside`.
    """

    values: Tensor = field(repr=False)  # (c, f, f)
    at: Tensor | None = field(repr=False)  # (c, f)
    k: int
    beside: float = 0.0

    def __getitem__(self, rows: Any) -> Tensor:
        """The matrices (s, k, k) of some rows."""
        values = self.values[rows]
        if self.at is None:
            return values
        at = self.at[rows]
        wide = values.new_zeros(len(values), at.shape[1], self.k).scatter(2, _columns(at), values)
        whole = values.new_zeros(len(values), self.k, self.k).scatter(1, _rows(at, self.k), wide)
        fixed = torch.ones(len(values), self.k, dtype=values.dtype, device=values.device).scatter(1, at, 0.0)
        return whole + self.beside * torch.diag_embed(fixed) if self.beside else whole

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.values.device

    @classmethod
    def joined(cls, parts: "list[OutputBlocks]") -> "OutputBlocks":
        """Those of several batches of rows."""
        places = [part.at for part in parts if part.at is not None]
        return replace(
            parts[0], values=torch.cat([part.values for part in parts]), at=torch.cat(places) if places else None
        )


def _rows(at: Tensor, k: int) -> Tensor:
    """Indices (c, f, k) of rows of matrices."""
    return at[:, :, None].expand(-1, -1, k)


def _columns(at: Tensor) -> Tensor:
    """Indices (c, f, f) of columns of matrices."""
    return at[:, None, :].expand(-1, at.shape[1], -1)
