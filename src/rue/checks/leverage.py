"""How many parameters the data determine in effect, and which rows decide their own prediction."""

import numpy as np

from rue.calibrate.crowding import FAR_OFF, WARNED_OF, crowding
from rue.checks.check import ROWS, Check, Light, Senseless
from rue.checks.subject import Subject
from rue.explain.people import row_ids

RISKY, AVOIDED, ALONE = 0.2, 0.5, 0.95  # the first two: Huber (1981), Robust Statistics, section 7.2


_ELSEWHERE = Senseless("left-out predictions are those of other models, whatever the leverage of a row on this one")


def effective_parameters(subject: Subject) -> Check | str:
    """The sum of the leverages as a share of the number of outputs of all rows."""
    leverages = subject.leverages if subject.by_influence else _ELSEWHERE
    if isinstance(leverages, str):
        return leverages
    total, free = leverages.total, leverages.free
    n = int((subject.data.weight > 0).sum())  # rows of weight zero do not count
    share = crowding(total, n, free)
    light: Light = "green" if share <= WARNED_OF else "amber" if share <= FAR_OFF else "red"
    rows = f"n = {n} rows" if free == 1 else f"n = {n} rows of {free} free outputs"
    return Check(
        "effective parameters",
        light,
        share,
        f"{total:.1f} effective parameters for {rows} are a share of {share:.2f}",
        f"amber above {WARNED_OF}: left-out errors by influence were 1.5 times test errors for networks there, 90 % "
        f"intervals covered from .72 to all; red above {FAR_OFF}, where they were 4 times as large; exact for models "
        "that are linear in their parameters",
        ""
        if light == "green"
        else "check errors and intervals on held-out rows (auditor.calibrate), or train with a "
        "larger penalty or on more rows",
    )


def largest_leverage(subject: Subject) -> Check | str:
    """The largest leverage, and the rows with large ones."""
    leverages = subject.leverages if subject.by_influence else _ELSEWHERE
    if isinstance(leverages, str):
        return leverages
    values = leverages.largest
    largest = float(values.max())
    light: Light = "green" if largest <= AVOIDED else "amber" if largest <= ALONE else "red"
    order = np.argsort(-values, kind="stable")[:ROWS]
    names = row_ids(subject.data)
    above = int((values > RISKY).sum())
    return Check(
        "leverage",
        light,
        largest,
        f"the largest leverage of n = {len(values)} rows is {largest:.2f}, and {above} are above {RISKY}",
        f"Huber (1981): up to {RISKY} is fine, above {AVOIDED} to be avoided (amber); red above {ALONE}, where a row "
        "decides its own fit and nothing can be said without it",
        ""
        if light == "green"
        else "look at these rows: errors in their features, or regions with no other row; "
        "predictions near them rest on them alone",
        tuple(names[order[values[order] > RISKY]].tolist()),
    )
