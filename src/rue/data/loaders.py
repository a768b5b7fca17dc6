"""Draws the rows of a loader, a dataset or a stream once, so that every pass reads the same."""

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, default_collate

from rue.core.errors import DataError

ENDLESS = 20  # batches drawn for each row of a dataset, from which on a sampler is taken to have no end
UNCOUNTED = 10_000  # rows read from a stream without a length, from which on it is taken to have no end


def drawn(source: Any) -> tuple[list[list[Any]], Callable[[list[Any]], Any], Any]:
    """Draw a loader's indices once, whatever its sampler, and leave its generators as they were."""
    if isinstance(source, DataLoader) and isinstance(source.dataset, IterableDataset):
        with _generators_untouched(source):
            stream = _ended(source, source.dataset, source.batch_size or 1)
        return [[i] for i in range(len(stream))], operator.itemgetter(0), stream
    if isinstance(source, IterableDataset):
        stream = _ended(source, source, 1)
        return [list(range(len(stream)))], default_collate, stream
    if isinstance(source, DataLoader):
        with _generators_untouched(*_samplers(source)):
            if source.batch_sampler is None:  # the dataset itself yields batches
                return (
                    [[index] for index in source.sampler],
                    partial(_collated, source.collate_fn),
                    source.dataset,
                )
            return _finite(source.batch_sampler, source.dataset), source.collate_fn, source.dataset
    if not hasattr(source, "__len__"):
        raise DataError(f"{type(source).__name__} has no length; give a Dataset with __len__ or a DataLoader")
    n = len(source)
    return [list(range(a, min(a + 256, n))) for a in range(0, n, 256)], default_collate, source


def _collated(collate: Callable[[Any], Any], items: list[Any]) -> Any:
    """The one item, a whole batch, as the loader's own function makes it."""
    return collate(items[0])


def _finite(sampler: Any, dataset: Any) -> list[list[Any]]:
    """The batches of row numbers that a sampler draws; raises if it does not come to an end."""
    most = ENDLESS * max(1, len(dataset)) + ENDLESS
    batches: list[list[Any]] = []
    for indices in sampler:
        batches.append(list(indices))
        if len(batches) > most:
            raise DataError(
                f"the sampler has drawn more than {most} batches from {len(dataset)} rows and has no end; give the "
                "audit a loader that reads every row once"
            )
    return batches


def _ended(source: Any, dataset: Any, rows: int) -> list[Any]:
    """Everything a stream gives, `rows` at a time, kept in its order because its rows have no numbers.

    Raises if it does not come to an end.
    """
    try:
        most, known = ENDLESS * (len(dataset) + 1), f"{len(dataset)} is its length"
    except (TypeError, NotImplementedError):
        most, known = UNCOUNTED, "it has no length"
    stream = []
    for item in source:  # list() would ask for a length
        stream.append(item)
        if rows * len(stream) > most:
            raise DataError(
                f"the stream {type(dataset).__name__} has given more than {most} rows, and {known}: it may have "
                "no end; give it a __len__ and let it stop after every row was given once, or give a Dataset or arrays"
            )
    return stream


def _samplers(owner: Any) -> list[Any]:
    """A loader, its samplers, and their samplers."""
    inner = [getattr(owner, name, None) for name in ("sampler", "batch_sampler")]
    return [owner, *(sampler for part in inner if part is not None for sampler in _samplers(part))]


@contextmanager
def _generators_untouched(*owners: Any) -> Iterator[None]:
    generators = [g for g in (getattr(owner, "generator", None) for owner in owners) if g is not None]
    states = [g.get_state() for g in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


def fetched(dataset: Any, collate: Callable[[list[Any]], Any], indices: list[Any]) -> Any:
    """The rows of one batch, put together as the loader does it."""
    return collate([dataset[index] for index in indices])


def row_numbers(batches: list[list[Any]]) -> list[int] | None:
    """The number of every row that is read; None where the dataset is not indexed by numbers."""
    flat = [i for indices in batches for index in indices for i in (index if isinstance(index, list) else [index])]
    try:
        return [operator.index(index) for index in flat]  # also of NumPy and of tensors
    except TypeError:
        return None
