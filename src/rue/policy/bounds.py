"""Tests and confidence limits for the mean of losses between 0 and 1, valid for every number of rows."""

from math import ceil, e, exp, log, sqrt

LEVELS = tuple(10 ** (-3 * (1 - j / 100)) for j in range(1, 101))  # from 0.1 % to 1, each 7 % above the last


def p_value(total: float, n: int, rate: float, binary: bool) -> float:
    """P-value of "the expected loss is above rate" after a summed loss of total over n independent rows.

    The binomial tail for binary losses, else Hoeffding and Bentkus (Bates et al. 2021).

    >>> round(p_value(total=0, n=2, rate=0.5, binary=True), 6)  # ½²
    0.25
    """
    from scipy.special import bdtr, rel_entr

    if n == 0:
        return 1.0
    if binary:
        return float(bdtr(total, n, rate))
    mean = min(total / n, rate)
    hoeffding = exp(-n * float(rel_entr(mean, rate) + rel_entr(1 - mean, 1 - rate)))
    bentkus = e * float(bdtr(min(ceil(total), n), n, rate))
    return min(hoeffding, bentkus, 1.0)


def upper_limit(total: float, n: int, tail: float, binary: bool) -> float:
    """Smallest rate that the test rejects at level tail: the expected loss lies below with confidence 1 − tail.

    >>> round(upper_limit(total=0, n=2, tail=0.25, binary=True), 6)  # (1 − ½)² = ¼
    0.5
    """
    from scipy.optimize import brentq

    if n == 0 or total >= n:
        return 1.0
    return float(brentq(lambda rate: p_value(total, n, rate, binary) - tail, total / n, 1.0))


def lower_limit(total: float, n: int, tail: float, binary: bool) -> float:
    """Largest rate that the opposite test rejects at level tail: the expected loss lies above with confidence 1 − tail.

    >>> round(lower_limit(total=2, n=2, tail=0.25, binary=True), 6)
    0.5
    """
    return 1 - upper_limit(n - total, n, tail, binary)


def limit_everywhere(total: float, n: int, tail: float, binary: bool) -> float:
    """Upper limit of E[loss · accepted] that holds for all thresholds at once, so also for one chosen on these rows.

    Let t be the smallest threshold whose expectation is at least a level g. The test rejects g at t with a probability
    of at most its share of the tail. Where it does not, it rejects g at no threshold above either, for their sums are
    larger. So a threshold at which g is rejected has an expectation below g, for all levels g at once.

    >>> limit_everywhere(total=0, n=1000, tail=0.1, binary=True) < 0.01  # 0.993 ** 1000 < 0.1 / 100
    True
    """
    return next((g for g in LEVELS if p_value(total, n, g, binary) <= tail / len(LEVELS)), 1.0)


def share_margin(n: int, tail: float) -> float:
    """By how much the true share above any threshold may exceed that of n rows (Dvoretzky–Kiefer–Wolfowitz–Massart)."""
    return sqrt(log(1 / tail) / (2 * n))
