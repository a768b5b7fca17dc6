"""What every way to solve for the curvature would cost, and which is chosen for what reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rue.core.concepts import Facts, Solver

GIB = 2**30
HEAD = ("solver", "answer", "memory", "passes", "fit", "audit", "")


class AuditSize(NamedTuple):
    """The numbers that costs depend on."""

    n: int  # training rows
    units: int  # what is resampled: rows or groups
    d: int  # parameters
    k: int  # outputs
    m: int  # rows to audit
    itemsize: int  # bytes of a parameter
    largest: int  # rows of a matrix that is factored unasked


class Streaming(NamedTuple):
    """What it takes to multiply gradients layer by layer."""

    numbers: int  # of a row and output that are held
    drawn: float  # seconds to find out how every layer is read off
    kept: bool  # what is held of training rows is kept for audits


class Rates(NamedTuple):
    """Seconds, measured by a short probe on this machine."""

    bound: float  # to read the data and admit the model, once
    forward: float  # a forward pass of one row
    gradient: float  # all gradients of one row
    looped: bool  # gradients are taken row by row
    multiplication: float  # one multiplication and addition in a large product of matrices, float64
    number: float  # one float64 number in new memory
    passing: int  # bytes of the hidden layers of a batch in a forward pass on a GPU; 0 on a CPU, which cuts batches
    sketch: "SketchRates | None"  # None where none can be made


class SketchRates(NamedTuple):
    """Seconds of one sketch; those of others are in proportion to their coordinates."""

    size: int  # coordinates
    drawn: float  # to draw its coordinates and to try them
    row: float  # the coordinates of one row
    looped: bool  # gradients of some parameters are taken row by row
    held: int  # bytes of hidden layers that are in memory at once


@dataclass(frozen=True)
class Way:
    """One way to solve for the curvature, and its cost."""

    name: str  # of the solver, with its size
    solver: Solver
    answer: str  # how near the answer is to the exact one
    bytes: int  # of memory at the most, beside what is in use before
    passes: float  # over the training rows; one is a forward pass, and a backward pass for every output
    seconds_fit: float | None  # None where nothing was measured
    seconds_audit: float | None
    whole: bool = False  # it solves for all parameters at once
    refused: str | None = None  # why it is not possible; None where it is
    row_by_row: bool = False  # gradients of several rows cannot be taken together, which the seconds include

    @property
    def seconds(self) -> float | None:
        """Fit and audit together."""
        return None if self.seconds_fit is None else self.seconds_fit + (self.seconds_audit or 0.0)

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        times = [duration(value) for value in (self.seconds_fit, self.seconds_audit)]
        return (
            self.name,
            self.answer,
            in_words(self.bytes),
            f"{self.passes:.3g}",
            *times,
            self.refused or self._remark(),
        )

    def _remark(self) -> str:
        return "row by row: torch cannot take gradients of several rows together" if self.row_by_row else ""


@dataclass(frozen=True)
class Plan:
    """The ways in the order in which they are preferred, the one that is chosen, and why.

    `print(plan)` shows a table. `chosen` is None where nothing is possible; `fit` then refuses.
    """

    size: AuditSize
    memory: int  # bytes that may be used
    time: float | None  # seconds that fit and audit may take
    ways: tuple[Way, ...]
    chosen: Way | None
    why: str

    def __str__(self) -> str:
        rows = [HEAD, *(way.cells() for way in self.ways)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        marks = ["  ", *("* " if way is self.chosen else "  " for way in self.ways)]
        size = self.size
        limit = "" if self.time is None else f" and {duration(self.time)}"
        counts = f"{size.n:,} training rows, {size.d:,} parameters, {size.k} outputs, {size.m:,} rows to audit"
        if size.n == 0:
            counts = f"{size.d:,} parameters, before any row is counted"
        return "\n".join(
            [
                f"{counts}; {in_words(self.memory)} of memory{limit}",
                *(mark + line for mark, line in zip(marks, lines, strict=True)),
                self.why,
            ]
        )

    def to_dict(self) -> Facts:
        """Plain numbers and words, one entry for each way."""
        ways: list[dict[str, Any]] = [
            {
                "solver": repr(way.solver),
                "answer": way.answer,
                "bytes": way.bytes,
                "passes": way.passes,
                "seconds_fit": way.seconds_fit,
                "seconds_audit": way.seconds_audit,
                "refused": way.refused,
                "row_by_row": way.row_by_row,
                "chosen": way is self.chosen,
            }
            for way in self.ways
        ]
        return {**self.size._asdict(), "memory": self.memory, "time": self.time, "why": self.why, "ways": ways}


def planned(size: AuditSize, memory: int, time: float | None, ways: Sequence[Way]) -> Plan:
    """Choose the first way that is possible."""
    chosen = next((way for way in ways if way.refused is None), None)
    if chosen is not None:
        first = "the only one" if sum(way.refused is None for way in ways) == 1 else "the most faithful"
        why = f"{chosen.name} is chosen: {first} of those that are possible here{_faster(chosen, ways)}"
    else:
        why = f"nothing is possible: {_lacking(ways, memory, time)}"
    return Plan(size, memory, time, tuple(ways), chosen, why)


def _faster(chosen: Way, ways: Sequence[Way]) -> str:
    """Another way to the same exact answer that takes half the time or less."""
    others = [way for way in ways if way.refused is None and way.answer == chosen.answer == "exact"]
    soonest = min(others, key=lambda way: way.seconds or 0.0, default=chosen)
    if chosen.seconds is None or soonest.seconds is None or 2 * soonest.seconds > chosen.seconds:
        return ""
    return (
        f"; {soonest.name} is exact too, in {duration(soonest.seconds)} instead of {duration(chosen.seconds)} and "
        f"{in_words(soonest.bytes)}: hand solver={soonest.name} to the method"
    )


def _lacking(ways: Sequence[Way], memory: int, time: float | None) -> str:
    """What there is too little of, how much is needed, and what to do."""
    fewer = "audit fewer parameters (select= takes names of net.named_parameters(), as those of its last layer)"
    inside = [way for way in ways if way.bytes <= memory]
    if not inside:
        least = min(ways, key=lambda way: way.bytes)
        return f"the least memory is {in_words(least.bytes)}, for {least.name}; {fewer}, or give more memory"
    if time is None:
        return f"{inside[0].name} is possible if you ask for it: hand solver={inside[0].name} to the method, or {fewer}"
    soonest = min(inside, key=lambda way: way.seconds or 0.0)
    return (
        f"the shortest of those that fit in memory takes {duration(soonest.seconds)}, {soonest.name}; give more time, "
        f"fewer rows, or {fewer}"
    )


def in_words(count: float) -> str:
    """A number of bytes for people.

    >>> in_words(3 * 2**30), in_words(5 * 2**20), in_words(1000)
    ('3.0 GiB', '5 MiB', '1,000 bytes')
    """
    if count >= GIB:
        return f"{count / GIB:,.1f} GiB"
    return f"{count / 2**20:,.0f} MiB" if count >= 2**20 else f"{count:,.0f} bytes"


def duration(seconds: float | None) -> str:
    """A number of seconds for people.

    >>> duration(7200.0), duration(5.04), duration(1e-6)
    ('2.0 h', '5 s', '1e-06 s')
    """
    if seconds is None:
        return "?"
    if seconds >= 5400:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.2g} s"
