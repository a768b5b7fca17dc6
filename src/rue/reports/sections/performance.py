"""Performance of the predictions and calibration of their spread, each number with its interval."""

from rue.reports import classified, regression
from rue.reports.blocks import Section, listed, section
from rue.reports.case import Case
from rue.reports.estimates import Measurement
from rue.reports.measures import Metrics, metric_table
from rue.reports.phrases import percent

COLLECT = (
    "Error, calibration, coverage and whether the score finds errors could not be assessed.",
    "Collect the true outcomes of some of these rows, drawn at random and not by their score, at least 100 of them.",
    "Then make this report again with targets; the same hash of the weights shows that the model is the same.",
)

GIVEN = (
    "Error, calibration, coverage and whether the score finds errors cannot be assessed row by row, with outcomes too.",
    "Judge the model by a measure over all rows together, such as a concordance: this report has none.",
)


def performance(case: Case) -> Section:
    """Metrics and calibration; without outcomes, a list of what to collect."""
    title, measured = "Performance and calibration", case.once(metrics)
    happened = case.outcome
    if happened is None:
        lead = f"Not assessed: {case.unknown_outcome}."
        return section("performance", title, lead, [listed("not-assessed", COLLECT if case.targets is None else GIVEN)])
    part = classified if happened.kind == "classes" else regression
    return section(
        "performance", title, _lead(case, measured), [metric_table(measured, case.m), *part.blocks(case, happened)]
    )


def metrics(case: Case) -> Metrics:
    """All metrics that this outcome allows, the main one first; none without an outcome."""
    happened = case.outcome
    if happened is None:
        return {}
    return (classified if happened.kind == "classes" else regression).metrics(case, happened)


def coverage(case: Case) -> Measurement | None:
    """The share of outcomes inside their interval or set of classes."""
    happened = case.outcome
    if happened is None:
        return None
    return (classified if happened.kind == "classes" else regression).coverage(case, happened)


def _lead(case: Case, measured: Metrics) -> str:
    name, (estimate, _) = next(iter(measured.items()))
    text = f"{name[0].upper()}{name[1:]} {estimate}."
    covered, what = case.once(coverage), "Sets" if case.sets is not None else "Intervals"
    if covered is None:
        return f"{text} There are no intervals or sets to check."
    return f"{text} {what} meant to hold {percent(case.asked.level)} of the outcomes hold {covered.percent}."
