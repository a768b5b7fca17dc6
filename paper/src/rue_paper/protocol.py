"""The protocol of the paper's experiments (section 4.1): data sets, splits, standardisation."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from rue.core.arrays import Array
from rue.core.errors import DataError
from rue.data.features import Standardiser
from rue.evaluate import datasets
from rue.evaluate.datasets import Dataset, gap_split, standard_splits, tail_split
from rue.evaluate.datasets.splits import STANDARD_SEED, RowNumbers, Split

Protocol = Literal["paper", "standard", "gap", "tail"]

LARGE = ("kin8nm", "naval", "power", "wine")
SMALL_SAMPLE = 600  # training rows of the large sets, "to simulate a small data regime"
SPLITS = 20
REGIONS: dict[Protocol, Callable[[Array], Split]] = {"gap": gap_split, "tail": tail_split}
MOST_TESTED = 2_000  # rows of a region, drawn at random
TITLES = {name: name.capitalize() for name in datasets.NAMES}


@dataclass(frozen=True)
class SplitProblem:
    """One split: standardised training rows and test inputs, and the test targets in their own units."""

    split: int  # its number, also used as the seed of everything random in it
    X: Tensor = field(repr=False)  # (n, p) float32
    y: Tensor = field(repr=False)  # (n,)
    X_new: Tensor = field(repr=False)  # (m, p)
    target: Array = field(repr=False)  # (m,)
    units: Standardiser = field(repr=False)  # of y
    feature: int = -1  # whose region is left out of the training rows; none in a random split

    def to(self, device: str) -> "SplitProblem":
        """The same problem with its tensors on another device."""
        return replace(self, X=self.X.to(device), y=self.y.to(device), X_new=self.X_new.to(device))


def protocols(name: str) -> tuple[Protocol, ...]:
    """The protocols of a data set; for small ones the paper's and the standard protocol are the same."""
    return ("paper", "standard", *REGIONS) if name in LARGE else ("paper", *REGIONS)


def nine_tenths(name: str) -> Protocol:
    """The protocol under which nine tenths of a set train."""
    return "standard" if name in LARGE else "paper"


def how_many(name: str, protocol: Protocol, splits: int, folder: Path | None = None) -> int:
    """The number of splits: as many random ones as wanted, or one for each feature that has regions."""
    return len(_features(datasets.load(name, folder), protocol)) if protocol in REGIONS else splits


def how_many_lack(name: str, protocol: Protocol, folder: Path | None = None) -> int:
    """Features that have no such region."""
    data = datasets.load(name, folder)
    return len(data.X[0]) - len(_features(data, protocol))


def problems(
    name: str, protocol: Protocol, splits: int, folder: Path | None = None, seed: int = STANDARD_SEED
) -> list[SplitProblem]:
    """The first splits of a data set."""
    data = datasets.load(name, folder)
    features = _features(data, protocol)[:splits] if protocol in REGIONS else [-1] * splits
    if protocol in REGIONS:
        chosen = [_thinned(REGIONS[protocol](data.X[:, j]), name, j) for j in features]
    else:
        train = SMALL_SAMPLE if protocol == "paper" and name in LARGE else None
        chosen = standard_splits(len(data), splits, train, seed)
    standardised = []
    for number, (split, feature) in enumerate(zip(chosen, features, strict=True)):
        of_x, of_y = Standardiser.of(data.X[split.train]), Standardiser.of(data.y[split.train])
        standardised.append(
            SplitProblem(
                split=number,
                X=_tensor(of_x(data.X[split.train])),
                y=_tensor(of_y(data.y[split.train])),
                X_new=_tensor(of_x(data.X[split.test])),
                target=data.y[split.test],
                units=of_y,
                feature=feature,
            )
        )
    return standardised


def _features(data: Dataset, protocol: Protocol) -> list[int]:
    """Columns with a low, a middle and a high part."""
    columns = []
    for j in range(data.X.shape[1]):
        try:
            REGIONS[protocol](data.X[:, j])
        except DataError:
            continue
        columns.append(j)
    return columns


def _thinned(split: Split, name: str, seed: int) -> Split:
    """A region's split with as many training rows as the paper has of a large set, and a limit on its test rows."""

    def drawn(rows: RowNumbers, most: int) -> RowNumbers:
        return np.random.default_rng(seed).permutation(rows)[:most]

    train = drawn(split.train, SMALL_SAMPLE) if name in LARGE else split.train
    return Split(train, drawn(split.test, MOST_TESTED) if len(split.test) > MOST_TESTED else split.test)


def _tensor(values: Array) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)
