"""The cells of a label as a table, and the mean over the splits of each table of data, which is one observation."""

from pathlib import Path
from typing import Any

import pandas as pd

from practice_parts import rivals
from practice_parts.stored import read_json
from practice_parts.tables import CLASSES, REGRESSION

CELL = ["kind", "half", "recipe", "n", "table", "split"]
NUMBERS = {
    REGRESSION: ["nll", "auc", "coverage", "width", "std_ratio", "rmse", "trainings", "seconds"],
    CLASSES: ["nll", "auc", "gap", "accuracy", "trainings", "seconds"],
}
REFERENCE = {REGRESSION: "forest", CLASSES: "temperature"}  # whom leads are measured against
LEADS = {"nll_lead": "nll", "auc_lead": "auc"}


def cells(out: Path, label: str) -> pd.DataFrame:
    """One row for each cell and audit; rivals only where the label has the same cell."""
    found = []
    for path in sorted((out / "ours" / label).glob("*.json")):
        ours = read_json(path)
        beside = read_json(out / "rivals" / path.name)
        audits = {f"rue, {name}": numbers for name, numbers in ours["audits"].items()} | beside["audits"]
        for name, numbers in audits.items():
            if "missing" not in numbers:
                known = {"rmse": ours.get("test_rmse"), "trainings": _trainings(name, numbers), **numbers}
                kept = {column: known.get(column) for column in NUMBERS[ours["kind"]]}
                failed = "error" in numbers
                found.append({**{key: ours[key] for key in CELL}, "audit": name, "failed": failed, **kept})
    if not found:
        raise SystemExit(f"there are no cells in {out / 'ours' / label}; run with --label {label} first")
    return _with_leads(pd.DataFrame(found))


def _trainings(name: str, numbers: dict[str, Any]) -> int:
    return numbers.get("facts", {}).get("trainings", 0) if name.startswith("rue, ") else rivals.trainings(name)


def by_table(found: pd.DataFrame) -> pd.DataFrame:
    """Means over the splits of a table, with their number and how many failed."""
    columns = [name for name in dict.fromkeys([*NUMBERS[REGRESSION], *NUMBERS[CLASSES], *LEADS]) if name in found]
    grouped = found.groupby(["kind", "half", "n", "recipe", "audit", "table"], sort=False)
    counts = grouped.agg(splits=("split", "size"), failed=("failed", "sum"))
    return counts.join(grouped[columns].mean()).reset_index()


def _with_leads(found: pd.DataFrame) -> pd.DataFrame:
    """With the difference to the reference in the same cell."""
    reference = found[found["audit"] == found["kind"].map(REFERENCE)].set_index(CELL)
    beside = reference.reindex(pd.MultiIndex.from_frame(found[CELL]))
    leads = {
        lead: found[own].astype(float).to_numpy() - beside[own].astype(float).to_numpy() for lead, own in LEADS.items()
    }
    return found.assign(**leads)
