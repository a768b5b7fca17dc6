"""A progress bar for long work, and a way to silence it."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

PATIENCE = 1.5  # seconds before a bar appears

T = TypeVar("T")

_quiet: ContextVar[bool] = ContextVar("rue_quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Show no progress inside this block (the variable RUE_PROGRESS=0 does so everywhere).

    >>> with quiet():
    ...     list(track("counting", range(3), total=3))
    [0, 1, 2]
    """
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def track(
    label: str, items: Iterable[T], total: int | None = None, size: Callable[[T], int] = lambda _: 1
) -> Iterator[T]:
    """Yield the items; show a progress bar once they have taken longer than `PATIENCE`.

    `size` says how much of the `total` an item is.
    """
    if _silenced():
        yield from items
        return
    start = time.monotonic()
    iterator = iter(items)
    done = 0
    for item in iterator:
        yield item
        done += size(item)
        if time.monotonic() - start > PATIENCE:
            break
    else:
        return
    yield from _with_bar(label, iterator, done, total, size)


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Show a spinner while this block runs, for work of unknown length such as a download."""
    if _silenced():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(label):
        yield


def _silenced() -> bool:
    return _quiet.get() or os.environ.get("RUE_PROGRESS") == "0" or not sys.stderr.isatty()


def _with_bar(label: str, items: Iterator[T], done: int, total: int | None, size: Callable[[T], int]) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, completed=done)
        for item in items:
            yield item
            bar.advance(task, size(item))
