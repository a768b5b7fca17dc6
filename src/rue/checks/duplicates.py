"""Are audited rows also training rows? Errors on them are training errors, which are too small."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rue.checks.check import ROWS, Check, Light
from rue.checks.prints import Prints, row_prints
from rue.checks.subject import Audited, Subject
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
    f"{1 / CHANCE:.0f}; amber between"
)


def duplicates(subject: Subject) -> Check | str:
    """Count the audited rows that equal a training row in all features to three digits, as the model reads them."""
    if subject.audited is None:
        return "no audited rows were given: auditor.check(inputs)"
    return rows_met_again(subject.audited, (batch.inputs for batch in subject.data.batches()), subject.model)


def rows_met_again(audited: Audited, earlier: Iterable[Inputs], model: Model, called: str = "training") -> Check | str:
    """Count the rows that equal one of earlier rows, which are `called` so in texts."""
    told = _told(earlier, audited.batches(model))
    if isinstance(told, str):
        return told
    before, now = told
    twice, same = int(_several(before).sum()), np.flatnonzero(np.isin(now, before))
    m, n, rate = len(now), len(before), twice / len(before)
    light = _light(len(same), m, rate, n)
    return Check(
        NAME,
        light,
        len(same) / m,
        f"{len(same)} of m = {m} audited rows ({len(same) / m:.1%}) have the features of a {called} row; of n = {n} "
        f"{called} rows {twice} ({rate:.1%}) equal another",
        LIMITS,
        ""
        if light == "green"
        else "take these rows out before errors are measured on them; split the data again, by "
        "patient or source where one has several rows",
        tuple(named(audited.source, same[:ROWS]).tolist()),
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
    told = _told(earlier, rows.batches(model))
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


def _told(earlier: Iterable[Inputs], now: Iterable[Inputs]) -> tuple[Prints, Prints] | str:
    """Fingerprints (n,) and (m,) of two sets of rows, or the reason why rows cannot be told apart."""
    sets = [[coordinates(inputs) for inputs in rows] for rows in (earlier, now)]
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
