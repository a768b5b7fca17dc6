"""An auditor for the command line: fitted to a training table, or read from the file of a fitted one."""

import warnings
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Option

from rue.auditing.auditor import Auditor
from rue.auditing.storage import KIND, load
from rue.cli.csv_cells import TablePart
from rue.cli.outcome import wrong_use
from rue.cli.roles import Roles, Units
from rue.cli.tables import Table, whole_rows
from rue.cli.trained import Statement
from rue.cli.typed import Typed, typed
from rue.core.errors import DataError, InputError, RueWarning
from rue.core.schema import Schema
from rue.core.stored_file import read_file
from rue.methods import fit_best
from rue.policy import Policy

if TYPE_CHECKING:
    import pandas as pd

SEED = 0  # of the halves of held-out rows
FEWEST = 4  # of them


@dataclass(frozen=True)
class Extras:
    """What a fit may use beside the training rows."""

    validation: Annotated[str | None, Option(help="Rows that training was stopped on, with their targets.")] = None
    refit: Annotated[
        bool, Option("--refit/--no-refit", help="Whether copies may be trained where that takes next to nothing.")
    ] = True


@dataclass(frozen=True)
class Recipe:
    """How an auditor is fitted."""

    statement: Statement
    roles: Roles
    units: Units
    train: Table
    extras: Extras = Extras()

    @property
    def asked(self) -> dict[str, Any]:
        """What was said on the command line, in plain words; nothing that would run code."""
        said, roles = self.statement, self.roles
        return {
            "loss": said.loss,
            "l2": said.l2,
            "reduction": said.reduction,
            "target": roles.target,
            "identity": roles.identity,
            "text": list(roles.text or ()),
            **asdict(self.units),
        }

    def fitted(self) -> Auditor:
        """The auditor, with what was asked for among its facts."""
        trained = self.statement.wrapped()
        table, validation = self.roles.read(self.train, self.units, trained), None
        if self.extras.validation is not None:
            other = self.roles.read(Table.at(self.extras.validation), self.units, trained).data
            validation = (other.X, other.y)
        auditor = fit_best(trained.model, table.data, validation=validation, refit=None if self.extras.refit else False)
        for text in table.remarks:
            warnings.warn(text, RueWarning, stacklevel=2)
        asked = {**self.asked, "features": [str(name) for name in table.data.X.columns]}
        warned = (*auditor.facts["warnings"], *table.remarks)
        return replace(auditor, facts={**auditor.facts, "asked": asked, "warnings": warned})


@dataclass(frozen=True)
class Stored:
    """An auditor in a file, and the model it is of."""

    path: Path
    statement: Statement
    train: Table | None = None  # where explanations, checks or reports need the rows

    @cached_property
    def asked(self) -> dict[str, Any]:
        """What was said on the command line that fitted it; nothing if it was fitted in Python."""
        return dict(about(self.path).get("asked") or {})

    def fitted(self) -> Auditor:
        """The auditor; what is not said of the model now was said when it was fitted."""
        asked = self.asked
        said: Any = {
            name: asked.get(name) for name in ("loss", "l2", "reduction") if getattr(self.statement, name) is None
        }
        trained = replace(self.statement, **said).wrapped()
        if self.train is None:
            return load(self.path, trained.model)
        if not asked:
            raise InputError(
                f"{self.path} was fitted in Python, and does not say which columns of {self.train.name} are for what; "
                "leave --fitted out, and say --target"
            )
        try:
            roles = Roles(asked["target"], asked["identity"], list(asked["features"]), text=list(asked["text"]))
            units = Units(asked["group"], asked["weight"])
        except (KeyError, TypeError) as error:
            raise DataError(f"{self.path} does not say which columns are for what; fit it again") from error
        return load(self.path, trained.model, data=roles.read(self.train, units, trained).data)


def about(path: Path) -> dict[str, Any]:
    """What a stored audit says of itself."""
    return read_file(path, KIND).about


def source(
    statement: Statement, roles: Roles, units: Units, extras: Extras, train: str | None, fitted: Path | None
) -> Recipe | Stored:
    """Where the auditor comes from: a file, or a fit to a table."""
    table = None if train is None else Table.at(train)
    if fitted is not None:
        if units != Units() or extras != Extras() or roles.features or roles.drop or roles.text:
            raise wrong_use("--fitted has what was said to rue fit: leave --group, --features and the like out")
        return Stored(fitted, statement, table)
    if table is None:
        raise wrong_use("an audit is made of training rows: give --fitted FILE, or --train TABLE with --target")
    return Recipe(statement, roles, units, table, extras)


def held_out(auditor: Auditor, recipe: Recipe, table: Table, share: float | None) -> tuple[Auditor, Policy | None]:
    """The auditor calibrated by rows that nothing was trained on; with a share, half of them choose a policy."""
    target, group = recipe.roles.target, recipe.units.group
    raw = table.whole(recipe.roles.texts)
    for name in (target, group):
        if name is not None and name not in raw:
            raise DataError(f"{table.name} has no column {name!r}; held-out rows need it")
    X, y = all_usable(raw, auditor, table.name), raw[target].to_numpy()
    if share is None:
        return auditor.calibrate(X, y), None
    if len(raw) < FEWEST:
        raise DataError(f"{table.name} has {len(raw)} rows, too few for two halves; give more, or leave --policy out")
    units = np.arange(len(raw)) if group is None else raw[group].to_numpy()
    names = np.unique(units)
    first = np.isin(units, np.random.default_rng(SEED).permutation(names)[: len(names) // 2])
    calibrated = auditor.calibrate(X[first], y[first])
    return calibrated, Policy.by_share(calibrated.audit(X[~first]), share=share)


def inputs(part: TablePart, auditor: Auditor, name: str, aside: Collection[str] = ()) -> Typed:
    """The rows of a table as the model takes them, and which cannot be used; columns `aside` are none of its."""
    schema = auditor.model.schema
    if schema is not None:
        return typed(part, schema, name)
    found = typed(part, Schema(tuple(str(column) for column in part.frame.columns if column not in aside)), name)
    return found._replace(frame=found.frame.to_numpy(dtype=np.float64))  # it was fitted to an array


def all_usable(raw: "pd.DataFrame", auditor: Auditor, name: str, aside: Collection[str] = (), first: int = 0) -> Any:
    """The rows as the model takes them, counted from `first`; one that cannot be used is named."""
    found = inputs(whole_rows(raw), auditor, name, aside)
    bad = np.flatnonzero(found.problem != "")
    if len(bad):
        raise DataError(f"row {first + bad[0]} of {name} (the first is 0): {found.problem[bad[0]]}")
    return found.frame
