"""State of the whole process: changed by the first thread that needs it, put back by the last, under a lock."""

import re
import signal
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, cast

Change = Callable[[], AbstractContextManager[object]]
"""Makes a change of process-wide state, which its exit takes back."""


def surely(step: Callable[[], None]) -> None:
    """Do a short step that puts something back, and again if it is interrupted: doing it twice must do no harm."""
    try:
        step()
    except BaseException:
        step()
        raise


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


class _Note:
    """A handler of Ctrl-C that only remembers it."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, Any]] = []

    def __call__(self, number: int, frame: Any) -> None:
        self.seen.append((number, frame))


@contextmanager
def undivided() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block: derivatives of torch that are cut short leave later ones broken."""
    handler = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()  # interruptions come to no other
    if not main or not callable(handler) or isinstance(handler, _Note):
        yield
        return
    note = _Note()
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if note.seen:
            handler(*note.seen[-1])


forward_mode = threading.RLock()
"""Held while torch differentiates forwards: it counts the levels of all threads together."""


class Filters:
    """The filters of warnings, put back as they were before threads or an interruption mixed them up.

    `warnings.catch_warnings`, which scikit-learn uses in every prediction, puts back the list that it found: with
    several threads the list of another one, and after an interruption at the wrong moment none.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside: list[object] = []  # one for each block that a thread is inside
        self.first: int | None = None  # the thread that came first
        self.mixed = False  # whether others came while it was inside, or a block was interrupted
        self.own: list[Any] = []  # filters of `ignoring` that are in use
        self.list: list[Any] = []
        self.before: list[Any] = []  # what was in the list

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Put the filters back when the last of several threads leaves, or if it is interrupted.

        One thread alone leaves the changes that were made inside.
        """
        block = object()
        try:
            with self.lock:
                if not self.inside:
                    self.first, self.mixed = threading.get_ident(), False
                    self.list = cast(list[Any], warnings.filters)
                    self.before = self._without(self.list, self.own)
                self.mixed |= threading.get_ident() != self.first
                self.inside.append(block)
            yield
        except BaseException as error:
            self.mixed |= not isinstance(error, Exception)
            raise
        finally:
            surely(partial(self._leave, block))

    @contextmanager
    def ignoring(self, own: list[Any]) -> Iterator[None]:
        """Put filters in front, and take out these and no others."""
        filters = cast(list[Any], warnings.filters)
        try:
            with self.lock:
                self.own += own
                filters[:0] = own
            yield
        finally:
            surely(partial(self._take_out, own, filters))

    def _leave(self, block: object) -> None:
        with self.lock:
            self.inside = [other for other in self.inside if other is not block]
            if not self.inside and self.mixed:
                self.list[:] = self.before
                warnings.filters = self.list

    def _take_out(self, own: list[Any], filters: list[Any]) -> None:
        with self.lock:
            for held in (self.own, filters, cast(list[Any], warnings.filters)):  # which others may have replaced
                held[:] = self._without(held, own)

    @staticmethod
    def _without(held: list[Any], out: list[Any]) -> list[Any]:
        return [each for each in held if not any(each is mine for mine in out)]


_filters = Filters()
filters_kept = _filters.kept


def ignoring(*messages: str, category: type[Warning] = Warning) -> AbstractContextManager[None]:
    """Ignore some warnings inside the block, in all threads, which do not wait for each other."""
    own = [("ignore", re.compile(message, re.IGNORECASE), category, None, 0) for message in messages or ("",)]
    return _filters.ignoring(own)
