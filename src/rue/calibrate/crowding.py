"""Crowding: the number of effective parameters per free output of the training rows, and the limits for it.

Influence takes one Newton step where training without a row takes many, so it is less exact for crowded models. For
networks, left-out errors by influence were 1.4 times the test errors at a share of .2 to .3, 1.5 times at .3 to .45,
2.2 times at .45 to .6 and 4.1 times above; on UCI sets, 90 % intervals covered .72 to .84 above .3. For models that
are linear in their parameters and trained with squared error, influence is exact at any share.
"""

from rue.core.concepts import Family

RELIED_ON = 0.2  # up to this share, the automatic rule uses influence (docs/practice.md)
WARNED_OF = 0.3  # above this share, a user who asked for influence is warned
FAR_OFF = 0.7  # above this share, results by influence cannot be trusted
# The gradients of a network depend on the labels that are left out of its tangent, so the left-out predictions of the
# tangent leak them. The weight of the tangent is at most 1 − LEAK · crowding: nothing from a crowding of 1/3 on.
LEAK = 3.0


def free_outputs(family: Family, k: int) -> int:
    """How many of k outputs can move freely; for softmax one less, because only differences of logits matter."""
    return max(1, k - (family.decision == "largest"))


def crowding(effective: float, rows: int, free: int) -> float:
    """Effective parameters divided by the number of free outputs of all rows.

    >>> crowding(effective=30, rows=50, free=2)
    0.3
    """
    return effective / (rows * free)
