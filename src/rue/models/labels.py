"""The labels of a classifier as numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rue.core.errors import DataError, ShapeError

SHOWN = 8  # classes named in a message


def label_codes(labels: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """The places (n,) of labels among the classes.

    >>> label_codes(["b", "a"], np.array(["a", "b"])).tolist()
    [1, 0]
    """
    from pandas import factorize  # tells 1 from "1"

    values = label_column(labels)
    numbered = {label: number for number, label in enumerate(classes.tolist())}
    code, present = factorize(values)
    number = np.array([*(numbered.get(label, -1) for label in present.tolist()), -1])[code]  # a missing label is −1
    unknown = number < 0
    if unknown.any():
        raise DataError(
            f"{int(unknown.sum())} of {len(values)} labels, the first being {values[unknown].tolist()[0]!r}, are none "
            f"of the classes {', '.join(map(repr, classes[:SHOWN].tolist()))}; give labels as in training"
        )
    return np.asarray(number, dtype=np.int64)


def label_column(labels: Any) -> NDArray[Any]:
    """One label for each row, (n,)."""
    values = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise ShapeError(f"labels have shape {values.shape}, expected one for each row (n,)")
    return values
