"""A cache for derivatives of the training rows during one fit, because many steps read the same ones.

Cached derivatives equal the computed ones bit for bit, so an audit gives the same numbers with or without the cache.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from rue.core.concepts import Objective, TrainingSet
from rue.core.memory import free_bytes

MOST = 2**30  # limit of the cache in bytes for one fit
SHARE = 1 / 16  # limit as a part of the free memory: other steps need up to 12 times as much and must find room

Kind = Literal["Jacobian", "gradient"]


@contextmanager
def derivatives_kept(data: TrainingSet) -> Iterator[None]:
    """Compute derivatives of these rows once per model inside this block, if they fit in memory; free them after."""
    outer = _open.get()
    token = _open.set(outer if outer is not None and outer.data is data else _Store(data))
    try:
        yield
    finally:
        _open.reset(token)


@contextmanager
def reading(data: TrainingSet, rows: slice) -> Iterator[None]:
    """Declare that derivatives taken inside this block belong to these training rows."""
    store = _open.get()
    if store is None or store.data is not data:
        yield
        return
    before, store.rows = store.rows, rows
    try:
        yield
    finally:
        store.rows = before


def kept(kind: Kind, model: Objective, make: Callable[[], Tensor]) -> Tensor:
    """The derivatives of the rows that are being read: cached ones if there are any, else those `make` computes."""
    store = _open.get()
    return make() if store is None or store.rows is None else store.of(kind, model, store.rows, make)


@dataclass
class _Table:
    """The derivatives of one model, by the rows they belong to."""

    model: Objective  # a reference, so that its id is not given to another object
    fits: bool
    parts: dict[tuple[int, int], Tensor] = field(default_factory=dict)


@dataclass
class _Store:
    """All derivatives that are cached for one training set."""

    data: TrainingSet
    rows: slice | None = None  # the rows that are being read
    room: int | None = None  # bytes left in the cache; None until the device is known
    tables: dict[tuple[Kind, int], _Table] = field(default_factory=dict)

    def of(self, kind: Kind, model: Objective, rows: slice, make: Callable[[], Tensor]) -> Tensor:
        table = self.tables.get((kind, id(model)))
        place = (rows.start, rows.stop)
        if table is not None and place in table.parts:
            return table.parts[place]
        derivatives = make()
        if table is None:
            table = self.tables[kind, id(model)] = _Table(model, self._fits(derivatives))
        if table.fits:
            table.parts[place] = derivatives
        return derivatives

    def _fits(self, part: Tensor) -> bool:
        """Whether the derivatives of all rows fit, judged by the size of the first part."""
        if self.room is None:
            self.room = min(MOST, int(SHARE * free_bytes(part.device)))
        needed = part[:1].nbytes * self.data.n
        if needed > self.room:
            return False
        self.room -= needed
        return True


_open: ContextVar[_Store | None] = ContextVar("rue_kept_derivatives", default=None)
