"""State of the whole process: changed by the first thread that needs it, put back by the last, under a lock."""

import re
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, cast

Change = Callable[[], AbstractContextManager[object]]
"""Makes a change of process-wide state, which its exit takes back."""


class Sides:
    """Ways to compute that need different process-wide settings: threads on one side run together, others wait.

    >>> sides = Sides()
    >>> with sides.on("plain", ExitStack), sides.on("plain", ExitStack):
    ...     sides.count
    2
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()  # taken itself, not through `free`, whose exit an interruption can skip
        self.free = threading.Condition(self.lock)
        self.side: Hashable = None
        self.count = 0
        self.change = ExitStack()

    @contextmanager
    def on(self, side: Hashable, change: Change) -> Iterator[None]:
        """Compute under a change that all threads of this side share."""
        inside = False
        try:
            with self.lock:
                self.free.wait_for(lambda: self.count == 0 or self.side == side)
                if self.count == 0:
                    self.change.enter_context(change())
                    self.side = side
                self.count += 1
                inside = True
            yield
        finally:
            with self.lock:
                self.count -= inside
                if self.count == 0:  # also where the change was interrupted
                    self.change.close()
                    self.free.notify_all()


forward_mode = threading.RLock()
"""Held while torch differentiates forwards: it counts the levels of all threads together."""

_filters = threading.Lock()


@contextmanager
def ignoring(*messages: str, category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore some warnings inside the block, in all threads: filters belong to the process.

    Threads do not wait for each other: each puts its own filters into the list and takes them out again. Whole lists,
    which `warnings.catch_warnings` puts back, would be those of another thread.
    """
    own = [("ignore", re.compile(message, re.IGNORECASE), category, None, 0) for message in messages or ("",)]
    filters = cast(list[Any], warnings.filters)
    try:
        with _filters:
            filters[:0] = own
        yield
    finally:
        with _filters:
            for held in (filters, cast(list[Any], warnings.filters)):  # others may have replaced the list meanwhile
                held[:] = [each for each in held if not any(each is mine for mine in own)]
