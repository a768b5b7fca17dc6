"""Inputs that no row has: drawn within the ranges of the training columns, to see whether a model is the same again."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.arrays import Array
from rue.core.derivatives import outputs
from rue.core.errors import ModelError, RueError
from rue.core.model import Model
from rue.core.nested import joined, leaves, map_leaves
from rue.core.resample import untouched
from rue.core.stored import storable
from rue.data.rows import Rows

COUNT = 32
MOST_WORDS = 100  # of a column that are drawn among,
SHARED = 5  # each of so many rows or more: a rarer one tells of somebody
TINY, SMALLEST = 1e-30, 1e-6  # a range is at least so wide, and so wide a part of its ends
SEEN = 1000  # rows that a range is taken of, where they are no table
NEAR = 1e-4  # of the largest output
UNREADABLE = (RueError, RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError)
Form = Literal["array", "tensor", "frame", "read"]
"""What is drawn: a table as the user gave it, or what the model's boundary made of other rows."""


@storable
@dataclass(frozen=True)
class Range:
    """One column, or all numbers of one array: what its training rows lie between, or the words they hold."""

    dtype: str
    low: NDArray[Any] | None = field(default=None, repr=False)  # of each entry of a row
    high: NDArray[Any] | None = field(default=None, repr=False)
    words: tuple[Any, ...] = ()

    @classmethod
    def of(cls, values: NDArray[Any]) -> "Range":
        """The range of (n, ...) values, a little wider, so that no number of a row is an end of it."""
        kind = values.dtype.kind
        if kind in "mM":
            return replace(cls.of(values.view(np.int64)), dtype=values.dtype.str)
        if kind not in "biuf":
            counts = Counter(word for word in values.ravel().tolist() if isinstance(word, str))
            common = sorted(word for word, count in counts.items() if count >= SHARED)
            return cls(values.dtype.str, words=tuple(common[:MOST_WORDS]))
        if kind != "f":
            return cls(values.dtype.str, values.min(axis=0), values.max(axis=0))
        finite = np.where(np.isfinite(values), values, 0)
        low, high = finite.min(axis=0).astype(np.float64), finite.max(axis=0).astype(np.float64)
        span = np.maximum(high - low, TINY + SMALLEST * np.maximum(np.abs(low), np.abs(high)))
        unit = 10.0 ** np.floor(np.log10(span))
        return cls(values.dtype.str, np.floor(low / unit) * unit, np.ceil(high / unit) * unit)

    def draw(self, source: np.random.Generator) -> NDArray[Any]:
        """`COUNT` rows."""
        if self.low is None or self.high is None:
            numbers = source.integers(0, max(1, len(self.words)), COUNT)
            drawn = np.empty(COUNT, dtype=object)
            drawn[:] = [self.words[number] if self.words else "" for number in numbers]
            return drawn
        low, high, kind = self.low, self.high, np.dtype(self.dtype).kind
        share = source.random((COUNT, *low.shape))
        if kind == "f":
            return (low + share * (high - low)).astype(self.dtype)
        whole = low.astype(np.float64) + np.floor(share * (high.astype(np.float64) - low + 1))
        numbers = np.minimum(whole, high).astype(np.int64)
        return numbers.view(self.dtype) if kind in "mM" else numbers.astype(self.dtype)


@storable
@dataclass(frozen=True)
class Probes:
    """A seed, what is drawn by it, and what the model answered."""

    form: Form
    ranges: Any  # of the columns of a frame, of an array, or of every leaf of what the model reads
    seed: int
    answers: Array = field(repr=False)

    @classmethod
    def of(cls, model: Model, rows: Rows, seed: int = 0) -> "Probes | None":
        """Draw within the ranges of the training rows, and ask the model; None where it cannot answer."""
        try:
            asked = cls(*_ranges(rows), seed, np.empty(0))
            return replace(asked, answers=asked.asked(model))
        except UNREADABLE:
            return None

    def asked(self, model: Model) -> Array:
        """What a model answers (32, k)."""
        source = np.random.default_rng(self.seed)
        drawn = map_leaves(lambda part: part.draw(source), self.ranges)
        device = model.theta.device
        with untouched(), torch.inference_mode(False):
            if self.form == "read":
                return _answers(model, map_leaves(lambda part: torch.from_numpy(part).to(device), drawn))
            if self.form == "frame":
                import pandas as pd

                drawn = pd.DataFrame(drawn)
            elif self.form == "tensor":
                drawn = torch.from_numpy(drawn).to(device)
            return _answers(model, model.read(drawn))

    def refuse_another(self, model: Model) -> None:
        """Raise where a model gives other answers."""
        try:
            found = self.asked(model)
        except UNREADABLE as error:
            raise ModelError(
                f"the model cannot take {COUNT} rows drawn within the ranges of the training columns of the stored "
                f"audit ({error}); hand rue.load the model that was audited"
            ) from error
        size = float(np.abs(self.answers[np.isfinite(self.answers)]).max(initial=0.0))
        if found.shape != self.answers.shape or not np.allclose(found, self.answers, 0.0, NEAR * size, equal_nan=True):
            raise ModelError(
                f"this is not the model that was audited: for {COUNT} rows drawn within the ranges of the training "
                "columns it predicts something else (other weights, another order of columns, or another mode); hand "
                "rue.load that model, or fit the audit again"
            )


def _answers(model: Model, read: Any) -> Array:
    return np.asarray(outputs(model, read).detach().cpu().double().numpy())


def _ranges(rows: Rows) -> tuple[Form, Any]:
    raw = rows.source.X
    if hasattr(raw, "iloc") and raw.columns.is_unique:
        return "frame", {name: Range.of(np.asarray(raw[name])) for name in raw.columns}
    if isinstance(raw, Tensor):
        return "tensor", Range.of(raw.detach().cpu().numpy())
    if isinstance(raw, np.ndarray):
        return "array", Range.of(raw)
    seen: list[Any] = []
    for batch in rows.batches():
        seen.append(map_leaves(lambda part: part.detach().cpu(), batch.inputs))
        if sum(len(leaves(part)[0]) for part in seen) >= SEEN:
            break
    return "read", map_leaves(lambda part: Range.of(part.numpy()), joined(seen))
