"""Memory: how much is free, and a cache for derivatives of the training rows, which many steps of a fit read.

Cached derivatives equal the computed ones bit for bit, so an audit gives the same numbers with or without the cache.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rue.core.checkpoint import restored
from rue.core.concepts import Batch, Inputs, Objective, Predictor, TrainingSet
from rue.core.nested import leaves
from rue.core.stored import storable

UNKNOWN = 2**33  # bytes assumed where the system does not report its memory
MOST = 2**30  # limit of the cache in bytes for one fit on a CPU
SHARE = 1 / 16  # limit as a part of the free memory: other steps need up to 12 times as much and must find room
OF_SKETCH = 1 / 4  # the same for sketches, which are small beside what they are made of and take a pass to make again

GROUPS = Path("/sys/fs/cgroup")
CONTAINERS = (  # of both versions of control groups: the limit, what is used, and what of it files take
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)

Kind = Literal["Jacobian", "gradient", "output"]


def free_bytes(device: torch.device) -> int:
    """Memory that can be allocated on a device now."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return min(int(lines["MemAvailable"].split()[0]) * 1024, _of_container())
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return UNKNOWN


def _of_container() -> int:
    """What a container may still use; what files take of it can be freed. Unlimited where there is no container."""
    for limit, used, stat, files in CONTAINERS:
        try:
            room = int((GROUPS / limit).read_text())  # the word "max" where there is no limit
            entries = dict(line.split() for line in (GROUPS / stat).read_text().splitlines())
            return max(0, room - int((GROUPS / used).read_text()) + int(entries.get(files, 0)))
        except (OSError, ValueError):
            continue
    return sys.maxsize


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
def audited_kept(inputs: Inputs) -> Iterator[None]:
    """Compute derivatives of these inputs once per model inside this block."""
    token = _audited.set(_AuditedRows(leaves(inputs)[0]))
    try:
        yield
    finally:
        _audited.reset(token)


@storable
class SampleOf(NamedTuple):
    """All training rows, and which of them are the rows of a sample."""

    data: TrainingSet
    rows: Tensor  # (s,), rising


@contextmanager
def reading(data: TrainingSet, part: Batch, sample_of: SampleOf | None = None) -> Iterator[None]:
    """Declare that derivatives of these inputs, taken inside this block, belong to these training rows."""
    data, before = data.whole, _reading.get()
    if sample_of is None and before is not None and before.data is data:
        sample_of = before.sample_of
    _reading.set(_Reading(data, part, sample_of))
    try:
        yield
    finally:
        _reading.set(before)


def targets_of(inputs: Inputs) -> Any:
    """The targets of these inputs while they are read as training rows; None for any other inputs."""
    current = _reading.get()
    return current.part.targets if current is not None and current.has(inputs) else None


def rows_read(data: TrainingSet, inputs: Inputs) -> slice | None:
    """Which of these training rows the inputs are, while they are read as such; None for any other inputs."""
    current = _reading.get()
    return current.part.rows if current is not None and current.data is data and current.has(inputs) else None


def kept(kind: Kind, model: Objective, inputs: Inputs, make: Callable[[], Tensor]) -> Tensor:
    """The derivatives of the rows that are being read: cached ones if there are any, else those `make` computes."""
    audited = _audited.get()
    if audited is not None and leaves(inputs)[0] is audited.first:
        return audited.of(kind, model, make)
    store, current = _open.get(), _reading.get()
    if store is None or current is None or not current.has(inputs):
        return make()
    if current.data is not store.data:
        whole = current.sample_of
        if whole is None or whole.data is not store.data:
            return make()
        found = store.some(kind, model, whole.rows[current.part.rows])
        return make() if found is None else found
    remade = make if kind == "output" else partial(restored, kind, model, inputs, make)  # outputs tell parts apart
    return store.of(kind, model, current.part.rows, remade)


