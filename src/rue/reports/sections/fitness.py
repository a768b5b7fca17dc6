"""Fitness checks: does the audit suit the model?"""

from collections.abc import Mapping
from typing import Any

from rue.checks import Check
from rue.reports.blocks import Section, listed, section, table, text
from rue.reports.case import Case
from rue.reports.phrases import listing, rows

RANK = {"green": 0, "none": 1, "amber": 2, "red": 3}
COLUMNS = {
    "check": ("Check", "text"),
    "light": ("Light", "light"),
    "found": ("Found", "text"),
    "threshold": ("Limits, and why", "text"),
    "advice": ("What to do", "text"),
}


def checks(case: Case) -> list[Check]:
    """The checks that were made, the worst first."""
    return sorted(case.checkup.checks, key=lambda check: -RANK[check.light])


def most_missing(case: Case) -> bool:
    """Whether fewer than half of the checks that apply were made."""
    return len(checks(case)) < len(case.checkup.missing)


def fitness(case: Case) -> Section:
    """A table of the checks, and lists of those that were left out or do not apply."""
    made, missing = checks(case), case.checkup.missing
    senseless = {name: why for name, why in case.checkup.skipped.items() if name not in missing}
    blocks = []
    if made:
        blocks.append(table("checks", f"{rows(len(made), 'check')} made, the worst first", COLUMNS, _rows(made)))
    else:
        blocks.append(
            text("checks", "No checks were made, so that nothing here says whether the audit fits the model.")
        )
    if missing:
        blocks.append(listed("checks-left-out", [f"Left out, {name}: {why}." for name, why in missing.items()]))
    if senseless:
        sentences = [f"Not applicable, {name}: {why}." for name, why in senseless.items()]
        blocks.append(listed("checks-not-applicable", sentences))
    return section("fitness", "Fitness checks", _lead(made, missing), blocks)


def _lead(made: list[Check], missing: Mapping[str, str]) -> str:
    if not made:
        return f"Whether this audit fits the model was not checked{': see below' if missing else ''}."
    by_light = {light: [check.name for check in made if check.light == light] for light in ("red", "amber", "green")}
    by_number = [f"{len(names)} {light}" for light, names in by_light.items() if names]
    worst = by_light["red"] or by_light["amber"]
    named = f" Look first at: {listing(worst)}." if worst else ""
    skipped = f" {rows(len(missing), 'check')} could not be made." if missing else ""
    return f"Of {rows(len(made), 'check')}: {listing(by_number)}.{named}{skipped}"


def _rows(made: list[Check]) -> list[dict[str, Any]]:
    return [
        {
            "check": check.name,
            "light": check.light,
            "found": _measured(check),
            "value": check.value,
            "threshold": check.threshold,
            "advice": check.advice or None,
        }
        for check in made
    ]


def _measured(check: Check) -> str:
    if not check.rows:
        return check.found
    return f"{check.found}: {listing([str(row) for row in check.rows], 10)}"
