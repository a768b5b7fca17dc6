"""Left-out predictions of copies on disk, so that a run that was cut off trains only what is missing."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.derivatives import outputs
from rue.core.errors import SettingError
from rue.core.model import Model
from rue.core.nested import leaves
from rue.data.rows import Rows


@dataclass(frozen=True)
class Kept:
    """A folder, and the mark of one audit's folds in it: other rows, models or folds have other marks."""

    folder: Path
    mark: str

    @classmethod
    def of(cls, folder: str | os.PathLike[str], model: Model, data: Rows, held: Sequence[NDArray[np.int64]]) -> "Kept":
        """By what the model says of the rows, their targets and weights, and how they are cut."""
        found = hashlib.sha256(data.weight.numpy().tobytes())
        for batch in data.batches():
            for part in (outputs(model, batch.inputs), *leaves(batch.targets)):
                found.update(part.detach().cpu().contiguous().numpy().tobytes())
        for rows in held:
            found.update(np.asarray(rows, dtype=np.int64).tobytes() + b"|")
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(
                f"keep={str(folder)!r} is no folder that can be written to ({error.strerror})"
            ) from error
        return cls(place, found.hexdigest()[:16])

    def read(self, number: int, shape: tuple[int, int]) -> Tensor | None:
        """Outputs (h, k) of a copy at the rows it was not trained on; None where they are not there, or not whole."""
        try:
            stored = self._path(number).read_bytes()
        except OSError:
            return None
        if len(stored) != 8 * shape[0] * shape[1]:
            return None
        found = np.frombuffer(stored, dtype="<f8").reshape(shape).copy()
        return torch.from_numpy(found) if bool(np.isfinite(found).all()) else None

    def write(self, number: int, found: Tensor) -> None:
        """Whole or not at all."""
        path = self._path(number)
        started = path.with_suffix(f".{os.getpid()}.part")
        started.write_bytes(found.numpy().astype("<f8").tobytes())
        started.replace(path)

    def _path(self, number: int) -> Path:
        return self.folder / f"refit-{self.mark}-{number}.f64"
