"""Does what was read off an estimator predict as the estimator itself does?"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.core.classify import probability
from rue.core.errors import DataError, ModelError
from rue.core.labels import label_codes
from rue.core.model import Model

NUMBERS = 1e-4  # relative tolerance for numbers: tree ensembles add in single precision
CLEARLY = 0.2  # a label may be so much less probable than the likeliest; an SVM's own probabilities are fitted apart
SLIGHTLY = 0.02  # and so much less probable in
MANY = 0.05  # this share of the rows, where there are
ENOUGH = 20  # so many rows


def check_answers(model: Model, outputs: Array, answers: NDArray[Any]) -> None:
    """Raise if outputs (m, k) are not those of the estimator's own answers: it was read wrongly, or has changed."""
    if model.classes is not None:
        _check_labels(model, outputs, answers)
        return
    derived = outputs if model.response is None else model.response.value(outputs)
    numbers = np.asarray(answers, dtype=np.float64)
    apart = np.abs(derived - numbers.reshape(derived.shape)).max(initial=0.0)
    if apart > NUMBERS * (1 + np.abs(numbers).max(initial=0.0)):
        raise ModelError(
            f"what was read off the estimator predicts otherwise than the estimator itself, by up to {apart:.1e}; give "
            "inputs as for its predict, and an estimator that was not changed since it was wrapped; where its predict "
            "does more, audit that alone: rue.audit(types.SimpleNamespace(predict=model.predict), ...)"
        )


def _check_labels(model: Model, outputs: Array, labels: NDArray[Any]) -> None:
    decision, classes = model.family.decision, model.classes
    if decision is None or classes is None or np.ndim(labels) != 1:
        return
    shares = probability(decision, torch.from_numpy(outputs)).numpy()
    try:
        codes = label_codes(labels, classes)
    except DataError as error:
        raise ModelError(
            f"the estimator predicts labels that it did not know when it was wrapped ({error}); wrap it again after "
            "fitting it"
        ) from error
    if shares.shape[1] != len(classes):
        return  # several labels of one row
    less = shares.max(axis=1) - shares[np.arange(len(codes)), codes]
    slightly = np.mean(less > SLIGHTLY) if len(less) >= ENOUGH else 0.0
    if less.max(initial=0.0) > CLEARLY or slightly > MANY:
        row, names = int(less.argmax()), classes.tolist()
        raise ModelError(
            f"the estimator predicts labels that are not its most probable ones in {np.mean(less > SLIGHTLY):.0%} of "
            f"{len(less)} rows: row {row} gets {names[codes[row]]!r} with probability "
            f"{shares[row, codes[row]]:.2g}, and {names[shares[row].argmax()]!r} has {shares[row].max():.2g}; an own "
            "threshold decides, or the estimator was fitted again after rue.wrap: wrap what it is now, and wrap the "
            "classifier inside one with a threshold"
        )
