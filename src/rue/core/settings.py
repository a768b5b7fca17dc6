"""Checks of settings that are numbers: levels, and counts."""

from numbers import Real
from typing import Any

import numpy as np

from rue.core.errors import RueError, SettingError


def check_level(name: str, level: float, wrong: type[RueError] = SettingError) -> None:
    """Raise `wrong` if a level, a confidence or a rate is not strictly between 0 and 1.

    >>> check_level("level", 0.9)
    >>> check_level("level", 95)
    Traceback (most recent call last):
        ...
    rue.core.errors.SettingError: level is 95, expected strictly between 0 and 1; write 95 % as 0.95
    """
    if isinstance(level, bool) or not isinstance(level, Real | np.floating):
        raise wrong(f"{name} is {level!r}, expected one number strictly between 0 and 1; write 90 % as 0.9")
    if not 0 < level < 1:
        percent = level if 1 < level < 100 else 90
        raise wrong(f"{name} is {level:g}, expected strictly between 0 and 1; write {percent:g} % as {percent / 100:g}")


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, also one of NumPy's; True and False are none.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return hasattr(value, "__index__") and not isinstance(value, bool | np.bool_)


def check_count(name: str, count: Any, of: str, wrong: type[RueError] = SettingError) -> None:
    """Raise `wrong` if a number `of` something is not a whole number of at least one.

    >>> check_count("top", -3, "training rows")
    Traceback (most recent call last):
        ...
    rue.core.errors.SettingError: top is -3, expected at least one of the training rows
    """
    if not is_whole(count):
        raise wrong(f"{name} must be a whole number, such as 10 {of}, got {count!r}")
    if count < 1:
        raise wrong(f"{name} is {count}, expected at least one of the {of}")
