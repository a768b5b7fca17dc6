"""Fitness checks: is the model, and is this audit of it, fit to be read?"""

from typing import Any

from rue.report.blocks import Section, listed, section, table, text
from rue.report.case import Case
from rue.report.phrases import listing, rows

RANK = {"green": 0, "none": 1, "amber": 2, "red": 3}
COLUMNS = {
    "check": ("Check", "text"),
    "light": ("Light", "light"),
    "found": ("Found", "text"),
    "threshold": ("Limits, and why", "text"),
    "advice": ("What to do", "text"),
}


def checks(case: Case) -> list[Any]:
    """The checks that were made, the worst first."""
    made = [] if case.checkup is None else list(case.checkup.checks)
    return sorted(made, key=lambda check: -RANK[check.light])


def left_out(case: Case) -> dict[str, str]:
    """The checks that were not made, and why."""
    return {} if case.checkup is None else {str(name): str(why) for name, why in case.checkup.left_out.items()}


def fitness(case: Case) -> Section:
    """A table of checks, and those that were left out."""
    made, missing = checks(case), left_out(case)
    blocks = []
    if made:
        blocks.append(table("checks", f"{rows(len(made), 'check')} made, the worst first", COLUMNS, _rows(made)))
    else:
        blocks.append(
            text("checks", "No checks were made, so that nothing here says whether the audit fits the model.")
        )
    if missing:
        blocks.append(listed("checks-left-out", [f"Left out, {name}: {why}" for name, why in missing.items()]))
    return section("fitness", "Fitness checks", _lead(made, missing), blocks)


def _lead(made: list[Any], missing: dict[str, str]) -> str:
    if not made:
        return f"Whether this audit fits the model was not checked{': see below' if missing else ''}."
    found = {light: [check.name for check in made if check.light == light] for light in ("red", "amber", "green")}
    said = [f"{len(names)} {light}" for light, names in found.items() if names]
    worst = found["red"] or found["amber"]
    named = f" Look first at: {listing([str(name) for name in worst])}." if worst else ""
    skipped = f" {rows(len(missing), 'check')} could not be made." if missing else ""
    return f"Of {rows(len(made), 'check')}: {listing(said)}.{named}{skipped}"


def _rows(made: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "check": str(check.name),
            "light": check.light,
            "found": _found(check),
            "value": _number(check.value),
            "threshold": _words(check.threshold),
            "advice": _words(check.advice),
            "rows": _named(check.rows),
        }
        for check in made
    ]


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _found(check: Any) -> str:
    return f"{check.found}; rows {_named(check.rows)}" if check.rows else str(check.found)


def _named(ids: Any) -> str | None:
    return listing([str(one) for one in ids], 10) if ids is not None and len(ids) else None


def _words(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)
