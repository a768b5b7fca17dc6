"""Numbers and lists as texts for people."""

from collections.abc import Sequence
from math import isfinite

import numpy as np


def number(value: float | None) -> str:
    """A number with three significant digits, without an exponent for everyday sizes.

    >>> number(1234.5), number(-0.012345), number(None)
    ('1230', '−0.0123', 'not known')
    """
    if value is None or not isfinite(value):
        return "not known"
    rounded = float(f"{value:.3g}")
    if rounded and not 1e-5 <= abs(rounded) < 1e9:
        return f"{rounded:.3g}".replace("-", "−")
    return np.format_float_positional(rounded, trim="-").replace("-", "−")


def percent(share: float) -> str:
    """A share of one as a percentage.

    >>> percent(0.205), percent(0.0012)
    ('20 %', '0.12 %')
    """
    return f"{100 * share:.0f} %" if share == 0 or 0.01 <= share < 0.995 or share == 1 else f"{100 * share:.3g} %"


def of(count: int, n: int) -> str:
    """A count, the number it is out of, and the percentage.

    >>> of(18, 89)
    '18 of 89 (20 %)'
    """
    return f"{count} of {n} ({percent(count / n)})" if n else f"{count} of {n}"


def listing(names: Sequence[str], most: int = 8) -> str:
    """Names as a list with commas and "and".

    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    names = [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def rows(n: int, noun: str = "row") -> str:
    """A number with its noun, which has an s for several.

    >>> rows(1), rows(2, "check")
    ('1 row', '2 checks')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
