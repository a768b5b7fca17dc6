"""Keeps the coordinates of training rows on the disk, so that a long fit goes on where it was stopped."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.errors import SettingError, WriteError
from rue.core.files import write_whole
from rue.core.nested import leaves

ENDING = ".rue-checkpoint"
DIGEST = 16  # bytes of a checksum, before the numbers of a part


@runtime_checkable
class Identified(Protocol):
    """A model that says what its derivatives depend on."""

    @property
    def theta(self) -> Tensor:
        """The audited parameters."""
        ...

    def predict(self, theta: Tensor, inputs: Any) -> Tensor:
        """Outputs (m, k) at these parameters."""
        ...

    def identity(self) -> Iterator[str | Tensor]:
        """Texts and numbers that differ where the derivatives of a row do."""
        ...


@contextmanager
def checkpoint(folder: str | Path) -> Iterator[None]:
    """Keep in a folder what the fits inside this block compute of large networks' training rows, until they are done.

    After a crash or Ctrl-C, the same lines run again go on where they were stopped, and give the same bits. What they
    kept is removed once the block ends; parts of other fits in the same folder stay.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, checkpoint(folder):
    ...     pass  # audit = rue.audit(net, train=..., inputs=..., loss=...)
    """
    shards = _Shards(_opened(folder))
    token = _open.set(shards)
    try:
        yield
    except KeyboardInterrupt as error:
        if shards.count():
            error.add_note(
                f"rue: {shards.count()} parts of the training rows are kept in {str(shards.folder)!r}; run the same "
                "lines again to go on there, or remove the folder"
            )
        raise
    finally:
        _open.reset(token)
    shards.remove()


def restored(kind: str, model: object, inputs: Any, make: Callable[[], Tensor]) -> Tensor:
    """What was kept of these rows, or else what `make` computes, which is then kept."""
    shards = _open.get()
    if shards is None or not isinstance(model, Identified):
        return make()
    return shards.of(kind, model, inputs, make)


@dataclass
class _Shards:
    """A folder with one file for each part of the rows."""

    folder: Path
    prints: dict[int, tuple[object, bytes]] = field(default_factory=dict)  # of models, by their id
    used: set[Path] = field(default_factory=set)  # files that were read or written

    def of(self, kind: str, model: Identified, inputs: Any, make: Callable[[], Tensor]) -> Tensor:
        found = blake2b(self._print(model), digest_size=16)
        for leaf in leaves(inputs):
            found.update(f"{tuple(leaf.shape)} {leaf.dtype}".encode())
            found.update(leaf.detach().cpu().contiguous().numpy().data)
        with torch.no_grad():  # a forward pass may have changed while no parameter has
            predicted = model.predict(model.theta, inputs)
        found.update(predicted.cpu().contiguous().numpy().data)
        path = self.folder / f"{kind}-{found.hexdigest()}.npy"
        self.used.add(path)
        try:
            stored = torch.from_numpy(_unpacked(path.read_bytes()))
        except (OSError, ValueError, EOFError):  # not there yet, or damaged
            made = make()
            write_whole({path: _packed(made)})
            return made
        device = next((leaf.device for leaf in leaves(inputs)), stored.device)
        return stored.to(device, copy=True)  # in memory of torch's own: products round by how numbers lie in it

    def count(self) -> int:
        """The number of parts whose Jacobians are kept."""
        return sum(path.name.startswith("Jacobian-") and path.exists() for path in self.used)

    def remove(self) -> None:
        """Remove the parts of these fits, and the folder where nothing else is in it."""
        with suppress(OSError):
            for path in self.used:
                path.unlink(missing_ok=True)
            self.folder.rmdir()

    def _print(self, model: Identified) -> bytes:
        if id(model) not in self.prints:
            found = blake2b(digest_size=16)
            for part in model.identity():
                found.update(part.encode() if isinstance(part, str) else part.detach().cpu().contiguous().numpy().data)
            self.prints[id(model)] = (model, found.digest())  # the model is held, so that its id stays its own
        return self.prints[id(model)][1]


def _opened(folder: str | Path) -> Path:
    """The folder of our own inside the given one, which is made where it is missing."""
    if not isinstance(folder, str | Path) or folder == "":
        raise SettingError(f"checkpoint takes the path of a folder, got {folder!r}")
    own = Path(folder) / ENDING
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            f"{str(folder)!r} is no folder that can be written to ({error.strerror})", "give another path"
        ) from error
    return own


def _packed(made: Tensor) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, made.detach().cpu().numpy())
    return _checksum(buffer.getvalue()) + buffer.getvalue()


def _unpacked(content: bytes) -> NDArray[Any]:
    if _checksum(content[DIGEST:]) != content[:DIGEST]:
        raise ValueError("damaged")
    return np.asarray(np.lib.format.read_array(io.BytesIO(content[DIGEST:])))  # no archive, which would stay open


def _checksum(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST).digest()


_open: ContextVar[_Shards | None] = ContextVar("rue_checkpoint", default=None)
