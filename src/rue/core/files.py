"""Writes files so that a reader finds the old content or the new one, whole, whatever happens in between."""

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rue.core.errors import RueError, WriteError


def write_whole(contents: Mapping[Path, bytes]) -> None:
    """Replace files that belong together: all are on the disk under other names before the first is replaced.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_whole({Path(folder, "a"): b"new", Path(folder, "b"): b"too"})
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['a', 'b']
    """
    drafts: dict[Path, Path] = {}
    place = None
    try:
        for path, content in contents.items():
            place = path
            if _stands_elsewhere(path):
                path.write_bytes(content)
                continue
            target = _target(path)
            drafts[target] = _draft(target)
            _write(drafts[target], content)
        for target, draft in drafts.items():
            draft.replace(target)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise _unwritten(place, error) from error
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to bit by bit, which has its name only once the block has ended without an error.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with written_whole(Path(folder, "a")) as file:
    ...         _ = file.write(b"new")
    ...     Path(folder, "a").read_bytes()
    b'new'
    """
    draft = None
    try:
        try:
            target = path if _stands_elsewhere(path) else _target(path)
        except ValueError as error:  # a name that no file can have
            raise _unwritten(path, error) from error
        if target is path:
            with path.open("wb") as file:
                yield file
            return
        draft = _draft(target)
        with draft.open("xb") as file:
            yield file
            _settle(file)
        draft.replace(target)
    except OSError as error:
        if isinstance(error, RueError):  # what the block itself raised
            raise
        raise _unwritten(path, error) from error
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)


def _write(draft: Path, content: bytes) -> None:
    with draft.open("xb") as file:
        file.write(content)
        _settle(file)


def _stands_elsewhere(path: Path) -> bool:
    """Whether a name is that of a device or a pipe, which is written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _target(path: Path) -> Path:
    """Where a file goes: a link stays, what it points to is replaced."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _draft(target: Path) -> Path:
    return target.with_name(f".rue-{uuid.uuid4().hex}.part")


def _settle(file: BinaryIO) -> None:
    """Have the content on the disk before the file gets its name."""
    file.flush()
    os.fsync(file.fileno())


def _unwritten(path: Path | None, error: Exception) -> WriteError:
    reason = getattr(error, "strerror", None) or error
    return WriteError(
        f"{str(path)!r} cannot be written ({reason}); what was there before is unchanged",
        "make space, or choose another place",
    )
