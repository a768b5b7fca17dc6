"""Some rows of a training set, drawn with probabilities, and with weights of their own."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.core.concepts import Batch, TrainingSet
from rue.core.nested import take
from rue.core.stored import storable

EVENLY = 0.1  # part of the rows that is drawn whatever their scores, so that no weight exceeds ten times the usual one


@storable
@dataclass(frozen=True)
class DrawnRows:
    """Rows of another training set, in its order; each is a resampling unit."""

    source: TrainingSet = field(repr=False)
    rows: Tensor = field(repr=False)  # (s,), rising numbers of the rows in the source
    weight: Tensor = field(repr=False)  # (s,) float64, in place of those of the source

    @property
    def n(self) -> int:
        """The number of rows, s."""
        return len(self.rows)

    @property
    def units(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def unit(self) -> Tensor:
        """The unit of each row, (s,): its own."""
        return torch.arange(len(self.rows))

    @property
    def whole(self) -> "DrawnRows":
        """These rows."""
        return self

    def blocks(self, most: int) -> tuple["DrawnRows"]:  # noqa: ARG002  they are few
        """All rows."""
        return (self,)

    def batches(self) -> Iterator[Batch]:
        """Every drawn row once, in the batches of the source."""
        start = 0
        for batch in self.source.batches():
            inside = (self.rows >= batch.rows.start) & (self.rows < batch.rows.stop)
            here = self.rows[inside] - batch.rows.start
            if len(here):
                rows = slice(start, start + len(here))
                start = rows.stop
                weight = self.weight[inside].to(batch.weight)
                yield Batch(take(batch.inputs, here), take(batch.targets, here), weight, rows)


def inclusion(score: Tensor, count: int) -> Tensor:
    """Probabilities (n,) in proportion to scores, none above one, whose sum is `count`; a tenth is the same for all.

    >>> inclusion(torch.tensor([1.0, 1.0, 2.0, 36.0]), 2)
    tensor([0.2625, 0.2625, 0.4750, 1.0000])
    """
    least = EVENLY * count / len(score)
    wanted = (count - least * len(score)) / (1 - least)
    found = torch.zeros_like(score)
    certain = torch.zeros_like(score, dtype=torch.bool)
    for _ in range(len(score)):
        rest = score.masked_fill(certain, 0.0)
        found = (wanted - certain.sum()) * rest / rest.sum().clamp_min(torch.finfo(score.dtype).tiny)
        if not bool((found > 1).any()):
            break
        certain |= found > 1
    found = torch.where(certain, 1.0, found)
    return least + (1 - least) * found


def picked(probability: Tensor, order: Tensor, start: float) -> Tensor:
    """Rising numbers of rows, each picked with its probability, by equal steps along their sum in a random order.

    Of rows with a probability of one half, starts that are one half apart pick the two halves.
    """
    along = probability[order].cumsum(0)
    before = torch.cat([along.new_zeros(1), along[:-1]])
    return order[(along + start).floor() > (before + start).floor()].sort().values
