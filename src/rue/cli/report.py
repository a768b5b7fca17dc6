"""`rue report`: reads files and makes a report."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rue.auditing.auditor import Auditor
from rue.cli.fitting import Recipe, Stored, all_usable
from rue.cli.tables import Table
from rue.core.errors import DataError, InputError
from rue.reports.document import Report, places, report
from rue.reports.phrases import listing, of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Order:
    """What the report is made of, and how it is titled."""

    source: Recipe | Stored
    audited: Table
    target: str | None
    identity: str | None = None  # the column of ids
    by: tuple[str, ...] = ()  # columns whose groups are looked at apart
    title: str | None = None
    purpose: str | None = None
    noun: str = "training rows"
    previous: Path | None = None
    level: float = 0.9
    out: Path = Path("audit.html")


def run(order: Order) -> Report:
    """Read the tables and the model, fit the best method to it, and make the report."""
    _check_places(order)
    if order.identity is not None and order.identity in order.by:
        raise InputError(f"{order.identity!r} is both --id and --by; group by a column that several rows share")
    audited = order.audited.whole(() if order.identity is None else (order.identity,))
    _check_columns(order, audited)
    auditor = order.source.fitted()
    words, unknown = _known_words(audited, auditor, _name(order.source.train))
    aside = [name for name in (order.target, order.identity) if name is not None]
    X = all_usable(words, auditor, order.audited.name, aside)
    if order.identity is not None:
        X = X.set_axis(audited[order.identity].to_numpy(), axis=0).rename_axis(order.identity)
    auditor = replace(auditor, facts={**auditor.facts, "warnings": (*auditor.facts["warnings"], *unknown)})
    return report(
        auditor,
        X,
        audited[order.target].to_numpy() if order.target in audited else None,
        title=order.title or f"Audit of {Path(order.source.statement.model).name}",
        purpose=order.purpose,
        noun=order.noun,
        group={name: audited[name].to_numpy() for name in order.by} or None,
        level=order.level,
        previous=order.previous,
    )


def _check_places(order: Order) -> None:
    """Refuse to overwrite a file that is read."""
    source = order.source
    tables = [table.path for table in (source.train, order.audited) if table is not None]
    given = [Path(source.statement.model), *(path for path in (*tables, order.previous) if path is not None)]
    for place in places(order.out):
        for read in given:
            if place.exists() and read.exists() and place.samefile(read):
                raise InputError(f"{place} would be written over, and it is read for this report; choose another --out")


def _check_columns(order: Order, audited: "pd.DataFrame") -> None:
    for name in (order.identity, *order.by):
        if name is not None and name not in audited:
            names = listing([str(each) for each in audited.columns])
            raise DataError(f"{order.audited.name} has no column {name!r}; its columns are {names}")
    missing = int(audited[order.target].isna().sum()) if order.target in audited else 0
    if missing:
        raise DataError(
            f"{missing} of {len(audited)} rows of {order.audited.name} have no {order.target}; take these rows out of "
            "the table, or take the column out of a table of rows to audit"
        )


def _known_words(audited: "pd.DataFrame", auditor: Auditor, train: str) -> tuple["pd.DataFrame", list[str]]:
    """The table with words that training had not as missing, as tree libraries read them; the texts say so."""
    schema = auditor.model.schema
    columns = [column for column in (() if schema is None else schema.columns) if column is not None]
    same, remarks = audited.copy(deep=False), []
    for column in columns:
        if column.kind != "categories" or column.levels is None or column.name not in audited:
            continue
        given = audited[column.name]
        unknown = given.notna() & ~given.astype(object).isin(column.levels).to_numpy()
        if unknown.any():
            same[column.name] = given.astype(object).where(~unknown, np.nan)
            words = sorted({str(word) for word in given[unknown]})
            remarks.append(
                f"{of(int(unknown.sum()), len(audited))} audited rows have a {column.name} that {train} lacks "
                f"({listing(words)}): read as missing, as LightGBM does"
            )
    return same, remarks


def _name(table: Table | None) -> str:
    return "training" if table is None else Path(table.name).name
