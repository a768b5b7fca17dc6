"""Compares the changes that influence predicts for bootstrap samples with those of models really trained on them."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rue.checks.check import Check, Light, Senseless
from rue.checks.subject import Audited, Subject, only_differences
from rue.core.arrays import Array
from rue.core.derivatives import outputs, pushed
from rue.core.errors import ModelError, SettingError
from rue.core.gradient_sums import weighted_gradients
from rue.core.model import Model
from rue.core.progress import track
from rue.core.resample import Multinomial, generator, untouched
from rue.models import wrap
from rue.models.torch.module import plain_module

NAME = "refits"
ALIKE = 0.8  # least correlation for green; it was .86 to 1.0 for linear, logistic and Poisson regressions at rest
LOOSE = 0.3  # below it red: a tenth of the squared changes is explained; refits of nets had .29 to .96
RANGE, WIDE = (0.67, 1.5), (0.33, 3.0)  # actual change per predicted one: .52 to 1.26 on models at rest
LIMITS = (
    f"green where the changes correlate at least {ALIKE} and refits move {RANGE[0]} to {RANGE[1]} for each 1 "
    f"predicted; red below {LOOSE} or outside {WIDE[0]} to {WIDE[1]}; amber between. Nets move for reasons "
    "that no re-weighting knows: their start, and the order of their rows"
)


def refits(subject: Subject) -> Check | str:
    """Compare predicted and actual changes, paired over refits, rows and outputs."""
    if not subject.model.family.joint:
        return Senseless("a forest has no one objective whose change could be predicted")
    if subject.refit is None:
        return "no training callable was given: auditor.check(refit=...)"
    if subject.audited is None and isinstance(subject.data.source.X, Dataset | DataLoader):
        raise SettingError(
            "refits are compared at rows that can be read again: give inputs, auditor.check(inputs, refit=...)"
        )
    rows = Audited.of(subject.data.source.X) if subject.audited is None else subject.audited
    drawn = Multinomial().draw(subject.data.units, subject.refits, generator(subject.seed))
    pull = weighted_gradients(subject.model, subject.data, (drawn - 1)[:, subject.data.unit])
    step = -subject.factored.inverse.solve(pull).vectors
    parts = [(outputs(subject.model, x), pushed(subject.model, x, step)) for x in rows.batches(subject.model)]
    outputs_now, moved = (torch.cat(part).double().cpu().numpy() for part in zip(*parts, strict=True))
    expected, now, response = np.moveaxis(moved, 2, 0), outputs_now, subject.model.response
    if response is not None:  # compare predictions, because a refit may transform targets in another way
        expected, now = expected * response.slope(outputs_now), response.value(outputs_now)
    samples = track("refits", drawn, total=len(drawn))
    refitted = [_predictions(subject, _drawn_rows(subject, weights), rows, now.shape) for weights in samples]
    kept = [i for i, predicted in enumerate(refitted) if predicted is not None]
    count = len(refitted)
    lost = f"{count - len(kept)} of {count} bootstrap samples lack a class, and refits on them other outputs"
    if len(kept) < 2:
        return f"{lost}: merge rare classes, or ask for more refits"
    actual = np.stack([predicted - now for predicted in refitted if predicted is not None])
    return _judged(subject, expected[kept], actual, f"; {lost}" if len(kept) < count else "")


def _judged(subject: Subject, expected: Array, actual: Array, lost: str) -> Check:
    """The check, from expected and actual changes (b, m, k)."""
    expected, actual = (only_differences(change, subject.model) for change in (expected, actual))
    size = float((expected**2).sum())
    slope = float((expected * actual).sum()) / size if size > 0 else float("nan")
    both = float(np.sqrt(size * (actual**2).sum()))
    correlation = float((expected * actual).sum()) / both if both > 0 else float("nan")
    size_ratio = slope / correlation if correlation else float("nan")
    light: Light = "amber"
    if correlation >= ALIKE and RANGE[0] <= slope <= RANGE[1]:
        light = "green"
    elif not correlation >= LOOSE or not WIDE[0] <= slope <= WIDE[1]:
        light = "red"
    return Check(
        NAME,
        light,
        correlation,
        f"over {len(expected)} refits and m = {expected.shape[1]} {subject.rows_called} predicted and actual changes "
        f"correlate {correlation:.2f}; refits moved {slope:.2f} for each 1 predicted, and {size_ratio:.2f} times as "
        f"far in all{lost}",
        LIMITS,
        ""
        if light == "green"
        else "check that refit trains as the model was trained (loss, penalty, start, length); "
        "if it does, influence is a rough guide here: use rue.integrated.RefitBootstrap",
    )


def _drawn_rows(subject: Subject, weights: Tensor) -> NDArray[np.int64]:
    """The rows of a bootstrap sample: whole units, as often as they were drawn."""
    return np.repeat(subject.data.ids.numpy(), weights[subject.data.unit].long().numpy())


def _again(subject: Subject, rows: NDArray[np.int64]) -> Model:
    """The model that the user's function trains on a bootstrap sample."""
    assert subject.refit is not None
    with untouched(), torch.enable_grad():
        refitted: Any = subject.refit(rows)
    if isinstance(refitted, Model):
        return refitted
    if refitted is None:
        raise ModelError("refit returned None, expected the trained model: rue.wrap(...) of it, or the model itself")
    core = plain_module(subject.model)
    return (
        wrap(refitted, loss=None if core is None else core.stated_loss)
        if isinstance(refitted, torch.nn.Module)
        else wrap(refitted)
    )


def _predictions(subject: Subject, drawn: NDArray[np.int64], rows: Audited, shape: tuple[int, ...]) -> Array | None:
    """The predictions of a refit (m, k); None where its sample lacks a class, so that it has fewer outputs."""
    try:
        model = _again(subject, drawn)
    except ValueError:  # estimators also raise it where there is one class only
        if _lacks_a_class(subject, drawn):
            return None
        raise
    predicted = torch.cat([outputs(model, inputs) for inputs in rows.batches(model)]).double().cpu().numpy()
    if predicted.shape != shape:
        if _lacks_a_class(subject, drawn):
            return None
        raise ModelError(
            f"refit returned a model that predicts {predicted.shape} where the audited one predicts {shape}; train the "
            "same architecture on the same columns again"
        )
    return np.asarray(predicted if model.response is None else model.response.value(predicted))


def _lacks_a_class(subject: Subject, drawn: NDArray[np.int64]) -> bool:
    """Whether a label of the training rows is missing in the sample."""
    if subject.model.family.decision is None or subject.data.source.y is None:
        return False
    y: Any = subject.data.source.y
    labels = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    return len(np.unique(labels[drawn])) < len(np.unique(labels[subject.data.ids.numpy()]))
