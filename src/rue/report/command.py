"""`rue report`: from files to a report."""

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rue.errors import DataError, InputError, ModelError, RueError
from rue.methods import best_method
from rue.models import FILES, wrap
from rue.report.document import Report, report

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line."""

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


def run(order: Order) -> Report:
    """Read the tables and the model, fit the best method to it, check and report."""
    train, audited = (_table(path) for path in (order.train, order.audited))
    if order.target not in train:
        raise DataError(f"{order.train} has no column {order.target!r}; its columns are {_listed(train)}")
    for name in order.group:
        if name not in audited:
            raise DataError(f"{order.audited} has no column {name!r} to group by; its columns are {_listed(audited)}")
    train, audited = (
        _indexed(frame, order.identity, path) for frame, path in ((train, order.train), (audited, order.audited))
    )
    features = [name for name in train.columns if name not in (order.target, *order.drop)]
    missing = [str(name) for name in features if name not in audited]
    if missing:
        raise DataError(f"{order.audited} lacks the columns {', '.join(missing)} of {order.train}; add or --drop them")
    X, X_new = (_prepared(frame[features], order.model) for frame in (train, audited))
    model = wrap(load(order.model), loss=order.loss, l2=order.l2, reduction=order.reduction)
    auditor = best_method(model).fit(model, (X, train[order.target]))
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
        return _exported(path)
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
    except Exception as error:  # whatever the user's own module does
        raise ModelError(f"{model!r} cannot be imported: {error!r}; try python -c 'import {name}'") from error
    finally:
        sys.path.remove(here)


def _exported(path: Path) -> Any:
    import torch

    try:
        return torch.export.load(path)
    except Exception as error:  # torch raises several kinds
        raise ModelError(
            f"{path} cannot be read as an exported program ({error}); write it by torch.export.save"
        ) from error


def _table(path: Path) -> "pd.DataFrame":
    import pandas as pd

    if path.suffix not in (".csv", ".parquet"):
        raise InputError(f"{path} is no table that can be read; give a .csv or a .parquet file")
    try:
        found = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except ImportError as error:
        raise InputError(
            f"{path} needs a library to read Parquet ({error}); pip install pyarrow, or give CSV"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: what is no CSV
        raise InputError(f"{path} cannot be read: {error}") from error
    if found.empty:
        raise DataError(f"{path} has no rows; give at least one below the names of the columns")
    return found


def _indexed(frame: "pd.DataFrame", identity: str | None, path: Path) -> "pd.DataFrame":
    """Rows under their ids, where a column has them."""
    if identity is None:
        return frame
    if identity not in frame:
        raise DataError(f"{path} has no column {identity!r} of ids; its columns are {_listed(frame)}")
    return frame.set_index(identity)


def _prepared(frame: "pd.DataFrame", model: str) -> "pd.DataFrame":
    """Words are categories to a stored tree ensemble, which knows their numbers; else left as they are."""
    if Path(model).suffix not in FILES:
        return frame
    words = [name for name in frame.columns if frame[name].dtype.kind not in "fiub"]
    return frame.astype(dict.fromkeys(words, "category"))


def _listed(frame: "pd.DataFrame") -> str:
    names = [str(name) for name in frame.columns]
    return ", ".join(names[:12]) + (" ..." if len(names) > 12 else "")
