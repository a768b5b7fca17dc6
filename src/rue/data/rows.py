"""Reads training rows and audited inputs from arrays, tensors, frames, datasets and loaders, the same on every pass."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rue.core.concepts import Batch, Inputs, TrainingSet
from rue.core.errors import DataError, ShapeError
from rue.core.memory import SampleOf, reading
from rue.core.model import Model
from rue.core.nested import leaves, take
from rue.core.resample import generator
from rue.core.row_order import refuse_another_order
from rue.core.schema import fitted_schema
from rue.data.loaders import drawn, fetched, row_numbers
from rue.data.raw_print import raw_print, sums_of_rows
from rue.data.units import resampling_units, weights
from rue.models.admission import admit, admit_again, admit_labels

MANY, FEWER = 10**6, 64  # parameters of a large network, and the rows of it that are looked at first
BATCH_BYTES = 2**24  # of inputs read at once
BATCH_ROWS = 4096
LOOKED_AT = 50  # rows that are read twice
SAMPLE = 20_000  # rows that are left out and compared with, where there are more; docs/rows.md has what that costs
LABELS = ("labels", "label")  # keys of the targets in a batch that is a dict

PassOverRows = Callable[[], Iterator[tuple[Inputs, Any]]]


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


@dataclass(frozen=True)
class Rows:
    """The training rows, read by a model."""

    n: int
    ids: Tensor = field(repr=False)  # (n,), the number of the row in the user's data
    weight: Tensor = field(repr=False)  # (n,) float64
    unit: Tensor = field(repr=False)  # (n,), its resampling unit
    units: int
    read: PassOverRows = field(repr=False)
    source: Data = field(repr=False)  # as the user gave it
    prints: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)  # of batches, by first and last row
    given: int = 0  # the print of the source's own arrays
    sample_of: SampleOf | None = field(default=None, repr=False)

    def batches(self) -> Iterator[Batch]:
        """Every row once, in the same order on every pass; raises if the data is no longer what was read first."""
        start = 0
        for inputs, targets in self.read():
            rows = slice(start, start + _length(inputs))
            start = rows.stop
            found = _print([inputs, targets])
            if self.prints.setdefault((rows.start, rows.stop), found) != found:
                raise _changed(f"training rows {rows.start} to {rows.stop - 1}")
            batch = Batch(inputs, targets, self.weight[rows].to(leaves(inputs)[0].device), rows)
            with reading(self, batch, self.sample_of):
                yield batch

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
        return Rows(
            int(chosen.sum()),
            self.ids[chosen],
            self.weight[chosen],
            unit,
            len(present),
            partial(_read_some, self.read, chosen),
            self.source,
            given=self.given,
            sample_of=SampleOf(self, torch.nonzero(chosen).flatten()),
        )

    def refuse_changed_source(self) -> None:
        """Raise if the user's arrays were changed: their values are shown beside influences of those before."""
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


def _read_some(read: PassOverRows, chosen: Tensor) -> Iterator[tuple[Inputs, Any]]:
    start = 0
    for inputs, targets in read():
        stop = start + _length(inputs)
        here = torch.nonzero(chosen[start:stop]).flatten().to(leaves(inputs)[0].device)
        start = stop
        if len(here):
            yield take(inputs, here), take(targets, here)


def _changed(rows: str) -> DataError:
    return DataError(
        f"{rows} are not what they were when the audit was fitted: an array was changed in place since, or a dataset "
        "draws at random; give the audit its own copy, or fit again"
    )


