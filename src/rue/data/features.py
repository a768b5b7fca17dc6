"""Inputs as points in a Euclidean space, for methods that measure distances."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.core.arrays import Array
from rue.core.concepts import LEVELS, POINTS, Inputs, TrainingSet
from rue.core.errors import ShapeError
from rue.core.nested import leaves
from rue.core.stored import storable

ROUNDING = 1e-7  # of a column's mean: a smaller deviation is that of a constant, by its sums of squares
LEVELS_KEPT = 10  # most frequent levels of a category that get a column; the others have zeros in all of them


@storable
@dataclass(frozen=True)
class Standardiser:
    """Mean and standard deviation of the columns of the training rows; a constant column is only centred.

    Missing values are replaced by the mean, and a column of zeros and ones marks them. The last columns may be levels,
    numbers that only name a category: each frequent level becomes a column of zeros and ones.
    """

    mean: Array = field(repr=False)
    scale: Array = field(repr=False)
    fill: Array | float = field(default=0.0, repr=False)  # (p,), replaces missing numbers
    gaps: tuple[int, ...] = field(default=(), repr=False)  # the columns with missing values, which get a marker column
    levels: tuple[Array, ...] = field(default=(), repr=False)  # the frequent levels of each of the last columns

    @classmethod
    def of(cls, values: Array, named: int = 0) -> "Standardiser":
        """Measure (n, ...) over its rows; the last `named` columns are levels.

        >>> Standardiser.of(np.array([[0.0, 5.0], [2.0, 5.0]]))(np.array([[3.0, 6.0]]))
        array([[2., 1.]])
        >>> Standardiser.of(np.array([[1.0, 7.0], [np.nan, 9.0]]), named=1)(np.array([[np.nan, 8.0]]))
        array([[ 0.,  1., -1.]])
        """
        numbers = values[..., : values.shape[-1] - named] if named else values
        lost = np.isnan(numbers)
        fill = np.nanmean(np.where(lost.all(axis=0), 0.0, numbers), axis=0)
        gaps = tuple(np.flatnonzero(lost.any(axis=0)).tolist()) if lost.any() else ()
        levels = tuple(_usual(values[:, values.shape[1] - named + j]) for j in range(named))
        plain = cls(np.zeros(()), np.ones(()), fill, gaps, levels)
        wide = plain.wide(values)
        scale = wide.std(axis=0)
        return cls(wide.mean(axis=0), scale + (scale == 0), fill, gaps, levels)

    def __call__(self, values: Array) -> Array:
        """Standardise (m, ...)."""
        return np.asarray((self.wide(values) - self.mean) / self.scale)

    def tensor(self, inputs: Inputs, like: Tensor) -> Tensor:
        """Standardised coordinates (m, p) of inputs as a tensor, computed on a GPU if they are there."""
        flat = None if self.gaps or self.levels else _flat_on_gpu(inputs)
        if flat is None:
            return torch.as_tensor(self(coordinates(inputs))).to(like)
        mean, scale = (torch.as_tensor(part).to(flat) for part in (self.mean, self.scale))
        return ((flat - mean) / scale).to(like)

    def wide(self, values: Array) -> Array:
        """Columns before scaling: missing values filled and marked, levels as zeros and ones."""
        lost = np.isnan(values)
        if not (self.gaps or self.levels or lost.any()):
            return values
        p = values.shape[1] - len(self.levels)
        parts = [np.where(lost[:, :p], self.fill, values[:, :p]), lost[:, list(self.gaps)].astype(np.float64)]
        parts += [(values[:, p + j, None] == usual).astype(np.float64) for j, usual in enumerate(self.levels)]
        return np.hstack(parts)


def _usual(column: Array) -> Array:
    """The most frequent levels; only one if there are two, because one column is enough for two levels."""
    levels, counts = np.unique(column, return_counts=True)
    kept: Array = levels[np.lexsort((levels, -counts))][:LEVELS_KEPT]
    return kept[:1] if len(levels) == 2 else kept


def training_points(data: TrainingSet) -> tuple[Standardiser, Array]:
    """A standardiser for inputs, and the standardised coordinates (n, p) of the training rows."""
    parts = [coordinates(batch.inputs) for batch in data.batches()]
    widths = sorted({part.shape[1] for part in parts})
    if len(widths) > 1:
        raise ShapeError(
            f"batches have {widths[0]} to {widths[-1]} features per row, as texts padded batch by batch do",
            "distances need rows of one length: pad all to the longest, or use a method of the model's own, such as "
            "LinearRUE",
        )
    raw = np.concatenate(parts)
    standardise = Standardiser.of(raw, named=_named(next(iter(data.batches())).inputs))
    return standardise, standardise(raw)


def some_points(data: TrainingSet, rows: Tensor) -> tuple[Standardiser, Tensor]:
    """A standardiser for inputs, and the standardised coordinates (s, p) of some training rows (s,) on their device.

    Rows of plain numbers on a GPU are measured there: copying pictures takes longer than all that is done with them.
    """
    sums: list[Tensor] = []
    parts: list[Tensor] = []
    for batch in data.batches():
        flat = _flat_on_gpu(batch.inputs)
        if flat is None or (parts and flat.shape[1] != parts[0].shape[1]):
            standardise, points = training_points(data)
            return standardise, torch.as_tensor(points, device=rows.device)[rows]
        here = rows[(rows >= batch.rows.start) & (rows < batch.rows.stop)] - batch.rows.start
        parts.append(flat[here])
        sums.append(torch.stack([flat.sum(0), flat.square().sum(0)]))
    mean, square = torch.stack(sums).sum(0) / data.n
    scale = (square - mean.square()).clamp_min(0).sqrt()
    scale = torch.where(scale > ROUNDING * mean.abs(), scale, 1.0)
    measured = Standardiser(mean.cpu().numpy(), scale.cpu().numpy(), mean.cpu().numpy())
    return measured, (torch.cat(parts) - mean) / scale


def _flat_on_gpu(inputs: Inputs) -> Tensor | None:
    """All numbers of every row side by side (c, p) in float64; None where they are on a CPU, named or missing."""
    parts = leaves(inputs)
    if _pointed(inputs) or any(part.device.type == "cpu" for part in parts):
        return None
    flat = torch.cat([part.detach().reshape(len(part), -1).double() for part in parts], 1)
    return None if bool(flat.isnan().any()) else flat


def coordinates(inputs: Inputs) -> Array:
    """All parts of the inputs side by side (c, p); only `POINTS` and `LEVELS`, if the inputs have these keys."""
    used = [inputs[name] for name in (POINTS, LEVELS) if name in inputs] if _pointed(inputs) else inputs
    parts: list[Any] = [leaf.detach().cpu().double().reshape(len(leaf), -1).numpy() for leaf in leaves(used)]
    return np.concatenate(parts, axis=1)


def some_coordinates(inputs: Inputs, most: int) -> Array:
    """As `coordinates`; of tensors with more numbers for a row than `most`, as pictures have, so many evenly spread."""
    if _pointed(inputs):
        return coordinates(inputs)
    flat = [leaf.detach().reshape(len(leaf), -1) for leaf in leaves(inputs)]
    chosen = [part[:, torch.linspace(0, part.shape[1] - 1, min(most, part.shape[1])).long()] for part in flat]
    return np.concatenate([part.cpu().double().numpy() for part in chosen], axis=1)


def _pointed(inputs: Inputs) -> bool:
    return isinstance(inputs, Mapping) and POINTS in inputs


def _named(inputs: Inputs) -> int:
    """The number of columns that are levels."""
    return inputs[LEVELS].shape[1] if _pointed(inputs) and LEVELS in inputs else 0
