"""Subgroups: error, coverage, score and share for review, group by group, each with n and interval."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.reports import regression
from rue.reports.blocks import Block, Section, axis, chart, line, section, series, table, text
from rue.reports.case import Case
from rue.reports.estimates import Measurement, mean, share
from rue.reports.phrases import listing, rows
from rue.reports.plain import identifiers

SMALL = 30  # a group of fewer rows is flagged
SHOWN = 50  # the largest groups of a grouping, at most so many, are shown


class Measure(NamedTuple):
    """A number for each row, and the kind of limits of its mean."""

    label: str
    values: Array  # (m,)
    exact: bool  # it is a share, with exact limits

    def of(self, part: NDArray[Any]) -> Measurement:
        """Its mean over some rows, with limits."""
        return share(self.values[part]) if self.exact else mean(self.values[part])


def small_groups(case: Case) -> list[str]:
    """The names of groups that are too small for firm statements."""
    small = []
    for grouping, labels in case.groups.items():
        named, counts = _sizes(labels)
        small += [f"{grouping} {label}" for label, n in zip(named, counts, strict=True) if n < SMALL]
    return small


def subgroups(case: Case) -> Section:
    """A table and a chart for each grouping."""
    title = "Subgroups"
    if not case.groups:
        why = text(
            "no-groups",
            "Errors that gather in one group are hidden by averages over all rows. Give the groups that matter for the "
            "use (sex, age, site, device and the like) to see them side by side.",
        )
        return section("subgroups", title, "Not assessed: no groups of the audited rows were given.", [why])
    measures = _measures(case)
    blocks, apart, compared = [], [], 0
    for number, (grouping, labels) in enumerate(case.groups.items()):
        drawn, different, count = _grouping(case, number, grouping, labels, measures)
        blocks += drawn
        apart += different
        compared += count
    return section("subgroups", title, _lead(case, apart, compared), [_notes(case), *blocks])


def _measures(case: Case) -> dict[str, Measure]:
    happened = case.outcome
    measures = {}
    if happened is not None and happened.kind == "classes":
        measures["error"] = Measure("Accuracy", 1 - happened.error[:, 0], True)
        if case.sets is not None:
            inside = case.sets.members[np.arange(case.m), happened.target]
            measures["coverage"] = Measure("Coverage", inside.astype(np.float64), True)
    elif happened is not None:
        measures["error"] = Measure(f"Mean {happened.called}", happened.size, False)
        inside = regression.covered_rows(case, happened)
        if inside is not None:
            measures["coverage"] = Measure("Coverage", inside.mean(axis=1), inside.shape[1] == 1)
    measures["score"] = Measure("Mean score", np.asarray(case.audit.score), False)
    referred = (case.decision.tier != "accept").astype(np.float64)
    return measures | {"referred": Measure("Not accepted", referred, True)}


def _grouping(
    case: Case, number: int, grouping: str, labels: NDArray[Any], measures: dict[str, Measure]
) -> tuple[list[Block], list[str], int]:
    """Blocks of one grouping, texts on the groups that differ, and the number of comparisons."""
    named, counts = _sizes(labels)
    text_labels = _names(labels)
    everyone = {key: measure.of(np.arange(case.m)) for key, measure in measures.items()}
    held, apart = [], []
    by_key: dict[str, list[Measurement]] = {key: [] for key in measures}
    for label, n in zip(named, counts, strict=True):
        part = np.flatnonzero(text_labels == label)
        row: Block = {"group": label, "n": int(n)} | ({"flag": "small n"} if n < SMALL else {})
        for key, measure in measures.items():
            measured = measure.of(part)
            by_key[key].append(measured)
            row |= {
                key: measured.value,
                f"{key}_low": measured.low,
                f"{key}_high": measured.high,
                f"{key}_95": measured.limits,
            }
            if measured.excludes(everyone[key].value):
                apart.append(f"{grouping} {label} ({measure.label.lower()} {measured}; over all {everyone[key]})")
        held.append(row)
    every = len(np.unique(text_labels))
    shown = rows(every, "group") if every == len(named) else f"{len(named)} of {every} groups shown, the largest,"
    caption = f"{grouping}: {shown} of n = {rows(case.m)}, with 95 % intervals"
    main = next(iter(measures))
    blocks = [
        table(f"group-{number}", caption, _columns(measures), held),
        _chart(case, number, grouping, named, measures[main].label, by_key[main], everyone[main]),
    ]
    return blocks, apart, len(named) * len(measures)


def _columns(measures: dict[str, Measure]) -> dict[str, tuple[str, str]]:
    columns = {"group": ("Group", "text"), "n": ("n", "number")}
    for key, measure in measures.items():
        columns |= {key: (measure.label, "number"), f"{key}_95": ("95 % interval", "text")}
    return columns


def _chart(
    case: Case,
    number: int,
    grouping: str,
    named: list[str],
    label: str,
    measured: list[Measurement],
    overall: Measurement,
) -> Block:
    drawn = series(
        label,
        "range",
        named,
        [part.value for part in measured],
        low=[part.low for part in measured],
        high=[part.high for part in measured],
    )
    note = f"n = {case.m}, in the order shown {', '.join(str(part.n) for part in measured)}; bars are 95 % intervals."
    lines = [] if overall.value is None else [line("y", overall.value, "all rows")]
    return chart(f"group-{number}-chart", f"{label} by {grouping}", (axis(grouping), axis(label)), [drawn], note, lines)


def _notes(case: Case) -> Block:
    more = [name for name, labels in case.groups.items() if len(np.unique(_names(labels))) > SHOWN]
    notes = (
        f"Shares have exact limits, means Student's t. Groups of fewer than {SMALL} rows are flagged: their intervals "
        "are wide and, for means, rough. With 95 % intervals about one comparison in twenty stands apart by chance."
    )
    return text("group-notes", notes + (f" Of {listing(more)} the {SHOWN} largest groups are shown." if more else ""))


def _lead(case: Case, apart: list[str], compared: int) -> str:
    groups = rows(len(case.groups), "grouping")
    if not apart:
        return (
            f"In {groups} of n = {rows(case.m)} no group's interval excludes the value over all rows "
            f"({rows(compared, 'comparison')}). A small group can differ much and not show it."
        )
    stand = "stands" if len(apart) == 1 else "stand"
    counted = f"Of {rows(compared, 'comparison')} in {groups} of n = {rows(case.m)}"
    return f"{counted} {len(apart)} {stand} apart from all rows: {listing(apart, 6)}."


def _names(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as texts; missing labels are a group."""
    import pandas as pd

    words = np.asarray([str(label) for label in identifiers(labels)], dtype=object)
    return np.where(pd.isna(labels), "not known", words).astype(str)


def _sizes(labels: NDArray[Any]) -> tuple[list[str], list[int]]:
    """The names and sizes of the groups, sorted by name; of many groups the largest."""
    named, counts = np.unique(_names(labels), return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:SHOWN])
    return [str(name) for name in named[kept]], [int(n) for n in counts[kept]]
