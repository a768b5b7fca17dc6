"""The training rows: all of them, a sample, blocks; read in batches, the same on every pass."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from rue.core.arrays import Whole
from rue.core.concepts import Batch, Inputs, TrainingSet
from rue.core.errors import DataError, ShapeError
from rue.core.memory import SampleOf, reading
from rue.core.model import Model
from rue.core.nested import leaves, take
from rue.core.resample import generator
from rue.core.stored import storable
from rue.data.raw_print import raw_print, sums_of_rows

SAMPLE = 20_000  # rows that are left out and compared with, where there are more; docs/rows.md has what that costs

ReadBatches = Callable[[Model, range], Iterator[tuple[Inputs, Any]]]
"""Reads inputs and targets of a range of batches, as a model takes them."""


@storable
@dataclass(frozen=True, eq=False)  # arrays inside: equal is what is the same object
class Data:
    """Training rows with an optional weight for each and the group (patient, site, sequence) it belongs to.

    `weight` multiplies a row's loss; with `group`, whole groups and not rows are resampled and left out.
    `X` may be a `Dataset` or `DataLoader` that yields (inputs, targets), or a dict with "labels" inside; `y` is then
    left out, and `weight` and `group` have one entry for each row of the dataset.
    """

    X: Any
    y: Any = None
    weight: Any = None
    group: Any = None


@storable
@dataclass(frozen=True)
class Rows:
    """The training rows, read by a model."""

    n: int
    ids: Tensor = field(repr=False)  # (n,), the number of the row in the user's data
    weight: Tensor = field(repr=False)  # (n,) float64
    unit: Tensor = field(repr=False)  # (n,), its resampling unit
    units: int
    read: ReadBatches = field(repr=False)
    reader: Model = field(repr=False)
    cuts: tuple[int, ...] = field(repr=False)  # the first row of every batch, and n
    source: Data = field(repr=False)  # as the user gave it
    prints: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)  # of batches, by first and last row
    given: int = 0  # the print of the source's own arrays
    sample_of: SampleOf | None = field(default=None, repr=False)

    def batches(self) -> Iterator[Batch]:
        """Every row once, in the same order on every pass; raises if the data is no longer what was read first."""
        return self.some_batches(range(len(self.cuts) - 1))

    def some_batches(self, numbers: range) -> Iterator[Batch]:
        """The batches with these numbers."""
        for number, (inputs, targets) in zip(numbers, self.read(self.reader, numbers), strict=True):
            rows = slice(self.cuts[number], self.cuts[number + 1])
            if length(inputs) != rows.stop - rows.start:
                raise _changed(f"training rows {rows.start} to {rows.stop - 1}")
            found = _print([inputs, targets])
            if self.prints.setdefault((rows.start, rows.stop), found) != found:
                raise _changed(f"training rows {rows.start} to {rows.stop - 1}")
            batch = Batch(inputs, targets, self.weight[rows].to(leaves(inputs)[0].device), rows)
            with reading(self, batch, self.sample_of):
                yield batch

    @property
    def whole(self) -> "Rows":
        """These rows."""
        return self

    def blocks(self, most: int) -> "tuple[RowBlock, ...]":
        """At most so many parts of the rows, of whole batches; every call makes the same. A sample is one part."""
        batches = len(self.cuts) - 1
        most = most if self.sample_of is None else 1
        size = -(-batches // most)
        return tuple(RowBlock(self, range(first, min(first + size, batches))) for first in range(0, batches, size))

    @cached_property
    def sample(self) -> "Rows":
        """These rows, or `SAMPLE` of them: what is no sum over rows is made of these."""
        return self if self.n <= SAMPLE else self.some(some_units(self, SAMPLE, 0))

    def among(self, values: Tensor) -> Tensor:
        """Of values (n, ...) of all training rows, those of these rows."""
        return values if self.sample_of is None else values[self.sample_of.rows.to(values.device)]

    def some(self, chosen: Tensor) -> "Rows":
        """The rows that a mask (n,) chooses, in the same order."""
        present, unit = torch.unique(self.unit[chosen], return_inverse=True)
        counts = [int(part.sum()) for part in chosen.split([b - a for a, b in pairwise(self.cuts)])]
        numbers = [number for number, count in enumerate(counts) if count]
        return Rows(
            int(chosen.sum()),
            self.ids[chosen],
            self.weight[chosen],
            unit,
            len(present),
            partial(_read_some, self, chosen, numbers),
            self.reader,
            tuple(accumulate((counts[number] for number in numbers), initial=0)),
            self.source,
            given=self.given,
            sample_of=SampleOf(self, torch.nonzero(chosen).flatten()),
        )

    def elsewhere(self) -> "Rows":
        """The same rows without their values, to be sent to another process, which opens them itself."""
        return replace(self, read=_unread, source=Data(None), prints={})

    def uncounted(self) -> "Rows":
        """The same without what is said of single rows: how many there were is left."""
        nothing = torch.zeros(0)
        rows = replace(self, ids=nothing, weight=nothing, unit=nothing, cuts=())
        return rows if self.sample_of is None else replace(rows, sample_of=None)

    def refuse_changed_source(self) -> None:
        """Raise if the user's arrays were changed: their values are shown beside influences of those before."""
        if self.source.X is None:
            _unread(self.reader, range(0))
        if raw_print(self.source.X, self.source.y) != self.given:
            raise _changed("training rows")


