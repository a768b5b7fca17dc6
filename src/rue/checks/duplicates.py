"""Are audited rows also training rows? Errors on them are training errors, which are too small."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rue.checks.check import ROWS, Check, Light
from rue.checks.near_copies import Met
from rue.checks.prints import Prints, row_prints
from rue.checks.rounded import rounded_copies
from rue.checks.subject import Audited, Subject
from rue.core.arrays import Array
from rue.core.concepts import Inputs
from rue.core.model import Model
from rue.data.features import coordinates
from rue.explain.people import named

NAME = "duplicates"
SHARE = 0.01  # from this share of duplicates on, errors on the audited rows are no longer those of new rows
USUAL = 0.01  # green where chance, at the rate of duplicates among training rows, gives so many with this probability
CHANCE = 1e-3  # red where chance at that rate gives so many with less than this probability
LIMITS = (
    "green where no audited row has the features of a training row, or no more have than training rows equal one "
    f"another; red from {SHARE:.0%} of the audited rows, where chance at that rate gives so many less than once in "
    f"{1 / CHANCE:.0f}, and where a fifth lie as near to a training row as rounded copies; amber between"
)


def duplicates(subject: Subject) -> Check | str:
    """Count the audited rows that equal a training row in all features to three digits, as the model reads them."""
    if subject.audited is None:
        return "no audited rows were given: auditor.check(inputs)"
    return rows_met_again(subject.audited, (batch.inputs for batch in subject.data.batches()), subject.model)


def rows_met_again(
    audited: Audited,
    earlier: Iterable[Inputs],
    model: Model,
    called: str = "training",
    targets: tuple[Array, Array] | None = None,
) -> Check | str:
    """Count the rows that equal one of earlier rows, which are `called` so in texts, or are rounded copies of them.

    Copies of both agree in the `targets`, of earlier rows (n, q) and of these (m, q), where they are known.
    """
    sets = [[coordinates(inputs) for inputs in rows] for rows in (earlier, audited.batches(model))]
    told = _told(*sets)
    if isinstance(told, str):
        return told
    before, now = told
    twice, same = int(_several(before).sum()), np.flatnonzero(np.isin(now, before))
    m, n, rate = len(now), len(before), twice / len(before)
    light = _light(len(same), m, rate, n)
    if light != "red":
        met = rounded_copies((np.concatenate(sets[0]), np.concatenate(sets[1])), targets, model.family)
        if met is not None:
            return _rounded(met, called)
    return Check(
        NAME,
        light,
        len(same) / m,
        f"{len(same)} of m = {m} audited rows ({len(same) / m:.1%}) have the features of a {called} row; of n = {n} "
        f"{called} rows {twice} ({rate:.1%}) equal another",
        LIMITS,
        "" if light == "green" else _ADVICE,
        tuple(named(audited.source, same[:ROWS]).tolist()),
    )


def _rounded(met: Met, called: str) -> Check:
    share = met.copies / met.sampled
    found = (
        f"{met.copies} of {met.sampled} audited rows that were drawn ({share:.1%}) lie ten times nearer to a {called} "
        f"row than to the next, as rounded copies do; of {called} rows {met.usual:.1%} do"
    )
    return Check(NAME, "red", share, found, LIMITS, _ADVICE)


_ADVICE = (
    "take these rows out before errors are measured on them; split the data again, by patient or source where one has "
    "several rows"
)


def _light(same: int, m: int, rate: float, n: int) -> Light:
    from scipy.stats import binom

    if same == 0:
        return "green"
    if rate > 0 and float(binom.sf(same - 1, m, rate)) > USUAL:
        return "green"
    surprising = float(binom.sf(same - 1, m, max(rate, 1 / n))) < CHANCE  # a rate of none in n may be 1/n
    return "red" if surprising and same >= SHARE * m else "amber"


def share_repeated(rows: Audited, earlier: Iterable[Inputs], model: Model) -> float:
    """The share of rows that equal another one of them, if that is more than chance among the earlier rows explains."""
    told = _told(*([coordinates(inputs) for inputs in part] for part in (earlier, rows.batches(model))))
    if isinstance(told, str):
        return 0.0
    before, now = told
    several = _several(now)
    return float(several.mean()) if _light(int(several.sum()), len(now), _rate(before), len(before)) == "red" else 0.0


def _rate(prints: Prints) -> float:
    return float(_several(prints).mean())


def _several(prints: Prints) -> NDArray[np.bool_]:
    """Which rows equal another one: (m,)."""
    _, where, times = np.unique(prints, return_inverse=True, return_counts=True)
    return np.asarray(times[where] > 1)


def _told(earlier: list[Array], now: list[Array]) -> tuple[Prints, Prints] | str:
    """Fingerprints (n,) and (m,) of two sets of rows, or the reason why rows cannot be told apart."""
    sets = (earlier, now)
    widths = {part.shape[1] for rows in sets for part in rows}
    if len(widths) > 1:
        return (
            f"batches have {min(widths)} to {max(widths)} features per row, as texts padded batch by batch do: equal "
            "rows cannot be told; pad all to the longest"
        )
    first = sets[0][0]
    before, after = (
        np.concatenate([part.sum(axis=1, dtype=np.uint64) for part in row_prints(rows, first)]) for rows in sets
    )
    return before, after
