"""Opens training rows and audited inputs: arrays, tensors, frames, datasets and loaders."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rue.core.concepts import Inputs
from rue.core.errors import DataError, ShapeError
from rue.core.model import Model
from rue.core.nested import leaves, take
from rue.core.row_order import refuse_another_order
from rue.core.schema import fitted_schema
from rue.data.loaders import drawn, fetched, row_numbers
from rue.data.raw_print import raw_print
from rue.data.rows import Data, ReadBatches, Rows, length
from rue.data.units import resampling_units, weights
from rue.models.admission import admit, admit_again, admit_labels

MANY, FEWER = 10**6, 64  # parameters of a large network, and the rows of it that are looked at first
BATCH_BYTES = 2**24  # of inputs read at once
BATCH_ROWS = 4096
LOOKED_AT = 50  # rows that are read twice
LABELS = ("labels", "label")  # keys of the targets in a batch that is a dict


def training_rows(data: Any, model: Model) -> tuple[Rows, Model]:
    """Read the training data with a model, and bind the model to it."""
    data = _as_data(data)
    _refuse_masked(data.X)
    refuse_another_order(data.X, y=data.y, weight=data.weight, group=data.group)
    model = replace(model, schema=fitted_schema(data.X, model.schema))
    data = replace(data, X=model.aligned(data.X))
    read, cuts, ids, source_rows = _open(data, model)
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
    inputs, _ = _looked_at(next(iter(read(model, range(1)))), model)
    given = raw_print(data.X, data.y)

    def rows(reader: Model) -> Rows:
        return Rows(n, ids, weight, unit, units, read, reader, cuts, data, given=given)

    bound = model.bind(inputs, float(weight.sum()), lambda reader: rows(reader).batches())
    first = _looked_at(next(iter(read(bound, range(1)))), bound)
    admit(bound, *first)
    if data.y is not None:
        if bound.admit_targets is not None:
            bound.admit_targets(data.y)
        admit_labels(bound, bound.read_targets(data.y))
    few = slice(0, min(LOOKED_AT, length(first[0])))
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
    n = length(read)
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


def opened(rows: Rows, data: Any) -> Rows:
    """Rows that were sent without their values, read from the same data in this process."""
    found = _open(_as_data(data), rows.reader)
    if found.cuts != rows.cuts:
        raise DataError(f"{found.cuts[-1]} rows were opened where there were {rows.n}; open the very same data")
    return replace(rows, read=found.read)


class _Opened(NamedTuple):
    """A function that reads batches, where they begin, the number of each row in the source, and the source's rows."""

    read: ReadBatches
    cuts: tuple[int, ...]
    ids: Tensor
    rows: int


def _open(data: Data, model: Model) -> _Opened:
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
    n, targets_n = length(inputs), length(model.read_targets(data.y))
    if n != targets_n:
        raise ShapeError(f"X has {n} rows, y has {targets_n}; they must be the same rows")
    cuts = (0, n) if model.family.coupled else (*(rows.start for rows in _row_slices(inputs, n)), n)
    return _Opened(partial(_read_table, inputs, data.y, cuts), cuts, torch.arange(n), n)


def _read_table(
    inputs: Inputs, targets: Any, cuts: tuple[int, ...], bound: Model, numbers: range
) -> Iterator[tuple[Inputs, Any]]:
    settled = bound.read_targets(targets)
    for number in numbers:
        rows = slice(cuts[number], cuts[number + 1])
        yield take(inputs, rows), take(settled, rows)


def _open_loader(data: Data, model: Model) -> _Opened:
    source = data.X
    if model.family.coupled:
        raise DataError("the loss of a row depends on all others, so that they are read together; give arrays (X, y)")
    batches, collate, dataset = drawn(source)
    read = partial(_read_batches, batches, collate, dataset)
    counts, every = [], range(len(batches))
    for first, second in zip(read(model, every), read(model, every), strict=True):
        if not all(torch.equal(a, b) for a, b in zip(leaves(first), leaves(second), strict=True)):
            raise DataError("two passes over the training data differ; turn random augmentation off for the audit")
        if length(first[0]) != length(first[1]):
            raise ShapeError(f"a batch has {length(first[0])} inputs and {length(first[1])} targets")
        counts.append(length(first[0]))
    flat, cuts = row_numbers(batches), tuple(accumulate(counts, initial=0))
    if flat is not None and len(flat) == sum(counts):
        return _Opened(read, cuts, torch.tensor(flat, dtype=torch.long), len(dataset))
    ordered = flat is None or flat == sorted(flat)
    if not ordered and (data.weight is not None or data.group is not None):
        raise DataError(
            "weight and group go by the row numbers of the dataset, and this loader reads whole batches in another "
            "order; give it a sequential sampler, or a dataset of single rows"
        )
    return _Opened(read, cuts, torch.arange(sum(counts)), sum(counts))


def _read_batches(
    batches: list[list[Any]], collate: Callable[[list[Any]], Any], dataset: Any, bound: Model, numbers: range
) -> Iterator[tuple[Inputs, Any]]:
    for indices in batches[numbers.start : numbers.stop]:
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


def _row_slices(tree: Inputs, n: int) -> Iterator[slice]:
    row_bytes = sum(leaf[:1].numel() * leaf.element_size() for leaf in leaves(tree))
    size = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, row_bytes)))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
