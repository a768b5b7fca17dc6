"""Folds of the training rows: groups stay whole, classes keep their frequencies, or folds follow time."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Whole
from rue.core.errors import ModelError, SettingError, ShapeError
from rue.core.model import Model
from rue.core.nested import joined, leaves
from rue.core.process import ignoring
from rue.core.row_order import refuse_another_order
from rue.data.rows import Rows

Splits = Iterator[tuple[Whole, Whole]]


def splits(model: Model, data: Rows, count: int, seed: int) -> Splits:
    """For each fold, the numbers of the rows to train on and of the rows left out; every row is left out once."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    unit, grouped = data.unit.numpy(), data.units < data.n
    labels = _labels(model, data)
    if data.units < count:
        raise SettingError(f"{count} folds need as many groups or rows, and there are {data.units}; give fewer")
    groups = {"groups": unit} if grouped else {}
    plain: Any = GroupKFold if grouped else KFold
    if labels is None:
        return iter(plain(count, shuffle=True, random_state=seed).split(unit, **groups))
    sizes = np.bincount(labels)[np.unique(labels)]
    if sizes.min() < 2:
        raise ModelError("a class has one row only: left out, no copy would know it; merge rare classes")
    kind: Any = plain if count > sizes.max() else StratifiedGroupKFold if grouped else StratifiedKFold
    with ignoring("The least populated class"):
        return iter(list(kind(count, shuffle=True, random_state=seed).split(unit, labels, **groups)))


def forward(data: Rows, count: int, order: Any) -> Splits:
    """Blocks of rows by time `order` (n,): every block but the first is predicted by a model of all earlier blocks.

    Rows of the same time are in the same block.
    """
    if data.units < data.n:
        raise SettingError("folds keep groups whole or times in order, not both; leave group= or order= away")
    refuse_another_order(data.source.X, order=order)
    times = np.asarray(order)
    if times.dtype.kind in "US" or (times.dtype == object and any(isinstance(time, str) for time in times.flat)):
        raise SettingError(
            "times are texts, which sort by their letters; give numbers or dates, as of pandas.to_datetime"
        )
    source = len(leaves(data.source.X)[0]) if data.source.y is None else len(data.source.y)
    if times.shape != (source,):
        raise ShapeError(f"order has shape {times.shape}, expected one time for each of the {source} training rows")
    block = _blocks(times[data.ids.numpy()], count + 1)
    for number in range(1, int(block.max()) + 1):
        yield np.flatnonzero(block < number), np.flatnonzero(block == number)


def _blocks(times: NDArray[Any], count: int) -> Whole:
    """The block (n,) of every row; blocks have about equal numbers of rows.

    >>> _blocks(np.array([3, 1, 2, 2, 2]), 2)
    array([1, 0, 0, 0, 0])
    """
    try:
        distinct, place, size = np.unique(times, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise SettingError(f"times that cannot be compared are no order ({error}); give numbers or dates") from error
    if (distinct != distinct).any():
        raise SettingError("some times of order= are missing; give one for every training row")
    middle = np.cumsum(size) - (size + 1) / 2
    blocks = np.unique(np.floor(middle * count / len(times)), return_inverse=True)[1]
    if blocks.max() < 1:
        raise SettingError(f"order= has {len(distinct)} different times, too few for blocks one after the other")
    return np.asarray(blocks[place], dtype=np.int64)


def _labels(model: Model, data: Rows) -> Whole | None:
    """The classes (n,) whose frequencies folds keep; None for numbers, and for several labels per row."""
    if model.family.decision is None:
        return None
    targets = leaves(joined([batch.targets for batch in data.batches()]))[0]
    flat = targets[:, 0] if targets.dim() == 2 and targets.shape[1] == 1 else targets
    return flat.cpu().numpy().astype(np.int64) if flat.dim() == 1 else None
