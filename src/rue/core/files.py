"""Writes files so that a reader finds the old content or the new one, whole, whatever happens in between."""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from rue.core.errors import WriteError


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
            target = Path(os.path.realpath(path))  # a link stays, what it points to is replaced
            if target.is_dir():
                raise IsADirectoryError(None, "it is a folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            drafts[target] = target.with_name(f".rue-{uuid.uuid4().hex}.part")
            _write(drafts[target], content)
        for target, draft in drafts.items():
            draft.replace(target)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise WriteError(
            f"{str(place)!r} cannot be written ({reason}); what was there before is unchanged",
            "make space, or choose another place",
        ) from error
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def _write(draft: Path, content: bytes) -> None:
    with draft.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
