"""Sentences on held-out rows that can hardly be what they are said to be: rows like those of training, with targets."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.auditing.result import Audit
from rue.calibrate.left_out.witness import codes_of
from rue.checks.subject import Audited
from rue.core.arrays import Array, Labels, Whole
from rue.core.concepts import Inputs
from rue.core.labels import label_codes
from rue.core.model import Model
from rue.core.nested import leaves
from rue.data.features import coordinates
from rue.data.rows import Rows

SURPRISING = 3.0  # errors above so many times the expected size give a warning
WORSE = 1.5  # and above so many times, where a constant would do better
NORMAL = 0.6745  # the median size of a standard normal number
CLEARLY = 4.0  # standard errors by which errors must be larger than expected
CHANCE = 1e-3  # what chance brings about less often than this is worth a sentence
MOST = 0.5  # share of the rows from which on they are others than those of training
COLUMNS = 0.05  # share of its columns in which a row must lie far beyond the training rows
ADVICE = (
    "are their targets in the units of training (standardised, if they were), in the order of the rows, and the rows "
    "like those of training? Expected errors follow them"
)


def surprise(audit: Audit, y: Any) -> tuple[str, ...]:
    """A warning if the errors on held-out rows are much larger than expected, or a constant would do better."""
    errors = audit.errors(y)
    expected = np.diagonal(np.asarray(audit.total_covariance), axis1=1, axis2=2)
    times = float(np.sqrt((errors**2).mean(axis=0) / expected.mean(axis=0)).max())
    middle = float((np.median(np.abs(errors) / np.sqrt(expected), axis=0) / NORMAL).max())  # no few rows decide it
    if times > SURPRISING and middle > WORSE:
        return (f"held-out rows are missed by {times:.3g} times what the training rows led to expect: {ADVICE}",)
    targets = errors + audit.prediction.reshape(errors.shape)
    constant = np.square(targets - targets.mean(axis=0)).mean(axis=0)
    worse = (errors**2).mean(axis=0) > constant
    if not (worse & _larger(errors**2 / expected)).any():
        return ()
    return (
        f"the mean of the held-out targets would miss them by less than the model does, and the model misses them by "
        f"{times:.3g} times what the training rows led to expect: {ADVICE}",
    )


def surprise_of_classes(audit: Audit, y: Any) -> tuple[str, ...]:
    """A warning if held-out labels are guessed no better than by a constant, and far worse than expected."""
    shares = np.asarray(audit.probability)
    names = _names(audit)
    codes, decided = label_codes(y, names), label_codes(audit.label, names)
    wrong = (codes != decided).astype(np.float64)
    expected = 1 - shares[np.arange(len(codes)), decided]
    commonest = np.bincount(codes).max() / len(codes)
    spread = np.sqrt((expected * (1 - expected)).sum())
    far = wrong.sum() - expected.sum() > CLEARLY * spread and wrong.sum() > WORSE * expected.sum()
    if not far or 1 - wrong.mean() > commonest:
        return ()
    return (
        f"the model is right about {1 - wrong.mean():.0%} of {len(codes)} held-out labels, where "
        f"{1 - expected.mean():.0%} was expected and always naming the commonest would be right about {commonest:.0%}: "
        "are labels swapped, or in another order than the rows? Sets of classes follow them",
    )


def absent_classes(audit: Audit, model: Model, data: Rows, y: Any) -> tuple[str, ...]:
    """A warning if a class of training has no held-out row, and chance would hardly leave it out."""
    names = _names(audit)
    codes = label_codes(y, names)
    shares = _class_shares(model, data, len(names))
    seen = np.bincount(codes, minlength=len(names)) > 0
    absent = np.flatnonzero(~seen & ((1 - shares) ** len(codes) < CHANCE))
    if not len(absent):
        return ()
    first = absent[np.argmax(shares[absent])]
    return (
        f"none of {len(codes)} held-out rows is of class {names.tolist()[first]!r}, as {shares[first]:.0%} of the "
        "training rows are: rows that were chosen by their label are unlike new ones, and sets of classes promise "
        "their level for rows like the held-out ones only",
    )


def one_target(audit: Audit, data: Rows, y: Any) -> tuple[str, ...]:
    """A warning if all held-out targets are one number that few training rows have."""
    errors = audit.errors(y)
    targets = errors + audit.prediction.reshape(errors.shape)
    if len(targets) < 2 or targets.shape[1] > 1 or np.ptp(targets) > 1e-9 * np.abs(targets).max():
        return ()
    trained = np.concatenate([leaves(batch.targets)[0].double().cpu().numpy().ravel() for batch in data.batches()])
    share = max(float(np.isclose(trained, targets[0, 0]).mean()), 1 / data.n)
    if share ** len(targets) >= CHANCE:
        return ()
    return (
        f"all {len(targets)} held-out targets are {targets[0, 0]:.4g}, as {share:.1%} of the training targets are: "
        "rows that were chosen by their target are unlike new ones; hold rows out at random",
    )


def far_away(audit: Audit, model: Model, data: Rows, X: Any) -> tuple[str, ...]:
    """A warning if most held-out rows are marked scarce, or have values far beyond those of training."""
    scarce = 0.0 if audit.scarce is None else float(audit.scarce.mean())
    share = max(scarce, _share_beyond(Audited.of(X).batches(model), (batch.inputs for batch in data.batches())))
    if share <= MOST:
        return ()
    return (
        f"{share:.0%} of the held-out rows are unlike the training rows (scarce, or far beyond their values): are "
        "columns prepared as in training? Expected errors and intervals follow rows that the model knows nothing of, "
        "and hold for such rows only",
    )


def _larger(ratio: Array) -> NDArray[np.bool_]:
    """Whether squared errors over expected ones (m, k) are clearly above one: (k,)."""
    mean, doubt = ratio.mean(axis=0), ratio.std(axis=0) / np.sqrt(len(ratio))
    return np.asarray((mean > WORSE) & (mean - 1 > CLEARLY * doubt))


def _names(audit: Audit) -> Labels:
    """The names of the classes, else their numbers."""
    return np.arange(np.asarray(audit.probability).shape[1]) if audit.classes is None else audit.classes


def _class_shares(model: Model, data: Rows, classes: int) -> Array:
    """The share of the training rows in each class: (classes,)."""
    held = sum(codes_of(model, batch.targets, classes).sum(dim=0) for batch in data.batches())
    share = np.asarray(held.cpu()) / data.n  # type: ignore[union-attr]  # there is at least one batch
    return np.append(1 - share, share) if len(share) == 1 else share


def _share_beyond(rows: Iterable[Inputs], earlier: Iterable[Inputs]) -> float:
    """The share of rows that lie further beyond the range of earlier ones than that range is wide, in some columns."""
    now = [coordinates(inputs) for inputs in rows]
    columns = now[0].shape[1]
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    for before in map(coordinates, earlier):
        if {part.shape[1] for part in (before, *now)} != {columns}:  # texts that were padded batch by batch
            return 0.0
        low, high = np.fmin(low, np.fmin.reduce(before)), np.fmax(high, np.fmax.reduce(before))
    width = high - low
    varied: Whole = np.flatnonzero(width > 0)
    if not len(varied):
        return 0.0
    beyond = [((part < low - width) | (part > high + width))[:, varied].mean(axis=1) for part in now]
    return float((np.concatenate(beyond) > COLUMNS).mean())