def some_units(data: TrainingSet, most: int, seed: int) -> Tensor:
    """A mask (n,) of the rows of randomly drawn units, about `most` rows in all; all rows if there are no more."""
    if data.n <= most:
        return torch.ones(data.n, dtype=torch.bool)
    order = torch.randperm(data.units, generator=generator(seed))
    sizes = torch.bincount(data.unit, minlength=data.units)[order]
    drawn = torch.zeros(data.units, dtype=torch.bool)
    drawn[order[: max(2, int((sizes.cumsum(0) <= most).sum()))]] = True
    return drawn[data.unit]


@storable
def _unread(reader: Model, numbers: range) -> Iterator[tuple[Inputs, Any]]:  # noqa: ARG001  as the others
    raise DataError(
        "these training rows were kept without their values, which explanations, checks and held-out rows are compared "
        "with; hand rue.load(path, model, data=(X, y)) the very same rows"
    )


@storable
@dataclass(frozen=True)
class RowBlock:
    """Some batches of training rows, whose rows keep their numbers."""

    whole: Rows = field(repr=False)
    numbers: range

    @property
    def n(self) -> int:
        """The number of all rows."""
        return self.whole.n

    @property
    def weight(self) -> Tensor:
        """The weights of all rows (n,)."""
        return self.whole.weight

    @property
    def units(self) -> int:
        """The number of units of all rows."""
        return self.whole.units

    @property
    def unit(self) -> Tensor:
        """The unit of each of all rows (n,)."""
        return self.whole.unit

    def batches(self) -> Iterator[Batch]:
        """The rows of the block."""
        return self.whole.some_batches(self.numbers)

    def blocks(self, most: int) -> "tuple[RowBlock]":  # noqa: ARG002  it is divided already
        """The block itself."""
        return (self,)


def sample_numbers(rows: Rows) -> Whole:
    """The numbers (s,) of the rows of the sample, among all."""
    every = torch.arange(rows.n)
    return (every if rows.sample is rows else rows.sample.among(every)).numpy()


def _read_some(
    whole: Rows, chosen: Tensor, kept: list[int], reader: Model, numbers: range
) -> Iterator[tuple[Inputs, Any]]:
    """Of the batches `kept` that have chosen rows, those with some numbers."""
    wanted = kept[numbers.start : numbers.stop]
    every = range(wanted[0], wanted[-1] + 1)
    for number, (inputs, targets) in zip(every, whole.read(reader, every), strict=True):
        here = torch.nonzero(chosen[whole.cuts[number] : whole.cuts[number + 1]]).flatten()
        if len(here):
            here = here.to(leaves(inputs)[0].device)
            yield take(inputs, here), take(targets, here)


def _changed(rows: str) -> DataError:
    return DataError(
        f"{rows} are not what they were when the audit was fitted: an array was changed in place since, or a dataset "
        "draws at random; give the audit its own copy, or fit again"
    )


def length(tree: Any) -> int:
    """The number of rows of every leaf; raises where they differ."""
    parts = leaves(tree)
    if not parts:
        raise DataError("the data is empty; give at least one array")
    if any(leaf.dim() == 0 for leaf in parts):
        raise ShapeError("a part of the data is a scalar, expected rows; the first axis must be the rows")
    lengths = {len(leaf) for leaf in parts}
    if len(lengths) > 1:
        raise ShapeError(f"the parts of the inputs have {sorted(lengths)} rows; every part needs the same rows")
    return int(lengths.pop())


def _print(tree: Any) -> int:
    """A number that changes with the values of the leaves and with the order of their rows."""
    total = 0
    for leaf in leaves(tree):
        total = 31 * total + sums_of_rows(leaf)
    return total
