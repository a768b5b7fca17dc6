"""Derivatives of the training rows, kept while one fit lasts: many of its steps read the same ones.

What is kept is what autodiff made, bit for bit: an audit gives the same numbers whether they fit in memory or not.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from rue.core.concepts import Objective, TrainingSet
from rue.core.memory import free_bytes

MOST = 2**30  # bytes that are kept for one fit, at most,
SHARE = 1 / 16  # of the free memory: other steps hold up to 12 times as much, and must not be refused for it

Kind = Literal["Jacobian", "gradient"]


@contextmanager
def derivatives_kept(data: TrainingSet) -> Iterator[None]:
    """Inside this block derivatives of these rows are made once for each model, where they fit; then they are freed."""
    outer = _open.get()
    token = _open.set(outer if outer is not None and outer.data is data else _Store(data))
    try:
        yield
    finally:
        _open.reset(token)


@contextmanager
def reading(data: TrainingSet, rows: slice) -> Iterator[None]:
    """Inside this block derivatives are those of these training rows, whichever model is asked for them."""
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
    """What `make` returns for the rows that are read now, or returned for them before."""
    store = _open.get()
    return make() if store is None or store.rows is None else store.of(kind, model, store.rows, make)


@dataclass
class _Table:
    """The derivatives of one model, by the rows they belong to."""

    model: Objective  # held, so that its id is not another's
    fits: bool
    parts: dict[tuple[int, int], Tensor] = field(default_factory=dict)


@dataclass
class _Store:
    """What is kept of one training set."""

    data: TrainingSet
    rows: slice | None = None  # that are read now
    room: int | None = None  # bytes that are left, once it is known on which device
    tables: dict[tuple[Kind, int], _Table] = field(default_factory=dict)

    def of(self, kind: Kind, model: Objective, rows: slice, make: Callable[[], Tensor]) -> Tensor:
        table = self.tables.get((kind, id(model)))
        place = (rows.start, rows.stop)
        if table is not None and place in table.parts:
            return table.parts[place]
        made = make()
        if table is None:
            table = self.tables[kind, id(model)] = _Table(model, self._fits(made))
        if table.fits:
            table.parts[place] = made
        return made

    def _fits(self, part: Tensor) -> bool:
        """All rows or none, judged by the first that were read."""
        if self.room is None:
            self.room = min(MOST, int(SHARE * free_bytes(part.device)))
        needed = part[:1].nbytes * self.data.n
        if needed > self.room:
            return False
        self.room -= needed
        return True


_open: ContextVar[_Store | None] = ContextVar("rue_kept_derivatives", default=None)
