"""The changes since an earlier report, from its JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rue.core.errors import InputError
from rue.reports.blocks import Block, block, fact, facts, table
from rue.reports.sections.identity import REPORT_ID

SCHEMA = "rue-report/1"
HASHES = ("Weights", "Training data", "Audited data")


def read(previous: Any) -> Mapping[str, Any] | None:
    """An earlier report: its document, or the path of its JSON."""
    if previous is None:
        return None
    if isinstance(previous, str | Path):
        try:
            previous = json.loads(Path(previous).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InputError(
                f"{previous} cannot be read as an earlier report ({error}); give the JSON that report.save wrote"
            ) from error
    if not isinstance(previous, Mapping) or previous.get("schema") != SCHEMA:
        raise InputError(f'previous is no report: it has no "schema": "{SCHEMA}"; give the JSON that report.save wrote')
    try:
        compared = changes(previous, previous)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"previous is a damaged report ({type(error).__name__}: {error}); give the JSON as report.save wrote it"
        ) from error
    if compared[0]["items"][0]["value"] is None:
        raise InputError("previous is a damaged report: it has no id; give the JSON as report.save wrote it")
    return previous


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Block]:
    """The earlier report's name and date, whether its hashes are the same, and numbers side by side."""
    old_hashes, new_hashes = (_facts(each, "fingerprints") for each in (before, now))
    methods = _method(before), _method(now)
    date = str(before.get("created", {}).get("date") or "not known")
    items = [
        fact("Previous report", _facts(before, "report").get(REPORT_ID), f"of {date}", code=True),
        fact("Method", _same(*methods), _unlike(*methods)),
        *(
            fact(name, _same(old_hashes.get(name), new_hashes.get(name)), "against the previous report")
            for name in HASHES
        ),
    ]
    return [facts("previous", items), *_numbers(before, now, alike=methods[0] == methods[1])]


def _method(document: Mapping[str, Any]) -> str | None:
    """The name of its method, without the settings."""
    method = _facts(document, "report").get("Method")
    return None if method is None else str(method).partition("(")[0]


def _unlike(before: str | None, now: str | None) -> str:
    if before == now:
        return "against the previous report"
    return f"{before or 'not known'} before, {now} now: their scores are not compared"


def _numbers(before: Mapping[str, Any], now: Mapping[str, Any], *, alike: bool) -> list[Block]:
    compared = []
    scores = (("score-quantiles", "quantile"), ("tiers", "tier")) if alike else ()
    for name, key in (*scores, ("metrics", "metric")):
        old, new = (_rows(each, name, key) for each in (before, now))
        compared += [
            {"what": what, "before": old[what][0], "n_before": old[what][1], "now": new[what][0], "n_now": new[what][1]}
            for what in new
            if what in old
        ]
    columns = {
        "what": ("What", "text"),
        "before": ("Before", "number"),
        "n_before": ("n before", "number"),
        "now": ("Now", "number"),
        "n_now": ("n now", "number"),
    }
    return [table("changes", "What changed since the previous report", columns, compared)] if compared else []


def _rows(document: Mapping[str, Any], name: str, key: str) -> dict[str, tuple[Any, Any]]:
    held = block(document, name) or {"rows": []}
    return {_called(name, str(row[key])): (_number(row["value"]), _number(row["n"])) for row in held["rows"]}


def _number(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r} is no number")


def _called(name: str, what: str) -> str:
    return {"score-quantiles": f"score, {what}", "tiers": f"share of tier {what}"}.get(name, what)


def _facts(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    held = block(document, name) or {"items": []}
    return {item["label"]: item["value"] for item in held["items"]}


def _same(before: Any, now: Any) -> str:
    if before is None or now is None:
        return "not known"
    return "the same" if before == now else "changed"
