"""Checks the arguments of `auditor.check`."""

import operator
from typing import Any

import torch

from rue.core.errors import SettingError

SEEDS = range(-(2**63), 2**64)  # the seeds that a torch.Generator takes


def asked(refit: Any, refits: Any, seed: Any) -> tuple[int, int]:
    """The number of refits and the seed, as plain integers.

    >>> asked(None, 8, 0)
    (8, 0)
    """
    if refit is not None and (not callable(refit) or isinstance(refit, torch.nn.Module)):
        raise SettingError(
            f"refit must be a function from row numbers to a trained model, got {type(refit).__name__}; give one that "
            "trains on X[rows], y[rows]"
        )
    count, start = _whole(refits), _whole(seed)
    if count is None or count < 2:
        raise SettingError(f"refits must be a whole number of at least 2, got {refits!r}")
    if start is None or start not in SEEDS:
        raise SettingError(
            f"seed must be a whole number from −2⁶³ to 2⁶⁴ − 1, so that the check can be repeated, got {seed!r}"
        )
    return count, start


def _whole(value: Any) -> int | None:
    """An integer, also one of NumPy's; None for anything else, also for True and False."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None
