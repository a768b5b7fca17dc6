"""Tables of rows in files or on standard input: CSV, Parquet, Arrow and JSON lines, whole or in parts."""

import io
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast, get_args

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
PART = 16_384  # rows at once: a whole number of the batches that an audit is made in, so that parts change no bits
STREAM = "-"  # in the place of a path: standard input or output
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
        """The table at a path, whose form is told by its ending, or "-"."""
        if str(place) == STREAM:
            return cls(None, form or "csv")
        return cls(Path(place), form or form_of(Path(place)))

    @property
    def name(self) -> str:
        """For messages."""
        return "standard input" if self.path is None else str(self.path)

    def whole(self, texts: tuple[str, ...] = ()) -> "pd.DataFrame":
        """All rows, with types told by the values; columns of `texts`, such as ids, stay as they are written."""
        import pandas as pd

        with self._read() as file:
            if self.form == "csv":
                frame = _csv(file.read(), texts)
            else:
                frames = list(_parts(file, self))
                frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
                frame = frame.astype({name: str for name in texts if name in frame})
        if frame.empty:
            raise DataError(f"{self.name} has no rows; give at least one below the names of the columns")
        return frame

    def parts(self) -> "Iterator[pd.DataFrame]":
        """The rows in order, `PART` at once; the cells of CSV as they are written."""
        import pandas as pd

        rest: list[Any] = []
        empty = True
        with self._read() as file:
            for frame in _parts(file, self):
                rest.append(frame)
                while sum(map(len, rest)) >= PART:
                    joined = rest[0] if len(rest) == 1 else pd.concat(rest, ignore_index=True)
                    empty, rest = False, [joined.iloc[PART:]] if len(joined) > PART else []
                    yield joined.iloc[:PART].reset_index(drop=True)
            if any(map(len, rest)):
                empty = False
                yield pd.concat(rest, ignore_index=True)
        if empty:
            raise DataError(f"{self.name} has no rows; give at least one below the names of the columns")

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


def form_of(path: Path) -> TableForm:
    """The form that the ending of a name tells; a folder is one of Parquet files."""
    if path.is_dir():
        return "parquet"
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise InputError(
            f"{path} is no table that is known by its ending; give {', '.join(FORMS)}, or say --format "
            f"{'|'.join(get_args(TableForm))}"
        )
    return form


def _csv(content: bytes, texts: tuple[str, ...]) -> "pd.DataFrame":
    """A table of CSV; in columns of text only empty cells are missing, because NA may be a category there."""
    import pandas as pd

    frame = pd.read_csv(io.BytesIO(content), dtype=dict.fromkeys(texts, str), index_col=False)
    words = [name for name in frame.columns if frame[name].dtype.kind not in "fiub" and frame[name].isna().any()]
    if not words:
        return frame
    again = pd.read_csv(
        io.BytesIO(content), usecols=words, dtype=str, keep_default_na=False, na_values=[""], index_col=False
    )
    return frame.assign(**{name: again[name] for name in words})


def _parts(file: BinaryIO, table: Table) -> "Iterator[pd.DataFrame]":
    """Frames of whatever size the form has them in."""
    if table.form == "csv":
        import pandas as pd

        yield from pd.read_csv(file, dtype=str, keep_default_na=False, index_col=False, chunksize=PART)
    elif table.form == "jsonl":
        yield from _json_lines(file, table.name)
    else:
        batches = _arrow(file) if table.form == "arrow" else _of_parquet(file, table.path)
        for batch in batches:
            frame = batch.to_pandas(ignore_metadata=True)
            yield frame[[name for name in frame.columns if not str(name).startswith(INDEX)]]


def _json_lines(file: BinaryIO, name: str) -> "Iterator[pd.DataFrame]":
    import pandas as pd

    numbered = enumerate(file, start=1)
    while lines := list(islice(numbered, PART)):
        rows = []
        for number, line in lines:
            if not line.strip():
                continue
            try:
                rows.append(dict(json.loads(line)))
            except (ValueError, TypeError) as error:
                raise DataError(
                    f"line {number} of {name} is no JSON object ({error}); give one for each row"
                ) from error
        yield pd.DataFrame.from_records(rows)


def _of_parquet(file: BinaryIO, path: Path | None) -> Iterator[Any]:
    for part in _parquet(file, path):
        yield from part.iter_batches(PART)


def _parquet(file: BinaryIO, path: Path | None) -> Iterator[Any]:
    """One Parquet file, or those in a folder by their names."""
    from pyarrow.parquet import ParquetFile

    if path is not None and path.is_dir():
        for each in sorted(path.rglob("*.parquet")):
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
