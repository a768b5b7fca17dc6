"""Is it still the model that was fitted, and are held-out rows neither in use already nor there several times?"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from rue.checks.check import Check
from rue.checks.duplicates import rows_met_again, share_repeated
from rue.checks.subject import Audited
from rue.core.arrays import Array
from rue.core.concepts import Inputs
from rue.core.derivatives import outputs
from rue.core.errors import DataError, ModelError
from rue.core.model import Model
from rue.core.nested import leaves
from rue.data.opening import input_batches
from rue.data.rows import Rows

LOOKED_AT = 2  # training rows that a model is asked for again in every audit, where only its predictions are known


def refuse_another_model(model: Model, data: Rows) -> None:
    """Raise if a model that is known by its predictions says other things of training rows than it did."""
    X = data.source.X
    if X is None or model.family.gradients or model.estimator is None or isinstance(X, list | tuple):
        return
    now = outputs(model, model.read(X.iloc[:LOOKED_AT] if hasattr(X, "iloc") else X[:LOOKED_AT]))
    before = outputs(model, next(data.batches()).inputs)[:LOOKED_AT]
    if now.shape != before.shape or not torch.allclose(now, before, 1e-4, 1e-6):
        raise ModelError(
            "the model does not predict its training rows as it did when the audit was fitted: it was fitted again "
            "or changed since, so that all evidence is of another model; fit the audit again"
        )


def refuse_rows_in_use(model: Model, data: Rows, stopped_by: Any, X: Any, y: Any) -> None:
    """Raise if more of these rows were trained on, or stopped training, than chance explains."""
    for text in in_use(model, data, stopped_by, X, y):
        raise DataError(text)


def in_use(model: Model, data: Rows, stopped_by: Any, X: Any, y: Any = None) -> Iterator[str]:
    """A sentence for training rows, and one for validation rows, if more of them are there than chance explains.

    Targets y, where they are known, tell copies that were rounded from rows that are near by chance.
    """
    held = Audited.of(X)
    earlier: dict[str, Iterable[Inputs]] = {"training": (batch.inputs for batch in data.batches())}
    if stopped_by is not None:
        earlier["validation"] = input_batches(stopped_by, model)
    for called, rows in earlier.items():
        targets = (
            None
            if y is None or called != "training"
            else (_trained(data), _numbers(model.read_targets(_plain(model, y))))
        )
        found = rows_met_again(held, rows, model, called, targets)
        if isinstance(found, Check) and found.light == "red":
            first = f", the first being row {found.rows[0]}" if found.rows else ", rounded"
            yield (
                f"{found.value:.0%} of the held-out rows have the features of a {called} row{first}: rows that the "
                "model or its audit was made with guarantee nothing about new ones; hold other rows out"
            )


def _trained(data: Rows) -> Array:
    return np.concatenate([_numbers(batch.targets) for batch in data.batches()])


def _plain(model: Model, y: Any) -> Any:
    """Numbers that are written as text as numbers, for a model that predicts numbers; anything else as it is."""
    if model.family.decision is not None or getattr(getattr(y, "dtype", None), "kind", "") not in ("U", "S", "O"):
        return y
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):  # words, which are refused where targets are read
        return y


def _numbers(targets: Any) -> Array:
    """All parts of the targets side by side (n, q)."""
    parts = [leaf.detach().cpu().double().reshape(len(leaf), -1).numpy() for leaf in leaves(targets)]
    return np.concatenate(parts, axis=1)


def repeated(model: Model, data: Rows, X: Any) -> tuple[str, ...]:
    """A warning where held-out rows are there several times: each would count as a row of its own."""
    share = share_repeated(Audited.of(X), (batch.inputs for batch in data.batches()), model)
    if not share:
        return ()
    return (
        f"{share:.0%} of the held-out rows equal another one of them: each counts as a row of its own, so that "
        "intervals and thresholds promise more than they hold; take the copies out, or hold other rows out",
    )
