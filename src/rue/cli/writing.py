"""Rows written as they come, in the form that was asked for; a file has its name only when all of them are in it."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from rue.cli.outcome import STREAM, in_json
from rue.cli.tables import NO_ARROW, TableForm, form_of
from rue.core.errors import DataError, InputError
from rue.core.files import written_whole

if TYPE_CHECKING:
    import pandas as pd


class RowWriter(Protocol):
    """Takes frames with the same columns, one after the other."""

    def add(self, frame: "pd.DataFrame") -> None:
        """Write its rows after those before."""
        ...

    def close(self) -> None:
        """Write what stands at the end."""
        ...


@contextmanager
def rows_written(out: str | Path, form: TableForm | None = None) -> Iterator[RowWriter]:
    """A writer to a file, whole or not at all, or to standard output."""
    if str(out) == STREAM:
        writer = _writer(cast(BinaryIO, getattr(sys.stdout, "buffer", sys.stdout)), form or "csv")
        yield writer
        writer.close()
        sys.stdout.flush()
        return
    told = form_of(Path(out), form)  # an unknown ending is refused before anything is written
    with written_whole(Path(out)) as file:
        writer = _writer(file, told)
        try:
            yield writer
        finally:
            writer.close()


def _writer(file: BinaryIO, form: TableForm) -> RowWriter:
    if form == "csv":
        return _Csv(file)
    if form == "jsonl":
        return _JsonLines(file)
    try:
        import pyarrow  # noqa: F401  asked for before rows are audited for nothing
    except ImportError as error:
        raise InputError(NO_ARROW) from error
    return _Arrow(file, form)


class _Csv:
    """Comma-separated values, numbers in all their digits."""

    def __init__(self, file: BinaryIO):
        self.file, self.begun = file, False

    def add(self, frame: "pd.DataFrame") -> None:
        text = frame.to_csv(index=False, header=not self.begun, lineterminator="\n")
        self.file.write(text.encode())
        self.begun = True

    def close(self) -> None:
        """Nothing stands at the end."""


class _JsonLines:
    """A JSON object on every line; what is missing or infinite is null."""

    def __init__(self, file: BinaryIO):
        self.file = file

    def add(self, frame: "pd.DataFrame") -> None:
        columns = [[in_json(value) for value in frame[name].tolist()] for name in frame.columns]
        names = [str(name) for name in frame.columns]
        for row in zip(*columns, strict=True):
            self.file.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False).encode() + b"\n")

    def close(self) -> None:
        """Nothing stands at the end."""


class _Arrow:
    """Parquet, or an Arrow file (to a pipe, a stream); the types are those of the first rows."""

    def __init__(self, file: BinaryIO, form: TableForm):
        self.file, self.form = file, form
        self.schema: Any = None
        self.writer: Any = None

    def add(self, frame: "pd.DataFrame") -> None:
        import pyarrow as pa

        try:
            table = pa.Table.from_pandas(frame, schema=self.schema, preserve_index=False).replace_schema_metadata()
        except pa.ArrowException as error:
            said = str(error).strip().splitlines()[0]
            raise DataError(
                f"a column that is kept has values of another type than in the first rows ({said})",
                "write CSV or JSON lines, which have no types",
            ) from error
        if self.writer is None:
            self.schema = table.schema
            self.writer = self._opened()
        self.writer.write_table(table)

    def close(self) -> None:
        """Write the footer."""
        if self.writer is not None:
            self.writer.close()

    def _opened(self) -> Any:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        if self.form == "parquet":
            return ParquetWriter(self.file, self.schema)
        return (pa.ipc.new_file if self.file.seekable() else pa.ipc.new_stream)(self.file, self.schema)