def known(kind: Kind, model: Objective, inputs: Inputs) -> Tensor | None:
    """What has been computed already of the inputs that are being audited; None if nothing was."""
    audited = _audited.get()
    if audited is None or leaves(inputs)[0] is not audited.first:
        return None
    return audited.parts.get((kind, id(model)), (None, None))[1]


def once(kind: Kind, model: Predictor, inputs: Inputs, make: Callable[[], Tensor]) -> Tensor:
    """As `kept`, of the inputs that are being audited and no others."""
    audited = _audited.get()
    return audited.of(kind, model, make) if audited is not None and leaves(inputs)[0] is audited.first else make()


class _Reading(NamedTuple):
    """The training rows that are being read."""

    data: TrainingSet
    part: Batch
    sample_of: SampleOf | None

    def has(self, inputs: Inputs) -> bool:
        """Whether these are the very inputs of these rows."""
        return leaves(inputs)[0] is leaves(self.part.inputs)[0]


@dataclass
class _Table:
    """The derivatives of one model, by the rows they belong to."""

    model: Objective  # a reference, so that its id is not given to another object
    fits: bool
    parts: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def tiling(self, start: int, stop: int) -> list[Tensor]:
        """Parts that together are the rows from start to stop; none where some are missing."""
        ends = dict(self.parts.keys())  # by their first row
        found = []
        while start < stop:
            end = ends.get(start)
            if end is None or end > stop:
                return []
            found.append(self.parts[start, end])
            start = end
        return found


@dataclass
class _Store:
    """All derivatives that are cached for one training set."""

    data: TrainingSet
    room: int | None = None  # bytes left in the cache; None until the device is known
    tables: dict[tuple[Kind, int], _Table] = field(default_factory=dict)

    def of(self, kind: Kind, model: Objective, rows: slice, make: Callable[[], Tensor]) -> Tensor:
        table = self.tables.get((kind, id(model)))
        place = (rows.start, rows.stop)
        if table is not None:
            if place in table.parts:
                return table.parts[place]
            parts = table.tiling(*place)
            if parts:
                return torch.cat(parts)
        derivatives = make()
        if table is None:
            table = self.tables[kind, id(model)] = _Table(model, self._fits(derivatives, model.family.straight))
        if table.fits:
            table.parts[place] = derivatives
        return derivatives

    def some(self, kind: Kind, model: Objective, rows: Tensor) -> Tensor | None:
        """What is cached of some rows (s,), whose numbers rise; None where some of it is missing."""
        table = self.tables.get((kind, id(model)))
        found: list[Tensor] = []
        for (start, stop), part in sorted(table.parts.items()) if table is not None else ():
            here = rows[(rows >= start) & (rows < stop)] - start
            if len(here):
                found.append(part[here.to(part.device)])
        return torch.cat(found) if found and sum(map(len, found)) == len(rows) else None

    def _fits(self, part: Tensor, sketch: bool) -> bool:
        """Whether the derivatives of all rows fit, judged by the size of the first part."""
        if self.room is None:
            free = free_bytes(part.device)
            self.room = int(OF_SKETCH * free) if sketch else min(MOST, int(SHARE * free))
        needed = part[:1].nbytes * self.data.n
        if needed > self.room:
            return False
        self.room -= needed
        return True


@dataclass
class _AuditedRows:
    """The derivatives of one batch of inputs."""

    first: Tensor  # its first tensor, by which it is known
    parts: dict[tuple[Kind, int], tuple[Predictor, Tensor]] = field(default_factory=dict)

    def of(self, kind: Kind, model: Predictor, make: Callable[[], Tensor]) -> Tensor:
        if (kind, id(model)) not in self.parts:
            self.parts[kind, id(model)] = (model, make())
        return self.parts[kind, id(model)][1]


_audited: ContextVar[_AuditedRows | None] = ContextVar("rue_audited_derivatives", default=None)
_reading: ContextVar[_Reading | None] = ContextVar("rue_rows_that_are_read", default=None)
_open: ContextVar[_Store | None] = ContextVar("rue_kept_derivatives", default=None)
