"""The check of a level, a confidence or a rate."""

from numbers import Real

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
