"""Axes of charts: pixels of values, and ticks in steps of 1, 2 or 5 with labels that do not touch."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from rue.reports.page.numbers import readable

LETTER = 7.2  # pixels: the mean width of a letter at a font size of 12, enough for wide fonts


@dataclass(frozen=True)
class Axis:
    """Values `low` to `high` drawn between the pixels `start` and `end`, with labelled ticks."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]

    def at(self, value: float) -> float:
        """The pixel of a value; values outside are drawn at the edge."""
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)


def numeric(values: Sequence[float], low: float | None, high: float | None, most: int) -> Axis:
    """An axis over all values, ending on ticks where no end is given; its pixels are set by `placed`.

    >>> numeric([0.3, 9.2], None, None, 5).labels
    ('0', '2', '4', '6', '8', '10')
    """
    least, largest = min(values, default=0.0), max(values, default=1.0)
    bottom, top = (least if low is None else low), (largest if high is None else high)
    if not bottom < top:
        bottom, top = (bottom, bottom + 1.0) if high is None else (top - 1.0, top)
    step = nice_step(top - bottom, most)
    first = floor(bottom / step + 1e-9) if low is None else ceil(bottom / step - 1e-9)
    last = ceil(top / step - 1e-9) if high is None else floor(top / step + 1e-9)
    places = max(0, -floor(log10(step) + 1e-9))
    ticks = tuple(round(step * count, places + 1) for count in range(first, last + 1))
    labels = tuple(readable(tick, places if 1e-5 < step < 1e9 else None) for tick in ticks)
    return Axis(ticks[0] if low is None else low, ticks[-1] if high is None else high, 0.0, 1.0, ticks, labels)


def nice_step(span: float, most: int) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that makes at most `most` steps in the span.

    >>> nice_step(9.0, 5), nice_step(0.9, 5), nice_step(430, 5)
    (2.0, 0.2, 100.0)
    """
    power = 10.0 ** floor(log10(span / most))
    return float(next(round(m * power, 12) for m in (1, 2, 5, 10, 20) if m * power * most >= span * (1 - 1e-9)))


def width(text: str) -> float:
    """The approximate width of a text in pixels."""
    return LETTER * len(text)


def wrapped(text: str, room: float) -> list[str]:
    """The text in lines of at most `room` pixels, broken between words; a longer word is cut with an ellipsis.

    >>> wrapped("younger than fifty", 80)
    ['younger', 'than fifty']
    """
    letters = max(3, int(room / LETTER))
    lines = [""]
    for word in text.split():
        short = word if len(word) <= letters else word[: letters - 1] + "…"
        if lines[-1] and len(lines[-1]) + 1 + len(short) > letters:
            lines.append(short)
        else:
            lines[-1] = f"{lines[-1]} {short}".strip()
    return lines
