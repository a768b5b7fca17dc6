"""The verdict in one sentence, and the few numbers at the top."""

from typing import Any

from rue.reports.blocks import Block
from rue.reports.case import Case
from rue.reports.estimates import Measurement
from rue.reports.phrases import listing, number, percent, rows
from rue.reports.sections.fitness import RANK, checks, most_missing
from rue.reports.sections.performance import coverage, metrics
from rue.reports.sections.shift import beyond


def verdict(case: Case) -> Block:
    """The worst light of the checks, and how many predictions are for review or refused."""
    made, counts = checks(case), case.decision.counts
    verb = "is" if counts["review"] == 1 else "are"
    handled = f"{counts['review']} of {rows(case.m, 'prediction')} {verb} for review and {counts['refuse']} refused"
    if not made:
        return {"light": "amber", "text": f"No fitness checks were made; {handled}."}
    worst = max((check.light for check in made), key=RANK.__getitem__)
    if most_missing(case) and worst != "red":
        total = len(made) + len(case.checkup.missing)
        return {"light": "amber", "text": f"Most checks could not be made, {len(made)} of {total} were; {handled}."}
    bad = [str(check.name) for check in made if check.light == worst and worst in ("red", "amber")]
    if not bad:
        return {"light": worst, "text": f"{_passed(made)}; {handled}."}
    said = f"{len(bad)} of {rows(len(made), 'check')} {'is' if len(bad) == 1 else 'are'} {worst} ({listing(bad, 3)})"
    return {"light": worst, "text": f"{said}; {handled}."}


def _passed(made: list[Any]) -> str:
    return (
        "The one check found nothing to object to"
        if len(made) == 1
        else f"All {len(made)} checks found nothing to object to"
    )


def highlights(case: Case) -> list[Block]:
    """Four to six numbers, each with its n."""
    measured, covered, far = case.once(metrics), case.once(coverage), case.once(beyond)
    counts, whose = case.decision.counts, "networks that the method" if case.own_networks else "a model"
    shown = [
        _highlight("Predictions", str(case.m), f"of {whose} trained on {rows(case.n)}"),
        _highlight("For review", str(counts["review"]), _part(counts["review"], case.m)),
        _highlight("Refused", str(counts["refuse"]), _part(counts["refuse"], case.m)),
    ]
    if measured:
        name, (estimate, _) = next(iter(measured.items()))
        shown.append(_highlight(f"{name[0].upper()}{name[1:]}", number(estimate.value), _limits(estimate)))
    else:
        shown.append(_highlight("Error", "not assessed", case.unknown_outcome))
    if covered is not None and covered.value is not None:
        what = "sets hold the true class" if case.sets is not None else "intervals hold the outcome"
        note = f"of the {what}, {percent(case.asked.level)} are meant to; 95 % interval {covered.percent_limits}"
        shown.append(_highlight("Coverage", percent(covered.value), note))
    first = next((one for one in far if one.expected is not None), None)
    if first is not None and first.measured.value is not None:
        note = f"of {rows(first.measured.n)}; {percent(first.expected or 0)} expected: {first.what}"
        shown.append(_highlight("Beyond the training range", percent(first.measured.value), note))
    return shown


def _highlight(label: str, value: str, note: str) -> Block:
    return {"label": label, "value": value, "note": note}


def _part(count: int, n: int) -> str:
    return f"of {rows(n, 'prediction')} ({percent(count / n)})"


def _limits(measured: Measurement) -> str:
    return f"n = {measured.n}" if measured.limits is None else f"95 % interval {measured.limits}, n = {measured.n}"
