"""Are outputs linear in the parameters over the distance of a typical resampling step?"""

import torch

from rue.checks.check import Check, Light, Senseless
from rue.checks.subject import Subject, only_differences
from rue.core.derivatives import member_outputs, outputs, pushed
from rue.core.nested import leaves

NAME = "linearisation"
REWEIGHTINGS = 8
# On 45 models at rest (n = 100 to 1,000) predicted and refitted changes correlated .81 to 1.0 up to this value, and
# .29 to .79 beyond (8 refits each, from the trained weights).
BENT = 0.3
BROKEN = 3.0  # beyond it the spread of members is due to nonlinearity rather than to the data
LIMITS = (
    f"green up to {BENT}: there predicted changes correlated .81 to 1.0 with those of refits, on 45 models with 100 to "
    f"1,000 rows, and beyond it .29 to .79; green too where left-out rows of another source weigh what is said; red "
    f"above {BROKEN} for a method that pushes members through the network"
)


def linearisation(subject: Subject) -> Check | str:
    """Compare outputs at the parameters θ* of a few re-weightings with those of the linearised model."""
    model, inputs = subject.model, subject.looked_at
    if not model.family.stationary:
        return Senseless("the outputs are linear in the parameters")
    if subject.linearised is not None:
        return subject.linearised
    steps = -subject.steps[:REWEIGHTINGS]
    dtype = model.theta.dtype
    now = outputs(model, inputs).double()
    straight = pushed(model, inputs, steps.to(dtype)).double().permute(2, 0, 1)  # (b, c, k)
    actual = member_outputs(model, (model.theta.double() + steps).to(dtype), inputs).double() - now
    straight, actual = (only_differences(change, model) for change in (straight, actual))
    size, miss = (float(change.square().mean().sqrt()) for change in (straight, actual - straight))
    rows = len(leaves(inputs)[0])
    over = f"over {len(steps)} re-weightings and {rows} {subject.rows_called} outputs at the moved parameters"
    if miss <= subject.rounding * float(now.square().mean().sqrt()):
        return Check(NAME, "green", 0.0, f"{over} are on the straight line, up to rounding", LIMITS, "")
    gap = miss / size if size > 0 else float("inf")
    gap = gap if torch.isfinite(torch.tensor(gap)) else float("inf")
    light: Light = "green" if gap <= BENT else "red" if gap > BROKEN and subject.members is not None else "amber"
    found = f"{over} miss the straight line by {gap:.2g} of the change (root mean squares)"
    if light == "amber" and not subject.by_influence:  # then only `std` depends on it
        light = "green"
        found += f"; score and intervals are weighed by {subject.source}, and std alone is a rough guess"
    return Check(
        NAME,
        light,
        gap,
        found,
        LIMITS,
        "" if light == "green" else _advice(subject),
    )


def _advice(subject: Subject) -> str:
    compare = "compare with a few refits, auditor.check(refit=...), before you believe how far predictions would move"
    if subject.members is None:
        return compare
    return (
        f"use a linearised method (LinearRUE, CalibratedRUE) rather than members pushed through the network; {compare}"
    )
