"""How many rows are audited at once, so that their Jacobians and covariances fit in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from rue.core.chunks import chunk_rows, rows_between_readings, rows_of
from rue.core.concepts import Inputs, Objective
from rue.core.derivatives import outputs
from rue.core.errors import ModelError
from rue.core.nested import leaves, take

COVARIANCES = 4  # matrices (k, k) of an audited row that are in memory at once
FOLLOWED = 16  # outputs of a row whose Jacobians are in memory at once, where not all are followed


def input_chunks(model: Objective, inputs: Inputs) -> Iterator[Inputs]:
    """Cut a batch of inputs so that its Jacobian fits in memory."""
    count = len(leaves(inputs)[0])
    # two rows, because some models drop the axis of a single row; one row alone is never cut
    size = _at_once(model, outputs(model, take(inputs, slice(0, 2))).shape[1]) if count > 1 else 1
    for a in range(0, count, size):
        yield take(inputs, slice(a, a + size))


@contextmanager
def taken(inputs: Inputs) -> Iterator[None]:
    """Say which inputs a model could not take."""
    try:
        yield
    except (RuntimeError, TypeError, IndexError) as error:
        found = ", ".join(str(tuple(leaf.shape)) for leaf in leaves(inputs))
        raise ModelError(
            f"the model could not take inputs of shape {found}: {error}; give inputs as in training"
        ) from error


def _at_once(model: Objective, k: int) -> int:
    d, device = model.theta.numel(), model.theta.device
    if model.family.turned:
        return rows_between_readings(k * d, device)
    if not model.family.straight or model.few_outputs is None:  # only sketches follow few outputs
        return chunk_rows(model, k)
    return rows_of(max(min(k, FOLLOWED) * d, COVARIANCES * k**2), device)
