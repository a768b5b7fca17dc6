"""What the columns of a table are for: the target, ids, groups, weights, and what the model was trained with."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Option

from rue.cli.outcome import wrong_use
from rue.cli.tables import Table
from rue.cli.trained import TrainedModel
from rue.core.errors import DataError, InputError
from rue.data.rows import Data
from rue.reports.phrases import listing

if TYPE_CHECKING:
    import pandas as pd


class TrainedRows(NamedTuple):
    """The training rows, and what is to be said of their columns."""

    data: Data
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Units:
    """Columns that say how training rows count."""

    group: Annotated[str | None, Option(help="Whose rows go together (a patient, a site); no feature.")] = None
    weight: Annotated[str | None, Option(help="The weights of the training rows; no feature.")] = None

    @property
    def named(self) -> dict[str, str | None]:
        """The columns by their flags."""
        return {"--group": self.group, "--weight": self.weight}


@dataclass(frozen=True)
class Roles:
    """Names of columns, as they were given on the command line."""

    target: Annotated[str | None, Option(help="The column of the target.")] = None
    identity: Annotated[str | None, Option("--id", help="The column of ids; no feature.")] = None
    features: Annotated[
        list[str] | None, Option(help="A column that the model was trained with; again for more. Default: all others.")
    ] = None
    drop: Annotated[list[str] | None, Option(help="A column that is no feature; may be given again.")] = None
    text: Annotated[
        list[str] | None, Option(help="A column of codes, read as words: 01 is no 1. May be given again.")
    ] = None

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns that are read as they are written: 007 is no 7."""
        return (*(() if self.identity is None else (self.identity,)), *(self.text or ()))

    def read(self, table: Table, units: Units, trained: TrainedModel) -> TrainedRows:
        """The training rows in a table, for a model."""
        if self.target is None:
            raise wrong_use("say which column of the training rows is the target: --target")
        others = _once({"--target": self.target, "--id": self.identity, **units.named})
        frame = table.whole((*self.texts, *trained.texts))
        for name in (*others, *(self.features or ()), *(self.drop or ()), *(self.text or ())):
            if name not in frame:
                names = listing([str(each) for each in frame.columns])
                raise DataError(f"{table.name} has no column {name!r}; its columns are {names}")
        missing = int(frame[self.target].isna().sum())
        if missing:
            raise DataError(
                f"{missing} of {len(frame)} rows of {table.name} have no {self.target}; take these rows out of the "
                "table, or take the column out of a table of rows to audit"
            )
        _refuse_words(frame[self.target], trained, table.name)
        aside = {*others, *(self.drop or ())}
        named = list(self.features or ()) or [str(name) for name in frame.columns if name not in aside]
        schema = trained.model.schema
        features = [name for name in named if schema is None or schema.takes(name)]
        taken = [] if schema is None else [name for name in schema.names if name in aside]
        if taken:
            raise DataError(
                f"the model was trained with {listing(taken)}, which the command line names for something else"
            )
        frame = frame if self.identity is None else frame.set_index(self.identity)
        X = frame[features]
        if trained.by_categories:
            X = X.astype({name: "category" for name in features if X[name].dtype.kind not in "iufb"})
        unused = [name for name in named if name not in features]
        said = (
            f"the model was not trained with {listing(unused)}, left out of {Path(table.name).name}" if unused else ""
        )
        weight, group = (None if name is None else frame[name].to_numpy() for name in (units.weight, units.group))
        return TrainedRows(Data(X, frame[self.target], weight=weight, group=group), (said,) if unused else ())


def _refuse_words(target: "pd.Series[Any]", trained: TrainedModel, name: str) -> None:
    """Labels that are words need a model that knows them."""
    if target.dtype.kind in "iufb" or trained.model.classes is not None:
        return
    words = sorted({str(word) for word in target})
    if trained.by_categories and trained.model.family.decision is not None:
        numbered = ", ".join(f"{word} is {number}" for number, word in enumerate(words[:4]))
        raise DataError(
            f"the target {target.name} of {name} holds words, and a file of boosted trees knows its classes by numbers",
            f"give the target by numbers, as scikit-learn's interface has them in sorted order ({numbered}), or give "
            "the estimator as .skops",
        )
    raise DataError(f"the target {target.name} of {name} holds words, as {words[0]!r}, and this model predicts numbers")


def _once(flags: dict[str, str | None]) -> list[str]:
    """The columns that are named, none of them for two things."""
    named: dict[str, str] = {}
    for flag, name in flags.items():
        if name in named:
            raise InputError(f"{name!r} is both {named[name]} and {flag}; name another column for one of them")
        if name is not None:
            named[name] = flag
    return list(named)
