"""The protocol of the paper's experiments (section 4.1): data sets, splits, standardisation."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from rue import datasets
from rue.datasets import standard_splits
from rue.datasets.splits import STANDARD_SEED
from rue.features import Standardiser
from rue.result import Array

Protocol = Literal["paper", "standard"]

LARGE = ("kin8nm", "naval", "power", "wine")
SMALL_SAMPLE = 600  # training rows of the large sets, "to simulate a small data regime"
SPLITS = 20
TITLES = {name: name.capitalize() for name in datasets.NAMES}


@dataclass(frozen=True)
class Problem:
    """One split: standardised training rows and test inputs, and the test targets in their own units."""

    split: int  # also the seed of whatever is random about it
    X: Tensor = field(repr=False)  # (n, p) float32
    y: Tensor = field(repr=False)  # (n,)
    X_new: Tensor = field(repr=False)  # (m, p)
    target: Array = field(repr=False)  # (m,)
    units: Standardiser = field(repr=False)  # of y

    def to(self, device: str) -> "Problem":
        """The same with its tensors elsewhere."""
        return replace(self, X=self.X.to(device), y=self.y.to(device), X_new=self.X_new.to(device))


def protocols(name: str) -> tuple[Protocol, ...]:
    """The paper trains on nine tenths of a small set, as everyone does: only for large ones the two differ."""
    return ("paper", "standard") if name in LARGE else ("paper",)


def problems(
    name: str, protocol: Protocol, splits: int, folder: Path | None = None, seed: int = STANDARD_SEED
) -> list[Problem]:
    """The first splits of a data set."""
    data = datasets.load(name, folder)
    train = SMALL_SAMPLE if protocol == "paper" and name in LARGE else None
    found = []
    for number, split in enumerate(standard_splits(len(data), splits, train, seed)):
        of_x, of_y = Standardiser.of(data.X[split.train]), Standardiser.of(data.y[split.train])
        found.append(
            Problem(
                split=number,
                X=_tensor(of_x(data.X[split.train])),
                y=_tensor(of_y(data.y[split.train])),
                X_new=_tensor(of_x(data.X[split.test])),
                target=data.y[split.test],
                units=of_y,
            )
        )
    return found


def _tensor(values: Array) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)
