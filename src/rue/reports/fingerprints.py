"""SHA-256 fingerprints of the parts of an audit: the weights, the training rows, the audited rows."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.core.derivatives import outputs
from rue.core.model import Model
from rue.core.nested import leaves
from rue.data.opening import input_batches
from rue.data.rows import Rows


def weights(model: Model, settings: str = "") -> str:
    """The hash of all parameters with their names, fixed ones too, in little-endian float64; of trees, of their leaves.

    `settings` are those of a method that trained its own networks with them.
    """
    fingerprint = sha256(settings.encode())
    for part in model.core.contents():
        fingerprint.update(part.encode() if isinstance(part, str) else _exact(part))
    return fingerprint.hexdigest()


def predictions(model: Model, data: Rows) -> str:
    """The hash of a model's predictions for its training rows, for models without known parameters."""
    hashed = sha256()
    for batch in data.batches():
        hashed.update(_exact(outputs(model, batch.inputs)))
    return hashed.hexdigest()


def training(data: Rows) -> str:
    """The hash of every row's inputs, target, weight and unit; it does not depend on the batches."""
    parts = ([*leaves(batch.inputs), *leaves(batch.targets)] for batch in data.batches())
    return _together(_by_leaf(parts), [data.weight, data.unit])


def audited(inputs: Any, targets: Any, model: Model) -> str:
    """The hash of the audited rows and, if known, their targets."""
    read = _by_leaf(leaves(batch) for batch in input_batches(inputs, model))
    return _together(read, [] if targets is None else leaves(model.read_targets(targets)))


def _by_leaf(batches: Iterable[list[Tensor]]) -> list[Any]:
    """One hash for each part of the inputs, so that the ends of batches do not matter."""
    hashes: list[Any] = []
    for batch in batches:
        hashes = hashes or [sha256(str(part.shape[1:]).encode()) for part in batch]
        for hashed, part in zip(hashes, batch, strict=True):
            hashed.update(_exact(part))
    return hashes


def _together(parts: list[Any], more: list[Tensor]) -> str:
    hashed = sha256(b"".join(part.digest() for part in parts))
    for values in more:
        hashed.update(_exact(values))
    return hashed.hexdigest()


def _exact(values: Tensor) -> bytes:
    held = values.detach().cpu()
    kind, wanted = ("<f8", torch.float64) if held.is_floating_point() else ("<i8", torch.int64)
    return np.ascontiguousarray(held.to(wanted).numpy(), dtype=kind).tobytes()
