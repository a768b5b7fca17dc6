"""Tables of rows in files or on standard input: CSV, Parquet, Arrow and JSON lines, whole or in parts."""

import io
import json
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast, get_args

import numpy as np

from rue.cli.csv_cells import PART, TablePart, csv_parts, csv_table, joined, refuse_twice
from rue.cli.outcome import STREAM
from rue.core.errors import DataError, InputError

if TYPE_CHECKING:
    import pandas as pd

TableForm = Literal["csv", "parquet", "arrow", "jsonl"]
"""How a table is written down."""

FORMS: dict[str, TableForm] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
EMPTY = "has no rows; give at least one below the names of the columns"
INDEX = "__index_level_"  # columns in which pandas keeps an index
ARROW_FILE = b"ARROW1"  # the first bytes of an Arrow file; a stream has none
NO_ARROW = "Parquet and Arrow are read and written by pyarrow, which is missing: pip install pyarrow, or use CSV"


@dataclass(frozen=True)
class Table:
    """A table by its path, or standard input, and its form."""

    path: Path | None  # None is standard input
    form: TableForm

    @classmethod
    def at(cls, place: str | Path, form: TableForm | None = None) -> "Table":
        """The table at a path, whose form is told by its ending, or else by `form`; "-" is standard input."""
        if str(place) == STREAM:
            return cls(None, form or "csv")
        return cls(Path(place), form_of(Path(place), form))

    @property
    def name(self) -> str:
        """For messages."""
        return "standard input" if self.path is None else str(self.path)

    def whole(self, texts: Collection[str] = ()) -> "pd.DataFrame":
        """All rows, with types told by the values; columns of `texts`, such as ids, stay as they are written."""
        import pandas as pd

        with self._read() as file:
            if self.form == "csv":
                frame = csv_table(file.read(), texts, self.name)
            else:
                frames = [part.frame for part in _parts(file, self)]
                frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
                frame = frame.assign(**{name: _as_text(frame[name]) for name in texts if name in frame})
        if frame.empty:
            raise DataError(f"{self.name} {EMPTY}")
        return frame

    def parts(self) -> Iterator[TablePart]:
        """The rows in order, `PART` at once; the cells of CSV as they are written."""
        rest: list[TablePart] = []
        empty = True
        with self._read() as file:
            for part in _parts(file, self):
                rest.append(part)
                while sum(len(each.frame) for each in rest) >= PART:
                    whole, empty = joined(rest), False
                    rest = [TablePart(whole.frame.iloc[PART:], whole.problem[PART:])]
                    yield TablePart(whole.frame.iloc[:PART].reset_index(drop=True), whole.problem[:PART])
            last = joined(rest)
            if len(last.frame):
                empty = False
                yield last
        if empty:
            raise DataError(f"{self.name} {EMPTY}")

    @property
    def rows(self) -> int | None:
        """The number of rows, where the file tells without being read."""
        if self.form != "parquet" or self.path is None:
            return None
        with self._read() as file:
            return sum(part.metadata.num_rows for part in _parquet(file, self.path))

    @contextmanager
    def _read(self) -> Iterator[BinaryIO]:
        """The file, open; errors of its reader become errors of rue."""
        try:
            if self.path is None:
                yield cast(BinaryIO, getattr(sys.stdin, "buffer", sys.stdin))
            elif self.path.is_dir() and self.form == "parquet":
                yield io.BytesIO()
            else:
                with self.path.open("rb") as file:
                    yield file
        except ImportError as error:
            raise InputError(NO_ARROW) from error
        except (OSError, ValueError) as error:  # ValueError: the content is of another form
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{self.name} cannot be read as {self.form}: {getattr(error, 'strerror', None) or error}"
            ) from error


def form_of(path: Path, form: TableForm | None = None) -> TableForm:
    """The form that the ending of a name tells, or else `form`; a folder is one of Parquet files."""
    if path.is_dir():
        return "parquet"
    told = FORMS.get(path.suffix.lower(), form)
    if told is None:
        raise InputError(
            f"{path} is no table that is known by its ending; give {', '.join(FORMS)}, or say --format "
            f"{'|'.join(get_args(TableForm))}"
        )
    return told


def whole_rows(frame: "pd.DataFrame") -> TablePart:
    """Rows of a form in which every row has every column."""
    return TablePart(frame, np.full(len(frame), "", dtype=object))


def _as_text(values: "pd.Series[Any]") -> "pd.Series[Any]":
    return values.astype(str).where(values.notna())


def _parts(file: BinaryIO, table: Table) -> Iterator[TablePart]:
    """Parts of whatever size the form has them in."""
    if table.form == "csv":
        yield from csv_parts(file, table.name)
    elif table.form == "jsonl":
        yield from map(whole_rows, _json_lines(file, table.name))
    else:
        batches = _arrow(file) if table.form == "arrow" else _of_parquet(file, table.path)
        for batch in batches:
            frame = batch.to_pandas(ignore_metadata=True)
            refuse_twice(list(frame.columns), table.name)
            yield whole_rows(frame[[name for name in frame.columns if not str(name).startswith(INDEX)]])


def _json_lines(file: BinaryIO, name: str) -> "Iterator[pd.DataFrame]":
    import pandas as pd

    numbered = enumerate(file, start=1)
    while lines := list(islice(numbered, PART)):
        rows = []
        for number, line in lines:
            if not line.strip():
                continue
            try:
                rows.append(dict(json.loads(line, object_pairs_hook=_once_each)))
            except (ValueError, TypeError) as error:
                raise DataError(
                    f"line {number} of {name} is no JSON object ({error}); give one for each row"
                ) from error
        yield pd.DataFrame.from_records(rows)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, none of whose keys stands twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _of_parquet(file: BinaryIO, path: Path | None) -> Iterator[Any]:
    for part in _parquet(file, path):
        yield from part.iter_batches(PART)


def _parquet(file: BinaryIO, path: Path | None) -> Iterator[Any]:
    """One Parquet file, or those in a folder by their names."""
    from pyarrow.parquet import ParquetFile

    if path is not None and path.is_dir():
        files = sorted(path.rglob("*.parquet"))
        if not files:
            raise InputError(f"there is no .parquet file in the folder {path}; give a table")
        for each in files:
            with ParquetFile(each, pre_buffer=False) as part:  # buffers of a file are kept until its end
                yield part
        return
    yield ParquetFile(_seekable(file), pre_buffer=False)


def _arrow(file: BinaryIO) -> Iterator[Any]:
    """Record batches of an Arrow file or stream."""
    import pyarrow as pa

    looked = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    if looked.peek(len(ARROW_FILE)).startswith(ARROW_FILE):
        whole = pa.ipc.open_file(_seekable(cast(BinaryIO, looked)))
        yield from (whole.get_batch(number) for number in range(whole.num_record_batches))
        return
    yield from pa.ipc.open_stream(looked)


def _seekable(file: BinaryIO) -> BinaryIO:
    """The file from its start; what cannot go back is copied to the disk, so that memory stays bounded."""
    if file.seekable():
        file.seek(0)
        return file
    copied = tempfile.TemporaryFile()  # noqa: SIM115  whoever reads it closes it
    while part := file.read(2**20):
        copied.write(part)
    copied.seek(0)
    return cast(BinaryIO, copied)
