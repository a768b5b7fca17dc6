"""Refits in folds: copies of the model, each trained without some of the rows, which it then predicts."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.concepts import Model
from rue.data import Rows
from rue.derivatives import outputs
from rue.errors import ModelError, SettingError, ShapeError
from rue.left_out.evidence import Evidence, Own, Training
from rue.left_out.outside import can_be_witnessed, witnessed
from rue.left_out.witness import joined, witness
from rue.models import wrap
from rue.models.again import some_rows
from rue.progress import track
from rue.randomness import untouched
from rue.trees import leaves, take

COUNT = 8
TRIAL = 8  # of so many parts of the rows, one is enough to see that a training takes too long
FEWEST = 50  # rows of it

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Folds:
    """Train so many copies, each without a share of the rows; groups stay together, classes keep their shares.

    Copies of an estimator are clones with the settings it ended with; of any other model, what `refit=` trains.
    """

    count: int = COUNT

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 2:
            raise SettingError(f"count must be a whole number of folds, at least 2, got {self.count!r}")

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Leave every unit out of one copy."""
        if training is None:
            raise SettingError(
                "Folds() trains copies of the model, and nothing says how; give refit=, a function from row numbers "
                "to a model that was trained on those rows from scratch"
            )
        found = folded(model, data, self.count, seed, training, "as asked")
        assert isinstance(found, Evidence)
        return found


def folded(
    model: Model, data: Rows, count: int, seed: int, training: Training, why: str, most: float = inf
) -> Evidence | float:
    """What copies say of the rows they were not trained on, and witnesses of the same rows beside them.

    Trainings that would take more than so many seconds in all are not made: then the seconds they would take.
    """
    splits = list(_splits(model, data, count, seed))
    if isfinite(most) and (seconds := len(splits) * _trial(data, training)) > most:
        return seconds
    started = time.perf_counter()
    found = torch.empty(data.n, _outputs_of(model, data), dtype=torch.float64)
    for number, (kept, held) in enumerate(track("refits", splits, total=len(splits)), 1):
        found[torch.from_numpy(held)] = _predicted(_trained(training, data, kept), model, data, held)
        if number == 1 and (seconds := len(splits) * (time.perf_counter() - started)) > most:
            return seconds
    facts = {"trainings": len(splits), "seconds_training": time.perf_counter() - started}
    said = f"{why}; {len(splits)} copies were trained, and the model itself left as it was"
    beside = _beside(model, data, seed)
    if beside is None:
        return Evidence.of(model, data, "refits", said, found, None, facts)
    made = Evidence.of(model, data, "refits", said, found, beside.honest, {**facts, **beside.facts})
    return replace(made, beside=beside.prediction)


def _trial(data: Rows, training: Training) -> float:
    """At least the seconds of one training: those of one on a small part of the rows; infinite where that fails."""
    some = max(min(FEWEST, data.n), data.n // TRIAL)
    started = time.perf_counter()
    try:
        _trained(training, data, np.linspace(0, data.n - 1, some).astype(np.int64))
    except Exception:  # whatever a user's own code raises: it was not asked for
        return inf
    return time.perf_counter() - started


def _trained(training: Training, data: Rows, rows: Whole) -> Any:
    with untouched(), torch.enable_grad():
        made = training.again(data.ids.numpy()[rows])
    if made is None:
        raise ModelError("refit returned None, expected the trained model: the model itself, or rue.wrap(...) of it")
    return made


def _predicted(made: Any, model: Model, data: Rows, held: Whole) -> Tensor:
    """Outputs (h, k) of a copy at rows it was not trained on, in the units of the audited model's."""
    if isinstance(made, torch.nn.Module):
        copy = wrap(made, loss=getattr(model, "rule", None))
        read = torch.cat([outputs(copy, batch.inputs) for batch in data.batches()]).double().cpu()
        found = read[torch.from_numpy(held)]
    else:
        copy = made if hasattr(made, "theta") else wrap(made)
        raw = some_rows(data.source.X, data.ids.numpy()[held])
        found = outputs(copy, copy.read(raw)).double().cpu()
    if copy.response is not None:  # which may transform targets otherwise than the audited one does
        found = model.read_targets(copy.response.value(found.numpy())).reshape(found.shape)
    wanted = (len(held), _outputs_of(model, data))
    if tuple(found.shape) != wanted:
        raise ModelError(
            f"a copy predicts {tuple(found.shape)} where the audited model predicts {wanted}: it was trained on other "
            "classes or columns; give refit= a function that trains the same model, or fewer folds"
        )
    return found


def _beside(model: Model, data: Rows, seed: int) -> Evidence | None:
    """Witnesses: both of a model that grew part by part, a kernel of a network; None where there can be none."""
    if not can_be_witnessed(model):
        return None
    if model.family.outside:
        return witnessed(model, data, seed, "")
    try:
        seen = witness(model, data, seed)
    except ShapeError:  # texts that were padded batch by batch
        return None
    return Evidence.of(model, data, "witness", "", seen.prediction, seen.says, seen.facts)


def _splits(model: Model, data: Rows, count: int, seed: int) -> Iterator[tuple[Whole, Whole]]:
    """Row numbers to train on, and those left out."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    unit, grouped = data.unit.numpy(), data.units < data.n
    labels = _labels(model, data)
    if data.units < count:
        raise SettingError(f"{count} folds need as many groups or rows, and there are {data.units}; give fewer")
    groups = {"groups": unit} if grouped else {}
    if labels is None:
        plain: Any = GroupKFold if grouped else KFold
        return iter(plain(count, shuffle=True, random_state=seed).split(unit, **groups))
    rarest = int(np.bincount(labels)[np.unique(labels)].min())
    if rarest < 2:
        raise ModelError("a class has one row only: left out, no copy would know it; merge rare classes")
    kind: Any = StratifiedGroupKFold if grouped else StratifiedKFold
    return iter(kind(min(count, rarest), shuffle=True, random_state=seed).split(unit, labels, **groups))


def _labels(model: Model, data: Rows) -> Whole | None:
    """Classes (n,) to keep the shares of; None for numbers, and for several labels of a row."""
    if model.family.decision is None:
        return None
    targets = leaves(joined([batch.targets for batch in data.batches()]))[0]
    flat = targets[:, 0] if targets.dim() == 2 and targets.shape[1] == 1 else targets
    return flat.cpu().numpy().astype(np.int64) if flat.dim() == 1 else None


def _outputs_of(model: Model, data: Rows) -> int:
    return outputs(model, take(next(iter(data.batches())).inputs, slice(0, 1))).shape[1]
