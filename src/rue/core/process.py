"""State of the whole process: changed by the first thread that needs it, put back by the last, under a lock."""

import threading
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

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
        self.free = threading.Condition(threading.Lock())
        self.side: Hashable = None
        self.count = 0
        self.change = ExitStack()

    @contextmanager
    def on(self, side: Hashable, change: Change) -> Iterator[None]:
        """Compute under a change that all threads of this side share."""
        with self.free:
            self.free.wait_for(lambda: self.count == 0 or self.side == side)
            if self.count == 0:
                self.change.enter_context(change())
                self.side = side
            self.count += 1
        try:
            yield
        finally:
            with self.free:
                self.count -= 1
                if self.count == 0:
                    self.change.close()
                    self.free.notify_all()


_filters = threading.RLock()


@contextmanager
def ignoring(*messages: str, category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore some warnings inside the block; threads wait for each other, because filters belong to all of them."""
    with _filters, warnings.catch_warnings():
        for message in messages or ("",):
            warnings.filterwarnings("ignore", message, category)
        yield
