"""Crowding: effective parameters for each free output of a training row, and from which share on they are too many.

Influence takes one step where training without a row takes many. Over test errors, left-out errors of networks by
influence were 1.4 at a share of .2 to .3, 1.5 at .3 to .45, 2.2 at .45 to .6 and 4.1 above; on UCI sets 90 % intervals
covered .72 to .84 above .3. Models that are linear in their parameters are exact at any share.
"""

from rue.core.concepts import Family

RELIED_ON = 0.2  # up to this share, a rule that may choose takes influence (docs/practice.md)
WARNED_OF = 0.3  # above it, influence that was asked for is warned of
FAR_OFF = 0.7  # above it, nothing that rests on influence is to be believed
# A network's gradients were shaped by the very labels that are left out of its tangent: the more of the rows' freedom
# it takes, the less its tangent's left-out predictions are to be believed; from a third of it on, not at all
LEAK = 3.0


def free_outputs(family: Family, k: int) -> int:
    """How many of a row's k outputs are free: of logits that count by their differences only, one less."""
    return max(1, k - (family.decision == "largest"))


def crowding(effective: float, rows: int, free: int) -> float:
    """The share of the rows' free outputs that effective parameters take.

    >>> crowding(effective=30, rows=50, free=2)
    0.3
    """
    return effective / (rows * free)
