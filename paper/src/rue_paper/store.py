"""Results on disk: a file appears whole or not at all, so that an interrupted run can be resumed."""

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rue.core.files import write_whole
from rue_paper.parts import Arrays


@dataclass(frozen=True)
class Store:
    """A folder of results, each named by the work that made it."""

    folder: Path

    def path(self, protocol: str, data: str, part: str, settings: str, splits: Sequence[int]) -> Path:
        """The path of the results of these consecutive splits; other settings have another path."""
        return self.folder / protocol / data / f"{part}-{splits[0]:02d}-{splits[-1]:02d}-{_mark(settings)}.npz"

    def finished(self, protocol: str, data: str, part: str, settings: str) -> dict[int, Path]:
        """The file of every finished split."""
        files: dict[int, Path] = {}
        for path in sorted((self.folder / protocol / data).glob(f"{part}-*-{_mark(settings)}.npz")):
            first, last = path.stem.split("-")[1:3]
            files |= dict.fromkeys(range(int(first), int(last) + 1), path)
        return files

    def save(self, path: Path, results: Sequence[Arrays], splits: Sequence[int], facts: dict[str, object]) -> None:
        """Write the results under another name, then rename the file."""
        arrays = {
            f"{split}/{name}": _small(value)
            for split, own in zip(splits, results, strict=True)
            for name, value in own.items()
        }
        packed = io.BytesIO()
        np.savez_compressed(packed, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type]
        write_whole({path: packed.getvalue()})

    def load(self, path: Path) -> tuple[dict[int, Arrays], dict[str, object]] | None:
        """The arrays of each split and the facts; None where there is no such file, or an unreadable one."""
        try:
            with path.open("rb") as opened, np.load(opened) as file:
                facts = json.loads(str(file["facts"]))
                arrays: dict[int, Arrays] = {}
                for key in file.files:
                    if key != "facts":
                        split, name = key.split("/", 1)
                        arrays.setdefault(int(split), {})[name] = file[key]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None
        return arrays, facts


def _mark(settings: str) -> str:
    return hashlib.sha256(settings.encode()).hexdigest()[:8]


def _small(values: np.ndarray) -> np.ndarray:
    """Results in single precision, because a run has millions of them."""
    return np.asarray(values, dtype=np.float32)
