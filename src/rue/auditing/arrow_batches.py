"""A stored audit as a function from Arrow record batches to Arrow record batches, for engines that hand them out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rue.auditing.said import said
from rue.auditing.storage import load
from rue.core.errors import DataError, ModelError, SettingError
from rue.core.model import Model
from rue.core.settings import check_level

if TYPE_CHECKING:
    import pyarrow as pa

    from rue.auditing.auditor import Auditor


@dataclass(frozen=True)
class AuditedBatches:
    """Made by `rue.batches`."""

    path: str
    model: Model = field(repr=False)
    keep: tuple[str, ...] = ()
    level: float | None = 0.9

    @cached_property
    def auditor(self) -> "Auditor":
        """The audit in the file, read when it is first needed."""
        return load(self.path, self.model)

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: the audit itself does not."""
        return {name: value for name, value in vars(self).items() if name != "auditor"}

    def __call__(self, rows: Any) -> Any:
        """The audit of a record batch or table as one; of an iterable of record batches, an iterator of them."""
        import pyarrow as pa

        if isinstance(rows, pa.Table):
            return pa.Table.from_batches([self._audited(rows)])
        if isinstance(rows, pa.RecordBatch):
            return self._audited(rows)
        if not isinstance(rows, Iterable):
            raise DataError(
                f"got a {type(rows).__name__}, expected a pyarrow RecordBatch, a Table or an iterable of batches"
            )
        return self._each(rows)

    def schema(self, few: "pa.RecordBatch | pa.Table") -> "pa.Schema":
        """The columns that come back, from a few rows: what engines want to know before they begin."""
        return self._audited(few).schema

    def _each(self, rows: Iterable[Any]) -> "Iterator[pa.RecordBatch]":
        return (self._audited(batch) for batch in rows if batch.num_rows)

    def _audited(self, rows: Any) -> "pa.RecordBatch":
        import pyarrow as pa

        missing = [name for name in self.keep if name not in rows.schema.names]
        if missing:
            raise DataError(f"keep names {', '.join(missing)}, and the columns are {', '.join(rows.schema.names)}")
        kept = {name: _whole(rows.column(name)) for name in self.keep}
        columns, _ = said(self.auditor.audit(self._inputs(rows)), self.level)
        return pa.RecordBatch.from_pydict({**kept, **{name: pa.array(values) for name, values in columns.items()}})

    def _inputs(self, rows: Any) -> Any:
        """The rows as the model takes them: a frame where it knows its columns by name, else an array."""
        names = [name for name in rows.schema.names if name not in self.keep]
        schema = self.auditor.model.schema
        if schema is not None and set(schema.names) & set(names):
            return rows.select(names).to_pandas()
        columns = [_whole(rows.column(name)).to_numpy(zero_copy_only=False) for name in names]
        try:
            return np.column_stack(columns).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"a column is no number ({error}), and the model was trained on an array: name columns that are not "
                "for the model in keep=, or train on a data frame"
            ) from error


def batches(path: str | Path, model: Model, *, keep: tuple[str, ...] = (), level: float | None = 0.9) -> AuditedBatches:
    """A stored audit for engines: from Arrow record batches of rows to record batches of what the audit says of them.

    Hand the result to whatever maps batches (Spark's `mapInArrow`, Ray's `map_batches`, Polars, DuckDB). It travels as
    the path and the model, and reads the file once in every process. Columns in `keep`, as an id, go through unchanged
    and are not shown to the model; `level` is that of the intervals, None for none.

    >>> import rue, tempfile, torch
    >>> X, y = torch.eye(2).repeat(3, 1), torch.arange(6.0)
    >>> model = rue.wrap(torch.nn.Linear(2, 1), loss="squared_error", l2=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rue.LinearRUE().fit(model, (X, y)).save(f"{folder}/a.rue")
    ...     batches(f"{folder}/a.rue", model, keep=("id",)).auditor.method
    'LinearRUE'
    """
    if not isinstance(model, Model):
        raise ModelError('rue.batches takes a wrapped model; use rue.wrap(net, loss="squared_error", l2=...)')
    if isinstance(keep, str) or not all(isinstance(name, str) for name in keep):
        raise SettingError(f"keep must be a tuple of names of columns, got {keep!r}")
    if level is not None:
        check_level("level", level)
    return AuditedBatches(str(path), model, tuple(keep), level)


def _whole(column: Any) -> Any:
    """A column in one piece; that of a table may be in several."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
