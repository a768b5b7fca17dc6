"""How many rows are processed at once, so that derivatives of them fit in memory."""

from collections.abc import Iterator

import torch

from rue.core.concepts import Batch, Parametrised, Reader, TrainingSet
from rue.core.memory import free_bytes
from rue.core.nested import take

CHUNK_BYTES = 2**24  # of Jacobian rows held at once, so that they stay in the processor's cache
CUDA_CHUNK_BYTES = 2**28  # the same on a GPU, which is faster with larger pieces
CUDA_MOST_BYTES = 2**30  # up to this size where it is so small a part of the free memory
CUDA_SHARE = 1 / 64
REREAD_SHARE = 1 / 64  # of the free memory, where training rows are read again for every chunk: few, large chunks
WIDE_ROW_BYTES = 2**20  # from this size on, a row of the Jacobian does not fit the cache,
WIDE_CHUNK_BYTES = 2**26  # and larger chunks cost less per row


def chunk_rows(model: Parametrised, vectors: int) -> int:
    """How many rows to process at once, if each needs this many vectors of d float64 numbers."""
    return rows_of(vectors * model.theta.numel(), model.theta.device)


def rows_of(numbers: int, device: torch.device) -> int:
    """How many rows of so many float64 numbers to process at once."""
    row = max(1, 8 * numbers)
    if device.type != "cpu":
        most = max(CUDA_CHUNK_BYTES, min(CUDA_MOST_BYTES, int(CUDA_SHARE * free_bytes(device))))
        return max(1, most // row)
    return max(1, (CHUNK_BYTES if row < WIDE_ROW_BYTES else WIDE_CHUNK_BYTES) // row)


def rows_between_readings(numbers: int, device: torch.device) -> int:
    """The same where all training rows are read again for each of these chunks."""
    return max(rows_of(numbers, device), int(REREAD_SHARE * free_bytes(device)) // max(1, 8 * numbers))


def inputs_of(data: TrainingSet) -> Reader:
    """Reads the inputs of all training rows."""
    return lambda: (batch.inputs for batch in data.batches())


def chunks(batch: Batch, size: int) -> Iterator[Batch]:
    """Cut a batch into parts of at most `size` rows."""
    length = batch.rows.stop - batch.rows.start
    for a in range(0, length, size):
        part = slice(a, min(a + size, length))
        rows = slice(batch.rows.start + part.start, batch.rows.start + part.stop)
        yield Batch(take(batch.inputs, part), take(batch.targets, part), batch.weight[part], rows)
