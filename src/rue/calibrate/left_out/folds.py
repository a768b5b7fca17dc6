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
from rue.calibrate.left_out.outside import witnessed
from rue.calibrate.left_out.refits import Refits, as_copy, copy_outputs
from rue.calibrate.left_out.splits import forward, splits
from rue.calibrate.left_out.witness import can_be_witnessed, witness
from rue.core.arrays import Whole
from rue.core.derivatives import outputs
from rue.core.errors import ModelError, SettingError, ShapeError
from rue.core.model import Model
from rue.core.nested import joined, leaves, take
from rue.core.progress import track
from rue.core.resample import untouched
from rue.data.rows import Rows
from rue.models.again import some_rows

COUNT = 8  # default number of folds
TRIAL = 8  # a trial on 1/TRIAL of the rows shows whether training takes too long
FEWEST = 50  # minimum number of rows of the trial
COMPARED = 300  # rows on which a copy is compared with the model
TWICE = 2.0  # losses of training rows within this factor are those of the same kind of model
MATTERS = 0.25  # and so are those that differ by less than this part of the loss of rows left out
MANY = 0.5  # different outputs per row: above this, copies do not repeat all outputs by chance


@dataclass(frozen=True)
class Folds:
    """Train `count` copies, each without one fold of the rows; groups stay together, classes keep their frequencies.

    Copies of an estimator are clones with its final settings; copies of any other model are what `refit=` trains.
    With an `order`, a time for each row, every block of rows is predicted by a copy trained on all earlier rows.
    `jobs` copies are trained at once; by default, as many as `joblib.parallel_config` sets. The predictions of the
    copies are stored in the folder `keep`, and copies whose predictions are there are not trained again.
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
        evidence = folded(model, data, self, seed, training, "as asked")
        assert isinstance(evidence, Evidence)  # without a limit of seconds there is always evidence
        return evidence


def usual(data: Rows) -> Folds:
    """The default number of folds, or one for each group if there are fewer groups."""
    return Folds(max(2, min(COUNT, data.units)))


def folded(
    model: Model, data: Rows, folds: Folds, seed: int, training: Training, why: str, most: float = inf
) -> Evidence | float:
    """Evidence from copies that predict the rows they were not trained on, with witnesses of the same rows beside them.

    If all trainings together would take more than `most` seconds, returns the estimated seconds instead.
    """
    parts = list(
        splits(model, data, folds.count, seed) if folds.order is None else forward(data, folds.count, folds.order)
    )
    if isfinite(most) and (seconds := len(parts) * _trial(data, training)) > most:
        return seconds
    started = time.perf_counter()
    own = torch.cat([outputs(model, batch.inputs).double().cpu() for batch in data.batches()])
    left_out = own.clone()
    fold = np.full(data.n, -1, dtype=np.int64)
    copies: list[Model] = []
    warning = None
    for number, (predicted, copy) in enumerate(
        track("refits", _predictions(model, data, parts, folds, training, own.shape[1]), len(parts))
    ):
        held = parts[number][1]
        left_out[torch.from_numpy(held)], fold[held] = predicted, number
        if copy is not None and not copies and folds.order is None:
            warning = _unlike(model, data, copy, own, *parts[number])
        copies += [] if copy is None else [copy]
        if number == 0 and (seconds := len(parts) * (time.perf_counter() - started)) > most:
            return seconds
    trial = {"trial_trainings": 1} if isfinite(most) else {}
    facts = {"trainings": len(copies), **trial, "seconds_training": time.perf_counter() - started}
    reason = f"{why}; {_words(len(copies), len(parts), isfinite(most))}, and the model itself left as it was"
    _check_learnt(own, left_out, fold >= 0)
    beside = None if folds.order is not None else _beside(model, data, seed)
    honest, more = (None, {}) if beside is None else (beside.honest, beside.facts)
    all_here = len(copies) == len(parts) and folds.order is None
    rows, numbers = data.sample, torch.from_numpy(fold)
    left_out, weight = rows.among(left_out), rows.among(data.weight * (numbers >= 0))
    return replace(
        Evidence.of(model, rows, "refits", reason, left_out, honest, {**facts, **more}, weight=weight),
        warning=warning,
        beside=None if beside is None else beside.prediction,
        refits=Refits(model, tuple(copies), rows.among(numbers).numpy()) if all_here else None,
    )


def _words(trained: int, folds: int, tried: bool) -> str:
    before = f"what {folds - trained} copies said was kept, and " if trained < folds else ""
    after = ", after one of few rows to see how long that takes" if tried else ""
    return f"{before}{trained} {'copy was' if trained == 1 else 'copies were'} trained{after}"


def _check_learnt(own: Tensor, left_out: Tensor, predicted: NDArray[np.bool_]) -> None:
    """Raise if the left-out outputs (n, k) of copies equal those of the audited model: then nothing was trained.

    Labels, and probabilities of well-separated classes, may be equal for good reasons: few different values are no
    sign of a mistake.
    """
    fitted, copied = own[torch.from_numpy(predicted)], left_out[torch.from_numpy(predicted)]
    if torch.equal(fitted, copied) and len(torch.unique(fitted, dim=0)) > MANY * len(fitted):
        raise ModelError(
            "the copies say of the rows left out exactly what the audited model says: refit= seems not to train on the "
            "rows it is given alone; train from scratch on X[rows], y[rows], or leave refit= away for a model that "
            "learns nothing"
        )


def _unlike(model: Model, data: Rows, copy: Model, own: Tensor, rows: Whole, held: Whole) -> str | None:
    """A warning if a copy fits the rows it was trained on quite otherwise than the model does: it is another model.

    Only what matters beside the loss of rows left out counts: copies of a model that knows its rows by heart may
    differ many times in what little they lose there.
    """
    if model.family.coupled:
        return None
    some, new = (part[:: -(-len(part) // COMPARED)] for part in (rows, held))
    targets = joined([batch.targets for batch in data.batches()])

    def mean_loss(predicted: Tensor, which: Whole) -> float:
        wanted = take(targets, torch.from_numpy(which).to(leaves(targets)[0].device))
        return float(model.loss(predicted.to(model.theta), wanted).double().mean())

    k = own.shape[1]
    theirs, new_loss = (mean_loss(_predicted(copy, model, data, part, k), part) for part in (some, new))
    ours = mean_loss(own[torch.from_numpy(some)], some)
    least, most = sorted((ours, theirs))
    if most - least <= MATTERS * abs(new_loss) or most < TWICE * least:
        return None
    return (
        f"a copy has a mean loss of {theirs:.3g} on rows it was trained on, the model one of {ours:.3g}: copies are "
        "not trained as the model was, because its settings were changed after its fit, or refit= trains another "
        "model; left-out errors are then those of another model"
    )


def _predictions(
    model: Model, data: Rows, parts: Sequence[tuple[Whole, Whole]], folds: Folds, training: Training, k: int
) -> Iterator[tuple[Tensor, Model | None]]:
    """For each part, the outputs (h, k) for the rows left out, and the copy; None if the outputs were stored."""
    from joblib import Parallel, delayed

    kept = None if folds.keep is None else Kept.of(folds.keep, model, data, [held for _, held in parts])
    stored = [None if kept is None else kept.read(i, (len(held), k)) for i, (_, held) in enumerate(parts)]
    ids = data.ids.numpy()
    missing = [rows for (rows, _), before in zip(parts, stored, strict=True) if before is None]
    work = (delayed(_trained)(training.again, ids[rows]) for rows in missing)
    trained = iter(Parallel(n_jobs=folds.jobs, return_as="generator")(work))
    for number, (_, held) in enumerate(parts):
        before = stored[number]
        if before is not None:
            yield before, None
            continue
        copy = _other(_next(trained, training), model)
        predicted = _predicted(copy, model, data, held, k)
        if kept is not None:
            kept.write(number, predicted)
        yield predicted, copy


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
    """A lower bound of the seconds of one training: the time of training on a small part of the rows."""
    some = max(min(FEWEST, data.n), data.n // TRIAL)
    started = time.perf_counter()
    _trained(training.again, data.ids.numpy()[np.linspace(0, data.n - 1, some).astype(np.int64)])
    return time.perf_counter() - started


def _trained(again: Callable[[Whole], Any], rows: Whole) -> Any:
    with untouched(), torch.enable_grad():
        return again(rows)


def _other(trained: Any, model: Model) -> Model:
    """The trained model as a copy; raises if it is no model, or the audited model itself."""
    if trained is None:
        raise ModelError("refit returned None, expected the trained model: the model itself, or rue.wrap(...) of it")
    copy = as_copy(trained, model)
    same = copy.estimator is None and torch.equal(copy.theta.cpu(), model.theta.cpu())
    if same or trained is model or trained is model.estimator:
        raise ModelError(
            "refit returned the audited model itself, which has seen all rows; train another one from scratch on the "
            "rows whose numbers it is given"
        )
    return copy


def _predicted(copy: Model, model: Model, data: Rows, held: Whole, k: int) -> Tensor:
    """Outputs (h, k) of a copy at rows it was not trained on."""
    if copy.estimator is None:  # a module, which reads rows in the same way as the audited one, also from loaders
        predicted = copy_outputs(copy, model, (batch.inputs for batch in data.batches()))[torch.from_numpy(held)]
    else:
        predicted = copy_outputs(copy, model, [copy.read(some_rows(data.source.X, data.ids.numpy()[held]))])
    if not bool(torch.isfinite(predicted).all()):
        raise ModelError(
            "a copy predicts NaN or infinite numbers of rows it was not trained on; see how refit= trains it, or give "
            "fewer folds"
        )
    if predicted.shape != (len(held), k):
        raise ModelError(
            f"a copy predicts {tuple(predicted.shape)} where the audited model predicts {(len(held), k)}: it was "
            "trained on other classes or columns; give refit= a function that trains the same model, or fewer folds"
        )
    return predicted


def _beside(model: Model, data: Rows, seed: int) -> Evidence | None:
    """Evidence from witnesses: two for a boosted or black-box model, a kernel for a network; None if impossible."""
    if not can_be_witnessed(model):
        return None
    if model.family.outside:
        return witnessed(model, data, seed, "")
    try:
        kernel = witness(model, data.sample, seed)
    except ShapeError:  # texts that were padded batch by batch
        return None
    return Evidence.of(model, data.sample, "witness", "", kernel.prediction, kernel.says, kernel.facts)
