"""Refits in folds: copies of the model, each trained without some of the rows, which it then predicts."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.calibrate.left_out.evidence import Evidence, Own, Training
from rue.calibrate.left_out.kept import Kept
from rue.calibrate.left_out.outside import can_be_witnessed, witnessed
from rue.calibrate.left_out.refits import Refits, as_copy, said
from rue.calibrate.left_out.splits import forward, splits
from rue.calibrate.left_out.witness import witness
from rue.core.arrays import Whole
from rue.core.derivatives import outputs
from rue.core.errors import ModelError, SettingError, ShapeError
from rue.core.model import Model
from rue.core.progress import track
from rue.core.randomness import untouched
from rue.data.rows import Rows
from rue.models.again import some_rows

COUNT = 8
TRIAL = 8  # of so many parts of the rows, one is enough to see that a training takes too long
FEWEST = 50  # rows of it
MANY = 0.5  # different outputs for each row, which copies do not repeat by chance


@dataclass(frozen=True)
class Folds:
    """Train so many copies, each without a share of the rows; groups stay together, classes keep their shares.

    Copies of an estimator are clones with the settings it ended with; of any other model, what `refit=` trains.
    With an `order`, a time for each row, every block of rows is left to a copy of all rows before it. `jobs` copies
    are trained at once, as many as `joblib.parallel_config` says unless told. What copies said of their rows is kept
    in the folder `keep`, and copies found there are not trained again.
    """

    count: int = COUNT
    order: Any = field(default=None, repr=False, compare=False)
    jobs: int | None = None
    keep: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.count, int | np.integer) or isinstance(self.count, bool) or self.count < 2:
            raise SettingError(f"count must be a whole number of folds, at least 2, got {self.count!r}")
        if self.jobs is not None and (not isinstance(self.jobs, int) or isinstance(self.jobs, bool) or self.jobs == 0):
            raise SettingError(f"jobs must be a whole number of trainings at once, or None, got {self.jobs!r}")
        if self.keep is not None and not isinstance(self.keep, str | os.PathLike):
            raise SettingError(f"keep must be the path of a folder, or None, got {self.keep!r}")

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Leave every unit out of one copy."""
        if training is None:
            raise SettingError(
                "Folds() trains copies of the model, and nothing says how; give refit=, a function from row numbers "
                "to a model that was trained on those rows from scratch"
            )
        found = folded(model, data, self, seed, training, "as asked")
        assert isinstance(found, Evidence)
        return found


def usual(data: Rows) -> Folds:
    """As many as usual, or one for each group where there are fewer."""
    return Folds(max(2, min(COUNT, data.units)))


def folded(
    model: Model, data: Rows, folds: Folds, seed: int, training: Training, why: str, most: float = inf
) -> Evidence | float:
    """What copies say of the rows they were not trained on, and witnesses of the same rows beside them.

    Trainings that would take more than so many seconds in all are not made: then the seconds they would take.
    """
    parts = list(
        splits(model, data, folds.count, seed) if folds.order is None else forward(data, folds.count, folds.order)
    )
    if isfinite(most) and (seconds := len(parts) * _trial(data, training)) > most:
        return seconds
    started = time.perf_counter()
    own = torch.cat([outputs(model, batch.inputs).double().cpu() for batch in data.batches()])
    found = own.clone()
    fold = np.full(data.n, -1, dtype=np.int64)
    copies: list[Model] = []
    for number, (told, copy) in enumerate(
        track("refits", _told(model, data, parts, folds, training, own.shape[1]), len(parts))
    ):
        held = parts[number][1]
        found[torch.from_numpy(held)], fold[held] = told, number
        copies += [] if copy is None else [copy]
        if number == 0 and (seconds := len(parts) * (time.perf_counter() - started)) > most:
            return seconds
    trial = {"trial_trainings": 1} if isfinite(most) else {}
    facts = {"trainings": len(copies), **trial, "seconds_training": time.perf_counter() - started}
    made = f"{why}; {_words(len(copies), len(parts), isfinite(most))}, and the model itself left as it was"
    _learnt(own, found, fold >= 0)
    weight = data.weight * torch.from_numpy(fold >= 0)
    beside = None if folds.order is not None else _beside(model, data, seed)
    honest, more = (None, {}) if beside is None else (beside.honest, beside.facts)
    all_here = len(copies) == len(parts) and folds.order is None
    return replace(
        Evidence.of(model, data, "refits", made, found, honest, {**facts, **more}, weight=weight),
        beside=None if beside is None else beside.prediction,
        refits=Refits(model, tuple(copies), fold) if all_here else None,
    )


