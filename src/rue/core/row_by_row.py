"""Notes where gradients are taken row by row, because a model cannot be vectorised: right, and many times slower."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

MANY = 500  # gradients from which on a fit warns: fewer take a second or two
LONGEST = 160  # letters of a reason


@dataclass
class Loops:
    """What was taken row by row inside a block of code."""

    gradients: int = 0
    reason: str = ""  # what torch said of taking them together

    def warning(self) -> str | None:
        """A sentence for the user; None where it made no difference."""
        if self.gradients < MANY:
            return None
        return (
            f"{self.gradients:,} gradients were taken row by row, because torch cannot take those of several rows of "
            f"this module together ({self.reason}): the numbers are right, and take many times as long; pad sequences "
            "instead of packing them, and write torch.where for what depends on values"
        )


@contextmanager
def noticed() -> Iterator[Loops]:
    """Count what is taken row by row inside this block.

    >>> with noticed() as loops:
    ...     note(3)
    >>> loops.gradients
    3
    """
    loops = Loops()
    token = _open.set(loops)
    try:
        yield loops
    finally:
        _open.reset(token)


def note(rows: int) -> None:
    """Say that gradients of so many rows are taken one by one; the reason is the error that is being handled."""
    loops = _open.get()
    if loops is not None:
        loops.gradients += rows
        loops.reason = " ".join(str(sys.exception() or "").split())[:LONGEST]


_open: ContextVar[Loops | None] = ContextVar("rue_row_by_row", default=None)
