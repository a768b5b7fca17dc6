"""Numbers for people: few digits, grouped thousands, a real minus sign, a dash for unknown values."""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from math import floor, log10
from typing import Any

SPACE, MINUS, UNKNOWN = "\u202f", "\u2212", "\u2013"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DIGITS = 4


def readable(value: Any, decimals: int | None = None) -> str:
    """A number with `decimals` decimals, or with four significant digits if None; texts stay as they are.

    >>> readable(0.123456), readable(-12345.6), readable(89), readable(None), readable(2.0, 1), readable(1.234e-7)
    ('0.1235', '−12\u202f346', '89', '–', '2.0', '1.23 × 10⁻⁷')
    """
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if decimals is not None:
        return _grouped(_rounded(value, decimals))
    if isinstance(value, int) or value == 0 or float(value).is_integer():
        return _grouped(f"{value:.0f}")
    if not 1e-4 <= abs(value) < 1e9:
        return _scientific(value)
    return _grouped(_rounded(value, max(0, DIGITS - 1 - floor(log10(abs(value))))), trim=True)


def decimals(values: Iterable[Any]) -> int | None:
    """The number of decimals for a whole column, or None where its numbers differ too much in size.

    >>> decimals([151.25, 98.7, None]), decimals([1, 2]), decimals([0.5, 0.25]), decimals([1e-7, 3.5])
    (1, 0, 2, None)
    """
    sizes = [abs(v) for v in values if isinstance(v, int | float) and v]
    if not sizes:
        return 0
    if max(sizes) >= 1e9 or max(sizes) > 1e5 * min(sizes) or max(sizes) < 1e-4:
        return None
    wanted = max(0, DIGITS - 1 - floor(log10(max(sizes))))
    return next((few for few in range(wanted) if all(round(v, few) == v for v in sizes)), wanted)


def _scientific(value: float) -> str:
    digits, power = f"{value:.2e}".split("e")
    return f"{digits} × 10{str(int(power)).translate(RAISED)}".replace("-", MINUS)


def _rounded(value: float, decimals: int) -> str:
    """Round halves away from zero, as the browser's script does, so that printed and shown tables agree."""
    return format(Decimal(value).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP), "f")


def _grouped(text: str, trim: bool = False) -> str:
    whole, _, part = text.lstrip("-").partition(".")
    part = part.rstrip("0") if trim else part
    if len(whole) > 4:
        whole = f"{int(whole):,}".replace(",", SPACE)
    zero = not (whole + part).strip("0")
    return ("" if zero or not text.startswith("-") else MINUS) + whole + ("." + part if part else "")