def _words(trained: int, folds: int, tried: bool) -> str:
    before = f"what {folds - trained} copies said was kept, and " if trained < folds else ""
    after = ", after one of few rows to see how long that takes" if tried else ""
    return f"{before}{trained} {'copy was' if trained == 1 else 'copies were'} trained{after}"


def _learnt(own: Tensor, found: Tensor, told: NDArray[np.bool_]) -> None:
    """Refuse copies that say of the rows left out (n, k) just what the audited model says of rows it has seen.

    Labels, and probabilities of classes far apart, are the same for good reasons: few different values say nothing.
    """
    here, there = own[torch.from_numpy(told)], found[torch.from_numpy(told)]
    if torch.equal(here, there) and len(torch.unique(here, dim=0)) > MANY * len(here):
        raise ModelError(
            "the copies say of the rows left out exactly what the audited model says: refit= seems not to train on the "
            "rows it is given alone; train from scratch on X[rows], y[rows], or leave refit= away for a model that "
            "learns nothing"
        )


def _told(
    model: Model, data: Rows, parts: Sequence[tuple[Whole, Whole]], folds: Folds, training: Training, k: int
) -> Iterator[tuple[Tensor, Model | None]]:
    """What a copy says of the rows left out of it, (h, k), and the copy; one part after the other."""
    from joblib import Parallel, delayed

    kept = None if folds.keep is None else Kept.of(folds.keep, model, data, [held for _, held in parts])
    known = [None if kept is None else kept.read(i, (len(held), k)) for i, (_, held) in enumerate(parts)]
    ids = data.ids.numpy()
    work = (
        delayed(_trained)(training.again, ids[rows]) for (rows, _), one in zip(parts, known, strict=True) if one is None
    )
    trained = iter(Parallel(n_jobs=folds.jobs, return_as="generator")(work))
    for number, (_, held) in enumerate(parts):
        before = known[number]
        if before is not None:
            yield before, None
            continue
        copy = _other(_next(trained, training), model)
        found = _predicted(copy, model, data, held, k)
        if kept is not None:
            kept.write(number, found)
        yield found, copy


def _next(trained: Iterator[Any], training: Training) -> Any:
    if not training.asked:
        return next(trained)
    try:
        return next(trained)
    except Exception as error:  # whatever a user's own code raises
        raise ModelError(
            f"training a copy of the model failed, {type(error).__name__}: {error}; refit= must train the model from "
            "scratch on the rows whose numbers it is given, and return it"
        ) from error


def _trial(data: Rows, training: Training) -> float:
    """At least the seconds of one training: those of one on a small part of the rows."""
    some = max(min(FEWEST, data.n), data.n // TRIAL)
    started = time.perf_counter()
    _trained(training.again, data.ids.numpy()[np.linspace(0, data.n - 1, some).astype(np.int64)])
    return time.perf_counter() - started


def _trained(again: Callable[[Whole], Any], rows: Whole) -> Any:
    with untouched(), torch.enable_grad():
        return again(rows)


def _other(made: Any, model: Model) -> Model:
    """What was trained, if it is a model and not the audited one."""
    if made is None:
        raise ModelError("refit returned None, expected the trained model: the model itself, or rue.wrap(...) of it")
    copy = as_copy(made, model)
    same = copy.estimator is None and torch.equal(copy.theta.cpu(), model.theta.cpu())
    if same or made is model or (made is model.estimator and made is not None):
        raise ModelError(
            "refit returned the audited model itself, which has seen all rows; train another one from scratch on the "
            "rows whose numbers it is given"
        )
    return copy


def _predicted(copy: Model, model: Model, data: Rows, held: Whole, k: int) -> Tensor:
    """Outputs (h, k) of a copy at rows it was not trained on."""
    if copy.estimator is None:  # a module, which reads rows as the audited one does, datasets and loaders too
        found = said(copy, model, (batch.inputs for batch in data.batches()))[torch.from_numpy(held)]
    else:
        found = said(copy, model, [copy.read(some_rows(data.source.X, data.ids.numpy()[held]))])
    if not bool(torch.isfinite(found).all()):
        raise ModelError(
            "a copy predicts NaN or infinite numbers of rows it was not trained on; see how refit= trains it, or give "
            "fewer folds"
        )
    if found.shape != (len(held), k):
        raise ModelError(
            f"a copy predicts {tuple(found.shape)} where the audited model predicts {(len(held), k)}: it was trained "
            "on other classes or columns; give refit= a function that trains the same model, or fewer folds"
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
