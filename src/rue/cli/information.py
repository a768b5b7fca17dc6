"""`rue info`: what is in a file, without running anything of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rue.auditing import storage
from rue.cli.csv_cells import MISSING
from rue.cli.tables import FORMS, Table
from rue.cli.trained import Statement
from rue.core.errors import DataError, InputError
from rue.core.stored_file import FORMAT, read_file
from rue.models.model_file import READERS
from rue.policy import Policy
from rue.policy import policy as policies

STORED = ".rue"
TOLD = ("method", "n", "d", "rows", "device", "asked")  # of a stored audit


def information(statement: Statement) -> dict[str, Any]:
    """Plain numbers and words about a stored audit or policy, a model file or a table."""
    file = Path(statement.model)
    ending = file.suffix.lower()
    if ending == STORED:
        return _stored(file)
    if ending in READERS:
        return _model(file, statement)
    if ending in FORMS or file.is_dir():
        return _table(file)
    raise InputError(f"{file} is nothing that is known by its ending; give {', '.join((STORED, *READERS, *FORMS))}")


def _stored(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise InputError(f"there is no file {file}; give the path of a fitted audit or a policy")
    size = file.stat().st_size
    try:
        about = read_file(file, storage.KIND).about
    except DataError:
        found = Policy.load(file)  # the reader says what is wrong where it is neither
        kind = policies.KIND
        return {"file": str(file), "kind": kind, "bytes": size, "says": str(found), "audit": found.auditor}
    schema = dict(about.get("stated") or {})
    known = {name: about.get(name) for name in TOLD}
    return {"file": str(file), "kind": storage.KIND, "format": FORMAT, "bytes": size, **known, **schema}


def _model(file: Path, statement: Statement) -> dict[str, Any]:
    model = statement.wrapped().model
    columns = None if model.schema is None else list(model.schema.names)
    told = {name: value for name, value in model.describe().items() if isinstance(value, str | int | float)}
    classes = None if model.classes is None else [str(each) for each in model.classes]
    return {"file": str(file), "kind": "model", **told, "columns": columns, "classes": classes}


def _table(file: Path) -> dict[str, Any]:
    """Rows, and of every column what it holds in the first part, and how many cells are missing."""
    table, rows = Table.at(file), 0
    kinds: dict[str, str] = {}
    missing: dict[str, int] = {}
    for part in table.parts():
        rows += len(part.frame)
        kinds = kinds or {str(name): _kind(part.frame[name]) for name in part.frame.columns}
        for name in part.frame.columns:
            missing[str(name)] = missing.get(str(name), 0) + int(part.frame[name].isna().sum())
    columns = {name: f"{kind}, {missing[name]} missing" if missing[name] else kind for name, kind in kinds.items()}
    return {"file": str(file), "kind": "table", "rows": rows, "columns": columns}


def _kind(values: Any) -> str:
    import pandas as pd

    if values.dtype.kind not in "OUT":
        return str(values.dtype)
    known = values[~values.isin(MISSING)].dropna()
    return "numbers" if len(known) and pd.to_numeric(known, errors="coerce").notna().all() else "text"


def in_lines(facts: Mapping[str, Any]) -> str:
    """Facts for people: a line for each, and what is not known left out."""
    lines = []
    for name, value in facts.items():
        if isinstance(value, Mapping):
            lines += [f"{name}:", *(f"  {key}: {_listed(each)}" for key, each in value.items() if each is not None)]
        elif value is not None:
            lines.append(f"{name}: {_listed(value)}")
    return "\n".join(lines)


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