def training_rows(data: Any, model: Model) -> tuple[Rows, Model]:
    """Read the training data with a model, and bind the model to it."""
    data = _as_data(data)
    _refuse_masked(data.X)
    refuse_another_order(data.X, y=data.y, weight=data.weight, group=data.group)
    model = replace(model, schema=fitted_schema(data.X, model.schema))
    data = replace(data, X=model.aligned(data.X))
    read, ids, source_rows = _open(data, model)
    n = len(ids)
    if n < 2:
        raise DataError(f"{n} training rows were read; resampling needs at least two")
    weight = weights(data.weight, source_rows)[ids]
    if float(weight.sum()) <= 0:
        raise DataError("all example weights are zero; there is no training data left")
    if data.weight is not None and model.balanced_by is not None:
        raise DataError(
            f"the classes were balanced by {model.balanced_by}, which labels alone do not tell; train "
            "with those class weights as numbers: class_weight={label: weight, ...}"
        )
    unit, units = resampling_units(data.group, source_rows, ids)
    counted = len(torch.unique(unit[weight > 0]))
    if counted < 2:
        raise DataError(
            f"{counted} {'row' if data.group is None else 'group'} has a weight above zero; resampling needs at least "
            "two"
        )
    inputs, _ = _looked_at(next(iter(read(model))), model)
    given = raw_print(data.X, data.y)

    def rows(reader: Model) -> Rows:
        return Rows(n, ids, weight, unit, units, partial(read, reader), data, given=given)

    bound = model.bind(inputs, float(weight.sum()), lambda reader: rows(reader).batches())
    first = _looked_at(next(iter(read(bound))), bound)
    admit(bound, *first)
    if data.y is not None:
        if bound.admit_targets is not None:
            bound.admit_targets(data.y)
        admit_labels(bound, bound.read_targets(data.y))
    few = slice(0, min(LOOKED_AT, _length(first[0])))
    if not isinstance(data.X, Dataset | DataLoader | Mapping | tuple | list):
        admit_again(bound, data.X.iloc[few] if hasattr(data.X, "iloc") else data.X[few], take(first[0], few))
    return rows(bound), bound


def _looked_at(first: Any, model: Model) -> Any:
    """A first batch; of a large network fewer rows, because derivatives are taken of all of them at once."""
    size = sum(part.numel() for part in model.core.contents() if isinstance(part, Tensor))  # also what is frozen
    return first if size <= MANY else take(first, slice(0, FEWER))


def input_batches(inputs: Any, model: Model) -> Iterator[Inputs]:
    """Audited inputs in batches that fit in memory; the targets of a loader or a dict are ignored."""
    if isinstance(inputs, Dataset | DataLoader):
        batches, collate, dataset = drawn(inputs)
        for indices in _in_order(batches, inputs):
            batch = fetched(dataset, collate, indices)
            batch = batch[0] if isinstance(batch, tuple | list) and len(batch) in (1, 2) else batch
            yield model.read(_without_labels(batch))
        if not batches:
            raise DataError("there are no inputs to audit; give at least one row")
        return
    _refuse_masked(inputs)
    if tuple(getattr(inputs, "shape", ()))[:1] == (0,):
        raise DataError("there are no inputs to audit; give at least one row")
    read = model.read(_without_labels(inputs))
    n = _length(read)
    if n == 0:
        raise DataError("there are no inputs to audit; give at least one row")
    for rows in _row_slices(read, n):
        yield take(read, rows)


def _refuse_masked(table: Any) -> None:
    if isinstance(table, np.ma.MaskedArray) and table.mask.any():
        raise DataError(
            f"{int(table.mask.sum())} cells of a masked array are masked, which no model sees; say what they are: "
            "table.filled(np.nan) where the model takes missing values"
        )


def _in_order(batches: list[list[Any]], loader: Any) -> list[list[Any]]:
    """The same rows in the order of the dataset, so that every result can be told its row; refuses to drop some."""
    numbers = row_numbers(batches)
    if getattr(loader, "drop_last", False) and numbers is not None and len(set(numbers)) < len(loader.dataset):
        raise DataError(
            f"this loader drops its last batch, and so {len(loader.dataset) - len(set(numbers))} of "
            f"{len(loader.dataset)} rows; give one with drop_last=False"
        )
    if numbers is None or any(isinstance(index, list) for indices in batches for index in indices):
        return batches
    ordered = iter(sorted(numbers))
    return [[next(ordered) for _ in indices] for indices in batches]


def _as_data(data: Any) -> Data:
    if isinstance(data, Data):
        return Data(*_pair(data.X), data.weight, data.group) if _labels(data.X) and data.y is None else data
    if isinstance(data, Dataset | DataLoader):
        return Data(data)
    if isinstance(data, Mapping):
        return Data(*_pair(data))
    if isinstance(data, tuple | list) and len(data) == 2:
        return Data(*data)
    raise DataError(
        f"training data must be (X, y), a Dataset, a DataLoader or rue.Data, got {type(data).__name__}"
        + (f" of length {len(data)}" if isinstance(data, tuple | list) else "")
    )


