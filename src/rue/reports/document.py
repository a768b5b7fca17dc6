"""`rue.report`: an audit as one document for people, as a page and as JSON."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from rue.auditing.auditor import Auditor
from rue.core.errors import InputError
from rue.core.files import write_whole
from rue.core.resample import untouched
from rue.policy import Policy
from rue.reports import previous as earlier
from rue.reports.blocks import block
from rue.reports.case import Asked, Case, measured
from rue.reports.phrases import rows
from rue.reports.plain import plain
from rue.reports.sections import SECTIONS
from rue.reports.sections.identity import REPORT_ID
from rue.reports.sections.predictions import prediction_table
from rue.reports.verdict import highlights, verdict

MARK = earlier.SCHEMA.partition("/")[0].encode() + b"/"  # in every page and JSON


@dataclass(frozen=True)
class Report:
    """The content of a report, as plain JSON types; the page and the JSON are made of it."""

    document: dict[str, Any] = field(repr=False)

    @property
    def verdict(self) -> str:
        """The light, and one sentence."""
        return f"{self.document['verdict']['light']}: {self.document['verdict']['text']}"

    def html(self) -> str:
        """One page that needs nothing but a browser."""
        from rue.reports.page.render import render

        return render(self.document)

    def json(self) -> str:
        """The same content, valid under the published schema."""
        return _compact(self.document) + "\n"

    def save(self, path: str | Path = "audit.html") -> tuple[Path, Path]:
        """Write the page, and the JSON beside it, over an earlier report but over no other file."""
        page, data = places(path)
        for place in (page, data):
            _refuse_stranger(place)
        write_whole({page: self.html().encode(), data: self.json().encode()})
        return page, data


def places(path: str | Path) -> tuple[Path, Path]:
    """Where the page and the JSON go.

    >>> [str(place) for place in places("audit_v1.2")]
    ['audit_v1.2.html', 'audit_v1.2.json']
    """
    given = Path(path)
    if not given.name or str(path).endswith(("/", os.sep)) or _is_folder(given):
        raise InputError(f"{str(path)!r} is no name of a file but a folder; give one that ends in .html")
    page = given if given.suffix == ".html" else given.with_name(f"{given.name}.html")
    return page, page.with_suffix(".json")


def _is_folder(place: Path) -> bool:
    try:
        return place.is_dir()
    except (OSError, ValueError):  # what cannot be looked at cannot be written either, which says why
        return False


def _refuse_stranger(place: Path) -> None:
    """Refuse to overwrite what is no report: a page and a JSON of a report both name its schema."""
    try:
        stranger = place.is_file() and place.stat().st_size > 0 and MARK not in place.read_bytes()
    except (OSError, ValueError):  # what cannot be read cannot be written either, which says why
        return
    if stranger:
        raise InputError(f"{str(place)!r} is there already and is no report of rue; move it, or choose another name")


def report(
    auditor: Auditor,
    inputs: Any,
    targets: Any = None,
    *,
    title: str | None = None,
    purpose: str | None = None,
    noun: str = "training rows",
    ids: Any = None,
    group: Any = None,
    policy: Policy | None = None,
    checkup: Any = None,
    baselines: bool = True,
    level: float = 0.9,
    previous: str | Path | Mapping[str, Any] | None = None,
) -> Report:
    """Audit inputs and report the results: a page for people, and the same as JSON.

    With `targets` the report measures errors and whether the score finds them; without, it lists what could not be
    assessed. `noun` is the name of the training rows in texts; `ids` names the audited rows (else a frame's index);
    `group` is an array, or a dict of arrays by name, for tables by subgroup. Without a `policy` a fifth of these rows
    is for review. `checkup` is the result of `auditor.check(...)`, which is called if it is None. `baselines` fits
    simpler scores to compare with. `level` is that of the intervals. `previous` is an earlier report's JSON, to list
    what changed.

    >>> import torch, rue
    >>> X, y = torch.randn(40, 2, generator=torch.Generator().manual_seed(0)), torch.arange(40.0)
    >>> model = rue.wrap(torch.nn.Linear(2, 1), loss="squared_error", l2=1.0)
    >>> written = report(rue.LinearRUE().fit(model, (X, y)), X[:9])
    >>> [part["id"] for part in written.document["sections"]][:3]
    ['identity', 'use', 'method']
    """
    started = time.perf_counter()
    before = earlier.read(previous)
    asked = Asked(title, purpose, noun, ids, group, policy, checkup, baselines, level, before)
    with untouched():
        case = measured(auditor, inputs, targets, asked)
        document = _document(case)
    document["created"] = _created(case, time.perf_counter() - started)
    return Report(document)


def _document(case: Case) -> dict[str, Any]:
    """The whole document but the date and the seconds, with its id, a hash of the rest."""
    title = case.asked.title or f"Audit of {rows(case.m, 'prediction')}"
    document = plain(
        {
            "schema": earlier.SCHEMA,
            "title": title,
            "subtitle": f"{case.auditor.method}, {rows(case.n, 'training row')}, {rows(case.m, 'audited row')}",
            "verdict": verdict(case),
            "highlights": highlights(case),
            "sections": [section(case) for section in SECTIONS],
            "predictions": prediction_table(case),
        }
    )
    held = block(document, "report")
    assert held is not None
    named = next(item for item in held["items"] if item["label"] == REPORT_ID)
    before = case.asked.previous
    if before is not None:
        document["sections"][0]["blocks"] += plain(earlier.changes(before, document))
    named["value"] = sha256(_compact(document, sort_keys=True).encode()).hexdigest()
    return dict(document)


def _compact(document: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)


def _created(case: Case, seconds: float) -> dict[str, Any]:
    facts = case.audit.facts
    times = {"fit": facts.get("seconds_fit"), "audit": facts.get("seconds_audit"), "report": seconds}
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"date": date, "seconds": plain({name: taken for name, taken in times.items() if taken is not None})}
