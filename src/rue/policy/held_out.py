"""Held-out rows in the order in which a rising threshold accepts them."""

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rue.core.arrays import Array
from rue.core.errors import DataError, InputError, RueWarning, ShapeError
from rue.core.labels import label_codes
from rue.core.row_order import refuse_another_order
from rue.policy.losses import BoundedLoss


class Scored(Protocol):
    """The parts of an audit that a policy reads: predictions (m,) or (m, k), scores (m,), scarce inputs (m,)."""

    @property
    def prediction(self) -> Array:
        """The model's predictions."""

    @property
    def score(self) -> Array:
        """Higher = less reliable."""

    @property
    def scarce(self) -> NDArray[np.bool_] | None:
        """Inputs with too little training data nearby, which are never accepted."""


@dataclass(frozen=True)
class OrderedRows:
    """One entry for each distinct score, (g,), from the lowest: the rows accepted up to it and their summed loss.

    Rows with equal scores are accepted together. `least` and `most` are the extreme losses of the rows at this score.
    Scarce rows count in n and are never accepted.
    """

    n: int
    score: Array
    accepted: NDArray[np.int_]
    total: Array
    least: Array
    most: Array
    scarce: int
    auditor: str = ""  # the fingerprint of the auditor, where it is known
    doubts: tuple[str, ...] = ()  # why the rows were not held out, as far as the audit can tell


def read(audit: Scored) -> tuple[Array, NDArray[np.bool_]]:
    """Scores (m,) of an audit, checked, and which inputs are scarce (m,)."""
    try:
        score, scarce = np.asarray(audit.score, dtype=np.float64), audit.scarce
    except AttributeError as cause:
        raise InputError(f"{type(audit).__name__} is no audit; pass what auditor.audit(X) returns") from cause
    if score.ndim != 1 or score.size == 0:
        raise ShapeError(f"scores have shape {score.shape}, expected one for each of at least one row; audit some rows")
    bad = ~np.isfinite(score)
    if bad.any():
        raise DataError(
            f"score is {score[bad.argmax()]:g} at row {bad.argmax()} ({bad.sum()} of {bad.size} rows), expected a "
            "finite number to compare with a threshold; leave out such rows or use another method"
        )
    marked = np.zeros(score.size, dtype=np.bool_) if scarce is None else np.asarray(scarce, dtype=np.bool_)
    if marked.shape != score.shape:
        raise ShapeError(f"scarce has shape {marked.shape}, the scores {score.shape}; they must agree")
    return score, marked


def ordered(audit: Scored, y: ArrayLike | None = None, loss: BoundedLoss | None = None) -> OrderedRows:
    """Order the rows of an audit by score; without targets every loss is 0."""
    score, scarce = read(audit)
    refuse_another_order(getattr(audit, "index", None), y=y)
    losses = np.zeros(score.size) if y is None or loss is None else _losses(audit, y, loss)
    if scarce.all():
        raise DataError(
            f"all {score.size} held-out rows are marked scarce and would be refused; hold out rows like those the "
            "model was trained on"
        )
    score, losses = score[~scarce], losses[~scarce]
    order = np.lexsort((losses, score))  # by loss within a score, so that the order of the rows does not matter
    score, losses = score[order], losses[order]
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    first = np.append(0, last[:-1] + 1)
    return OrderedRows(
        n=scarce.size,
        score=score[last],
        accepted=last + 1,
        total=np.cumsum(losses)[last],
        least=losses[first],
        most=losses[last],
        scarce=int(scarce.sum()),
        auditor=auditor_of(audit),
        doubts=_doubts(audit),
    )


def auditor_of(audit: Scored) -> str:
    """The fingerprint of the auditor that an audit comes from; empty where it has none."""
    return str(getattr(audit, "facts", {}).get("auditor", ""))


def _doubts(audit: Scored) -> tuple[str, ...]:
    """Why the rows of an audit are no held-out rows, with a warning; nothing is known of a table of scores."""
    texts: tuple[str, ...] = getattr(audit, "held_out_doubts", tuple)()
    for text in texts:
        warnings.warn(text, RueWarning, stacklevel=4)
    return texts


def _losses(audit: Scored, y: ArrayLike, loss: BoundedLoss) -> Array:
    """The loss of each held-out row (m,), between 0 and 1."""
    if not hasattr(loss, "binary") or not callable(loss):
        raise InputError(
            f"{loss!r} is no bounded loss: it must be callable and say by `binary` whether it is always 0 or 1; use "
            "rue.policy.Exceeds, Wrong or another of rue.policy"
        )
    label = getattr(audit, "label", None)
    losses = _number_losses(audit, y, loss) if label is None else _label_losses(audit, label, np.asarray(y), loss)
    return _within_bounds(losses, len(audit.prediction), loss)


def _number_losses(audit: Scored, y: ArrayLike, loss: BoundedLoss) -> Any:
    """The losses of predicted numbers, as the loss returns them."""
    prediction = np.asarray(audit.prediction, dtype=np.float64)
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as cause:  # RuntimeError: a tensor that requires grad
        raise DataError(f"targets cannot be read as numbers ({cause}); pass an array of floats") from cause
    if targets.ndim == 0 or len(targets) != len(prediction):
        raise ShapeError(
            f"targets have shape {targets.shape}, the audit {len(prediction)} rows; pass the targets of those rows"
        )
    if not np.isfinite(targets).all():
        rows = np.count_nonzero(~np.isfinite(targets.reshape(len(targets), -1)).all(axis=1))
        raise DataError(
            f"targets are NaN or infinite in {rows} of {len(targets)} rows; hold out rows with known targets"
        )
    return loss(prediction, targets)


def _label_losses(audit: Scored, label: NDArray[Any], y: NDArray[Any], loss: BoundedLoss) -> Any:
    """The losses of predicted labels, which need not be numbers, as the loss returns them."""
    if label.shape != y.shape:
        raise ShapeError(f"there are labels of shape {y.shape} for predicted ones of {label.shape}; give one for each")
    names, shares = getattr(audit, "classes", None), getattr(audit, "own_probability", None)
    if names is None and shares is not None:
        names = np.arange(2 if label.ndim > 1 else shares.shape[1])  # labels that may hold together are 0 or 1 each
    if names is not None:
        label_codes(y.reshape(-1), names)  # raises for labels that are none of the classes: all would count as wrong
    try:
        return loss(label, y)
    except TypeError as error:
        raise DataError(f"{loss} cannot compare labels ({error}); use rue.policy.Wrong()") from error


def _within_bounds(returned: Any, rows: int, loss: BoundedLoss) -> Array:
    """Losses as numbers (m,); any outside 0 to 1 is refused, because no guarantee would hold."""
    try:
        losses = np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError) as cause:
        raise DataError(f"the loss returned no numbers ({cause}); return an array of floats ({rows},)") from cause
    if losses.shape != (rows,):
        raise ShapeError(f"the loss returned shape {losses.shape}, expected one value per row ({rows},)")
    wanted = "0 or 1" if loss.binary else "between 0 and 1"
    right = np.isin(losses, (0, 1)) if loss.binary else (losses >= 0) & (losses <= 1)
    if not right.all():
        raise DataError(
            f"the loss is {losses[right.argmin()]:g} at row {right.argmin()}, expected {wanted}; divide it by its "
            "largest value and clip it, as rue.policy.Clipped does"
        )
    return losses
