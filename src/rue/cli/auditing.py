"""`rue audit`: the rows of a table in order, in bounded memory, with what the audit says of each."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rue.auditing.auditor import Auditor
from rue.auditing.result import Audit
from rue.auditing.said import said
from rue.cli.csv_cells import TablePart
from rue.cli.fitting import inputs
from rue.cli.tables import Table
from rue.core.errors import DataError, InputError, NumericalError, RueWarning
from rue.core.progress import quiet, track
from rue.policy import Policy
from rue.policy.decision import TIERS
from rue.reports.phrases import listing

if TYPE_CHECKING:
    import pandas as pd

BadRow = Literal["refuse", "mark"]
"""What becomes of a row that cannot be audited: it stops the audit, or is written with the reason beside it."""

ROW, PROBLEM, TIER = "row", "problem", "tier"
WORST = 20  # rows that are kept to be shown
FIRST = ("prediction", "label", "tier", "lower", "upper", "total_std", "score", "std")  # what people look at first


@dataclass
class Tally:
    """What is said of all rows together; it grows as they are audited."""

    read: int = 0  # rows so far
    rows: int = 0  # and those that were written
    marked: int = 0  # rows that could not be audited
    scarce: int = 0
    tiers: Counter[str] = field(default_factory=Counter)
    guarantee: str = ""  # of the intervals
    warned: dict[str, None] = field(default_factory=dict)  # in the order in which they came
    worst: "pd.DataFrame | None" = None  # the rows with the highest scores

    @property
    def share_refused(self) -> float:
        """Refused rows and those that could not be audited, among all."""
        return self.tiers["refuse"] / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class RowsAudit:
    """An audit of a table, part by part."""

    auditor: Auditor
    table: Table
    identity: str | None = None
    target: str | None = None
    keep: tuple[str, ...] = ()
    policy: Policy | None = None
    level: float | None = 0.9
    on_bad_row: BadRow = "refuse"
    tally: Tally = field(default_factory=Tally)

    def parts(self) -> "Iterator[pd.DataFrame]":
        """Frames of the rows in order, all with the same columns."""
        waiting: list[tuple[pd.DataFrame, NDArray[np.object_]]] = []  # before the first row that could be audited
        columns: pd.DataFrame | None = None
        for part in track("audit", self.table.parts(), self.table.rows, lambda part: len(part.frame)):
            head, audited, problem = self._part(part)
            if audited is None and columns is None:
                waiting.append((head, problem))
                continue
            if columns is None and audited is not None:
                columns = audited.iloc[:0]
                yield from (self._joined(early, columns, each) for early, each in waiting)
            assert columns is not None
            yield self._joined(head, columns if audited is None else audited, problem)
        if columns is None:
            raise DataError(
                f"no row of {self.table.name} can be audited, the first because {waiting[0][1][0]}; give rows like "
                "those of training"
            )

    def _part(self, part: TablePart) -> "tuple[pd.DataFrame, pd.DataFrame | None, NDArray[np.object_]]":
        """Who the rows are, what is said of those that could be audited, and why the others could not."""
        head = self._head(part.frame)
        frame, problem = inputs(part, self.auditor, self.table.name, self._aside)
        with warnings.catch_warnings(record=True) as caught, quiet():
            warnings.simplefilter("always", RueWarning)
            audit, problem = self._audit(frame, problem)
        self.tally.warned.update({str(each.message): None for each in caught})
        self.tally.read += len(head)
        return head, None if audit is None else self._columns(audit), problem

    @property
    def _aside(self) -> set[str]:
        return {name for name in (self.identity, self.target, *self.keep) if name is not None}

    def _head(self, raw: "pd.DataFrame") -> "pd.DataFrame":
        """The id or the number of every row, and the columns that are kept."""
        import pandas as pd

        absent = [name for name in (self.identity, *self.keep) if name is not None and name not in raw]
        if absent:
            names = listing([str(name) for name in raw.columns])
            raise DataError(f"{self.table.name} has no column {listing(absent)}; its columns are {names}")
        first = self.tally.read
        numbers = pd.Series(np.arange(first, first + len(raw)))
        own = [name for name in (self.identity, *self.keep) if name is not None]
        kept = {name: raw[name].reset_index(drop=True) for name in dict.fromkeys(own)}
        texts = {name: values.astype("str") for name, values in kept.items() if values.dtype == object}
        return pd.DataFrame({**({ROW: numbers} if self.identity is None else {}), **kept, **texts})

    def _audit(self, frame: Any, problem: NDArray[np.object_]) -> tuple[Audit | None, NDArray[np.object_]]:
        """The audit of the rows that can be audited, and why the others cannot."""
        self._refuse(problem)
        good = np.flatnonzero(problem == "")
        try:
            return (self.auditor.audit(_some(frame, good)) if len(good) else None), problem
        except (InputError, NumericalError):
            for attempt in (self.auditor.predict, self.auditor.audit):  # the cheap one finds nearly all
                self._find(frame, np.flatnonzero(problem == ""), problem, attempt)
        self._refuse(problem)
        good = np.flatnonzero(problem == "")
        return (self.auditor.audit(_some(frame, good)) if len(good) else None), problem

    def _find(
        self, frame: Any, rows: NDArray[np.int64], problem: NDArray[np.object_], attempt: Callable[[Any], Any]
    ) -> None:
        """Say of the rows that an attempt fails for why, by halves; the first is enough where it stops the audit."""
        if not len(rows) or (self.on_bad_row == "refuse" and problem.any()):
            return
        try:
            attempt(_some(frame, rows))
        except (InputError, NumericalError) as error:
            if len(rows) == 1:
                problem[rows[0]] = error.finding
                return
            for half in np.array_split(rows, 2):
                self._find(frame, half, problem, attempt)

    def _refuse(self, problem: NDArray[np.object_]) -> None:
        """Stop at the first row that cannot be audited, unless it is to be marked."""
        bad = np.flatnonzero(problem != "")
        if len(bad) and self.on_bad_row == "refuse":
            raise DataError(
                f"row {self.tally.read + bad[0]} of {self.table.name} (the first is 0) cannot be audited: "
                f"{problem[bad[0]]}",
                "mend it, or say --on-bad-row mark to have such rows written with the reason",
            )

    def _columns(self, audit: Audit) -> "pd.DataFrame":
        """What is said of audited rows, what people look at first at the left."""
        import pandas as pd

        values, guarantee = said(audit, self.level)
        if self.policy is not None:
            values[TIER] = self.policy.decide(audit).tier
        self.tally.guarantee = guarantee or self.tally.guarantee
        order = sorted(values, key=lambda name: FIRST.index(_base(name)) if _base(name) in FIRST else len(FIRST))
        return pd.DataFrame({name: values[name] for name in order})

    def _joined(self, head: "pd.DataFrame", audited: "pd.DataFrame", problem: NDArray[np.object_]) -> "pd.DataFrame":
        """All rows of a part, those that could not be audited without numbers; and the tally."""
        import pandas as pd

        good = np.flatnonzero(problem == "")
        said_of = audited.set_axis(good[: len(audited)]).reindex(range(len(head)))
        plain = {name: _nullable(said_of[name], audited[name].dtype) for name in audited.columns}
        if TIER in plain:
            plain[TIER] = plain[TIER].where(pd.Series(problem == ""), "refuse")
        frame = pd.DataFrame({**_renamed(head, plain), **plain})
        if self.on_bad_row == "mark":
            frame[PROBLEM] = pd.array([text or None for text in problem], dtype="str")
        self._count(frame, problem)
        return frame

    def _count(self, frame: "pd.DataFrame", problem: NDArray[np.object_]) -> None:
        import pandas as pd

        tally = self.tally
        tally.rows += len(frame)
        tally.marked += int((problem != "").sum())
        tally.scarce += int(frame["scarce"].fillna(False).sum()) if "scarce" in frame else 0
        if TIER in frame:
            tally.tiers.update({tier: int((frame[TIER] == tier).sum()) for tier in TIERS})
        worst = frame.nlargest(WORST, "score")
        tally.worst = worst if tally.worst is None else pd.concat([tally.worst, worst]).nlargest(WORST, "score")


def _some(frame: Any, rows: NDArray[np.int64]) -> Any:
    if len(rows) == len(frame):
        return frame
    return frame.iloc[rows].reset_index(drop=True) if hasattr(frame, "iloc") else frame[rows]


def _base(name: str) -> str:
    """The name of a column without the number of its output."""
    return name.rstrip("0123456789").rstrip("_")


def _nullable(values: "pd.Series[Any]", dtype: Any) -> "pd.Series[Any]":
    """Values in a type that has room for rows without any, the same in every part."""
    kind: Any = {"b": "boolean", "i": "Int64", "u": "Int64", "f": "float64"}.get(dtype.kind, "str")
    return values.astype(kind)


def _renamed(head: "pd.DataFrame", audited: dict[str, Any]) -> dict[str, Any]:
    """The user's own columns; one that is called as a column of the audit, or as another, gets an underscore."""
    named: dict[str, Any] = {}
    for name in head.columns:
        free = str(name)
        while free in audited or free in named or free == PROBLEM:
            free += "_"
        named[free] = head[name]
    return named