def _open(data: Data, model: Model) -> tuple[Callable[[Model], Iterator[tuple[Inputs, Any]]], Tensor, int]:
    """A function that reads the rows, the number of each row in the source, and how many rows the source has."""
    if isinstance(data.X, Dataset | DataLoader):
        if data.y is not None:
            raise DataError("a Dataset or DataLoader already yields targets; leave y out")
        return _open_loader(data, model)
    if data.y is None:
        raise DataError(
            "training targets are missing; give (X, y): the audit needs to know how well the rows were fitted"
        )
    if _labels(data.X):
        raise DataError(f"X has {_labels(data.X)[0]!r} and y is given too; take one out, or rename an input called so")
    inputs = model.read(data.X)
    n, targets_n = _length(inputs), _length(model.read_targets(data.y))
    if n != targets_n:
        raise ShapeError(f"X has {n} rows, y has {targets_n}; they must be the same rows")
    return partial(_read_table, inputs, data.y), torch.arange(n), n


def _read_table(inputs: Inputs, targets: Any, bound: Model) -> Iterator[tuple[Inputs, Any]]:
    n, settled = _length(inputs), bound.read_targets(targets)
    for rows in [slice(0, n)] if bound.family.coupled else _row_slices(inputs, n):
        yield take(inputs, rows), take(settled, rows)


def _open_loader(data: Data, model: Model) -> tuple[Callable[[Model], Iterator[tuple[Inputs, Any]]], Tensor, int]:
    source = data.X
    if model.family.coupled:
        raise DataError("the loss of a row depends on all others, so that they are read together; give arrays (X, y)")
    batches, collate, dataset = drawn(source)
    read = partial(_read_batches, batches, collate, dataset)
    counts = []
    for first, second in zip(read(model), read(model), strict=True):
        if not all(torch.equal(a, b) for a, b in zip(leaves(first), leaves(second), strict=True)):
            raise DataError("two passes over the training data differ; turn random augmentation off for the audit")
        if _length(first[0]) != _length(first[1]):
            raise ShapeError(f"a batch has {_length(first[0])} inputs and {_length(first[1])} targets")
        counts.append(_length(first[0]))
    flat = row_numbers(batches)
    if flat is not None and len(flat) == sum(counts):
        return read, torch.tensor(flat, dtype=torch.long), len(dataset)
    ordered = flat is None or flat == sorted(flat)
    if not ordered and (data.weight is not None or data.group is not None):
        raise DataError(
            "weight and group go by the row numbers of the dataset, and this loader reads whole batches in another "
            "order; give it a sequential sampler, or a dataset of single rows"
        )
    return read, torch.arange(sum(counts)), sum(counts)


def _read_batches(
    batches: list[list[Any]], collate: Callable[[list[Any]], Any], dataset: Any, bound: Model
) -> Iterator[tuple[Inputs, Any]]:
    for indices in batches:
        inputs, targets = _pair(fetched(dataset, collate, indices))
        yield bound.read(inputs), bound.read_targets(targets)


def _pair(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, tuple | list) and len(batch) == 2 and not _labels(batch[0]):
        return batch[0], batch[1]
    labels = _labels(batch)
    if len(labels) == 1:
        return _without_labels(batch), batch[labels[0]]
    kind = type(batch).__name__ + (f" of length {len(batch)}" if isinstance(batch, tuple | list) else "")
    kind += f" with {', '.join(map(str, batch))}" if isinstance(batch, Mapping) else ""
    raise DataError(
        f"a batch of training data is a {kind}, expected (inputs, targets); use a collate_fn that returns the pair, "
        f"or a dict with the targets called {' or '.join(map(repr, LABELS))}"
    )


def _labels(batch: Any) -> list[str]:
    """The keys of the targets in a batch that is a dict with targets."""
    return [name for name in LABELS if name in batch] if isinstance(batch, Mapping) else []


def _without_labels(inputs: Any) -> Any:
    """Inputs without their labels: a model that gets labels would compute a loss."""
    labels = _labels(inputs)
    return {name: part for name, part in inputs.items() if name not in labels} if labels else inputs


def _length(tree: Any) -> int:
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


def _row_slices(tree: Inputs, n: int) -> Iterator[slice]:
    row_bytes = sum(leaf[:1].numel() * leaf.element_size() for leaf in leaves(tree))
    size = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, row_bytes)))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
