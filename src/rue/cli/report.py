"""`rue report`: reads files and makes a report."""

import sys
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rue.core.errors import DataError, InputError, ModelError, RueError
from rue.methods import best_method
from rue.models import best_known, wrap
from rue.models.exported_file import exported_program
from rue.models.wrapping import FILES
from rue.reports.document import Report, places, report
from rue.reports.phrases import listing, of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Order:
    """The arguments of the command line."""

    model: str
    train: Path
    audited: Path
    target: str
    loss: str | None = None
    l2: float | None = None
    reduction: Literal["sum", "mean"] = "sum"
    identity: str | None = None  # the column of ids
    group: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    title: str | None = None
    purpose: str | None = None
    noun: str = "training rows"
    previous: Path | None = None
    level: float = 0.9
    out: Path = Path("audit.html")


def run(order: Order) -> Report:
    """Read the tables and the model, fit the best method to it, and make the report."""
    _check_places(order)
    _check_columns(order)
    train, audited = (_table(path) for path in (order.train, order.audited))
    if order.target not in train:
        raise DataError(f"{order.train} has no column {order.target!r}; its columns are {_listed(train)}")
    for name in order.drop:
        if name not in train and name not in audited:
            raise DataError(f"{order.train} has no column {name!r} to drop; its columns are {_listed(train)}")
    for frame, path in ((train, order.train), (audited, order.audited)):
        missing = int(frame[order.target].isna().sum()) if order.target in frame else 0
        if missing:
            raise DataError(
                f"{missing} of {len(frame)} rows of {path} have no {order.target}; take these rows out of the table, "
                "or take the column out of a table of rows to audit"
            )
    for name in order.group:
        if name not in audited:
            raise DataError(f"{order.audited} has no column {name!r} to group by; its columns are {_listed(audited)}")
    train, audited = (
        _indexed(frame, order.identity, path) for frame, path in ((train, order.train), (audited, order.audited))
    )
    model = best_known(wrap(load(order.model), loss=order.loss, l2=order.l2, reduction=order.reduction))
    named = [name for name in train.columns if name not in (order.target, *order.drop)]
    features = [name for name in named if model.schema is None or model.schema.takes(name)]
    lacking = [str(name) for name in features if name not in audited]
    if lacking:
        raise DataError(f"{order.audited} lacks the columns {', '.join(lacking)} of {order.train}; add or --drop them")
    X, X_new, unknown = _prepared(train[features], audited[features], order)
    auditor = best_method(model).fit(model, (X, train[order.target]))
    unused = [str(name) for name in named if name not in features]
    if unused:
        unknown.append(f"the model was not trained with {listing(unused)}, left out of {order.train.name}")
    auditor = replace(auditor, facts={**auditor.facts, "warnings": (*auditor.facts["warnings"], *unknown)})
    return report(
        auditor,
        X_new,
        audited.get(order.target),
        title=order.title or f"Audit of {Path(order.model).name}",
        purpose=order.purpose,
        noun=order.noun,
        group={name: audited[name] for name in order.group} or None,
        level=order.level,
        previous=order.previous,
    )


def load(model: str) -> Any:
    """The path of a stored tree ensemble or exported program, or a Python object as package.module:name."""
    path = Path(model)
    if path.suffix in FILES:
        return model
    if path.suffix == ".pt2":
        return exported_program(path)
    name, colon, attribute = model.partition(":")
    if not colon or not attribute:
        raise ModelError(
            f"{model!r} is no model file ({', '.join(FILES)}, .pt2) and no Python object; write package.module:name"
        )
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return getattr(import_module(name), attribute)
    except RueError:
        raise
    except Exception as error:  # the user's module may raise anything
        raise ModelError(f"{model!r} cannot be imported: {error!r}; try python -c 'import {name}'") from error
    finally:
        sys.path.remove(here)


def _check_places(order: Order) -> None:
    """Refuse to overwrite a file that is read."""
    given = [Path(order.model), order.train, order.audited, *([order.previous] if order.previous is not None else [])]
    for place in places(order.out):
        for source in given:
            if place.exists() and source.exists() and place.samefile(source):
                raise InputError(f"{place} would be written over, and it is read for this report; choose another --out")


def _check_columns(order: Order) -> None:
    """Refuse a column with two roles."""
    if order.identity is not None and order.identity == order.target:
        raise InputError(f"{order.identity!r} is both --id and --target; name another column of ids, or none")
    if order.identity in order.group:
        raise InputError(f"{order.identity!r} is both --id and --group; group by a column that several rows share")


def _table(path: Path) -> "pd.DataFrame":
    import pandas as pd

    if path.suffix not in (".csv", ".parquet"):
        raise InputError(f"{path} is no table that can be read; give a .csv or a .parquet file")
    try:
        frame = _csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except ImportError as error:
        raise InputError(
            f"{path} needs a library to read Parquet ({error}); pip install pyarrow, or give CSV"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: the file is no CSV
        raise InputError(f"{path} cannot be read: {error}") from error
    if frame.empty:
        raise DataError(f"{path} has no rows; give at least one below the names of the columns")
    return frame


def _csv(path: Path) -> "pd.DataFrame":
    """A table of CSV; in columns of text only empty cells are missing, because NA may be a category there."""
    import pandas as pd

    frame = pd.read_csv(path)
    text = [name for name in frame.columns if frame[name].dtype.kind not in "fiub" and frame[name].isna().any()]
    if not text:
        return frame
    again = pd.read_csv(path, usecols=text, keep_default_na=False, na_values=[""])
    return frame.assign(**{name: again[name] for name in text})


def _indexed(frame: "pd.DataFrame", identity: str | None, path: Path) -> "pd.DataFrame":
    """The frame, indexed by its column of ids if there is one."""
    if identity is None:
        return frame
    if identity not in frame:
        raise DataError(f"{path} has no column {identity!r} of ids; its columns are {_listed(frame)}")
    return frame.set_index(identity)


def _prepared(
    train: "pd.DataFrame", audited: "pd.DataFrame", order: Order
) -> tuple["pd.DataFrame", "pd.DataFrame", list[str]]:
    """Both tables, with text columns as the training table's categories for a stored tree ensemble; else unchanged.

    An audited word that the training table lacks becomes missing, as in LightGBM; the texts returned say so.
    """
    if Path(order.model).suffix not in FILES:
        return train, audited, []
    words = [name for name in train.columns if train[name].dtype.kind not in "fiub"]
    read, same, remarks = train.astype(dict.fromkeys(words, "category")), audited.copy(), []
    for name in words:
        known = audited[name].isin(read[name].cat.categories)
        same[name] = audited[name].where(known).astype(read[name].dtype)
        unknown = audited.loc[(~known & audited[name].notna()).to_numpy(), name]
        if len(unknown):
            remarks.append(
                f"{of(len(unknown), len(audited))} audited rows have a {name} that {order.train.name} lacks "
                f"({listing(sorted({str(word) for word in unknown}))}): read as missing, as LightGBM does"
            )
    return read, same, remarks


def _listed(frame: "pd.DataFrame") -> str:
    names = [str(name) for name in frame.columns]
    return ", ".join(names[:12]) + (" ..." if len(names) > 12 else "")
