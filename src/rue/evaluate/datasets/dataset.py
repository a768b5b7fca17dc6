"""A data set as arrays, with its source, licence and remarks."""

from dataclasses import dataclass, field

import numpy as np

from rue.core.arrays import Array


@dataclass(frozen=True)
class Dataset:
    """Inputs (n, p), targets (n,), the names of both, their source and licence."""

    name: str
    X: Array = field(repr=False)
    y: Array = field(repr=False)
    features: tuple[str, ...] = field(repr=False)
    target: str
    source: str
    licence: str
    note: str = ""

    def __len__(self) -> int:
        return len(self.y)

    def __post_init__(self) -> None:
        for values in (self.X, self.y):
            np.asarray(values).flags.writeable = False
