"""A case: one table, so many training rows, one split; standardised by the training rows."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from practice_parts.tables import CLASSES, Table

TEST_ROWS = 500
SIZES = {400: 520, 1500: 1900}  # training rows, and the rows that a table must have for them


@dataclass(frozen=True)
class Case:
    """Inputs (n, p) and targets (n,) to train on, and the test rows, all standardised float32 (classes: int64)."""

    table: Table
    n: int
    split: int
    X: Tensor
    y: Tensor
    X_test: Tensor
    y_test: Tensor
    classes: int | None

    @cached_property
    def name(self) -> str:
        return f"{self.table.name}-n{self.n}-s{self.split}"


def draw(tables: Path, table: Table, n: int, split: int) -> Case:
    """Draw disjoint rows to train on and to test on."""
    X, y = _ordered(tables, table, n, split)
    train, test = slice(n), slice(n, n + TEST_ROWS)
    classes = int(y.max()) + 1 if table.kind == CLASSES else None
    return Case(table, n, split, X[train], y[train], X[test], y[test], classes)


def others(tables: Path, table: Table, n: int, split: int) -> tuple[Tensor, Tensor]:
    """The rows that a case neither trains nor tests on, standardised by those it trains on."""
    X, y = _ordered(tables, table, n, split)
    return X[n + TEST_ROWS :], y[n + TEST_ROWS :]


def sizes(tables: Path, table: Table) -> list[int]:
    """The numbers of training rows that a table is large enough for."""
    with np.load(tables) as file:
        rows = len(file[f"{table.name}/y"])
    return [n for n, needed in SIZES.items() if rows >= needed]


def _ordered(tables: Path, table: Table, n: int, split: int) -> tuple[Tensor, Tensor]:
    """All rows in the order of the split, standardised by the first n."""
    with np.load(tables) as file:
        X, y = file[f"{table.name}/X"].astype(np.float64), file[f"{table.name}/y"]
    if len(y) < SIZES[n]:
        raise ValueError(f"{table.name} has {len(y)} rows, wanted {SIZES[n]} to train on {n}")
    order = np.random.default_rng([split, n]).permutation(len(y))
    X = _standardised(X, order[:n]).astype(np.float32)
    if table.kind != CLASSES:
        y = _standardised(y.astype(np.float64), order[:n]).astype(np.float32)
    return torch.from_numpy(X[order]), torch.from_numpy(y[order])


def _standardised(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    spread = values[train].std(axis=0)
    return (values - values[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
