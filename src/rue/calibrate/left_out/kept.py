"""Stores left-out predictions of copies on disk, so that an interrupted run trains only the missing copies."""

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
from rue.core.files import write_whole
from rue.core.model import Model
from rue.core.nested import leaves
from rue.data.rows import Rows


@dataclass(frozen=True)
class Kept:
    """A folder, and a hash that identifies the model, the rows and the folds of one audit in it."""

    folder: Path
    mark: str

    @classmethod
    def of(cls, folder: str | os.PathLike[str], model: Model, data: Rows, held: Sequence[NDArray[np.int64]]) -> "Kept":
        """Hash the model's outputs, the targets and weights of the rows, and the folds."""
        digest = hashlib.sha256(data.weight.numpy().tobytes())
        for batch in data.batches():
            for part in (outputs(model, batch.inputs), *leaves(batch.targets)):
                digest.update(part.detach().cpu().contiguous().numpy().tobytes())
        for rows in held:
            digest.update(np.asarray(rows, dtype=np.int64).tobytes() + b"|")
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(
                f"keep={str(folder)!r} is no folder that can be written to ({error.strerror}); give another path"
            ) from error
        return cls(place, digest.hexdigest()[:16])

    def read(self, number: int, shape: tuple[int, int]) -> Tensor | None:
        """Outputs (h, k) of a copy for the rows it was not trained on; None if they are missing or incomplete."""
        try:
            stored = self._path(number).read_bytes()
        except OSError:
            return None
        if len(stored) != 8 * shape[0] * shape[1]:
            return None
        predicted = np.frombuffer(stored, dtype="<f8").reshape(shape).copy()
        return torch.from_numpy(predicted) if bool(np.isfinite(predicted).all()) else None

    def write(self, number: int, predicted: Tensor) -> None:
        """Write outputs to a temporary file and rename it, so that a file is complete or absent."""
        write_whole({self._path(number): predicted.numpy().astype("<f8").tobytes()})

    def _path(self, number: int) -> Path:
        return self.folder / f"refit-{self.mark}-{number}.f64"
