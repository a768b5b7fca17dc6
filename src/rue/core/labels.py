"""Labels of a classifier, turned into numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rue.core.errors import DataError, ShapeError
from rue.core.stored import storable

SHOWN = 8  # a message names at most so many classes


@storable
def label_codes(labels: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """The positions (n,) of labels among the classes.

    >>> label_codes(["b", "a"], np.array(["a", "b"])).tolist()
    [1, 0]
    """
    from pandas import factorize  # it keeps 1 and "1" apart

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
    """Labels as an array, one for each row (n,)."""
    values = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise ShapeError(f"labels have shape {values.shape}, expected one for each row (n,)")
    return values
