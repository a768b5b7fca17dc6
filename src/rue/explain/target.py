"""The number that is explained: an output, or the margin between the two leading classes."""

from typing import Any, NamedTuple

import numpy as np

from rue.core.arrays import Array, Whole
from rue.core.concepts import Decision
from rue.core.errors import SettingError
from rue.explain.lens import ALL


class Target(NamedTuple):
    """The explained number of s audited rows, a weighted sum of k outputs."""

    contrast: Array  # (s, k), the weights
    value: Array  # (s,), the explained number itself
    of: tuple[str, ...]  # its name
    output: Whole  # (s,), the number of the output; ALL for a margin


def explained_number(
    outputs: Array, covariance: Array | None, decision: Decision | None, classes: Any, output: int | None
) -> Target:
    """The output of (s, k) that was asked for; else the one with the largest spread, or the margin that decides."""
    s, k = outputs.shape
    known = classes is not None and len(classes) == k
    kind = "output" if decision is None else "class"
    names = [f"{kind} {classes[j] if known else j}" for j in range(k)]
    if output is not None:
        if not 0 <= output < k:
            raise SettingError(f"output is {output}, expected 0 to {k - 1}, one of the model's {k} outputs")
        chosen = np.full(s, output)
    elif k == 1:
        label = "the prediction" if decision is None else "the logit"
        return Target(np.ones((s, 1)), outputs[:, 0], (label,) * s, np.zeros(s, dtype=np.int64))
    elif decision in ("largest", "shares"):
        return _margins(outputs, names, "margin" if decision == "shares" else "logit margin")
    elif decision in ("signs", "ordered"):
        chosen = np.abs(outputs).argmin(axis=1)  # the logit closest to a change of decision
    else:
        spread = np.diagonal(covariance, axis1=1, axis2=2) if covariance is not None else np.ones_like(outputs)
        chosen = spread.argmax(axis=1)
    return Target(np.eye(k)[chosen], outputs[np.arange(s), chosen], tuple(names[j] for j in chosen), chosen)


def _margins(outputs: Array, names: list[str], called: str) -> Target:
    """The margins of the leading class over the second."""
    rows = np.arange(len(outputs))
    order = np.argsort(-outputs, axis=1, kind="stable")
    first, second = order[:, 0], order[:, 1]
    contrast = np.zeros_like(outputs)
    contrast[rows, first], contrast[rows, second] = 1.0, -1.0
    labels = tuple(f"the {called} of {names[a]} over {names[b]}" for a, b in zip(first, second, strict=True))
    return Target(contrast, outputs[rows, first] - outputs[rows, second], labels, np.full(len(rows), ALL))
