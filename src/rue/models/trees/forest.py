"""A forest: the mean of trees whose leaves are means of the rows they were grown on. It minimises no one objective."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.arrays import Array
from rue.core.concepts import Decision, Facts, Family, Inputs
from rue.core.stored import storable
from rue.losses.loss import Loss, like_outputs, whole
from rue.models.reading import read_leaf
from rue.models.tables import as_points
from rue.models.trees.tree_model import LEAVES

HELD_FIXED = (
    "the structure of the trees and which rows each has seen: other weights move the leaf means only, so that the "
    "plain variance is too small where splits would move"
)


@storable
@dataclass(frozen=True)
class Forest:
    """A forest as a reader takes it from a library: leaf values, and the rows that each tree was grown on."""

    values: Array = field(repr=False)  # (d, k), of all leaves: means, or shares of the classes
    counts: NDArray[np.int64] = field(repr=False)  # (T,), leaves of each tree
    labels: bool  # the targets are classes
    bootstrap: bool
    in_bag: Callable[[Array], Iterator[tuple[Array, NDArray[np.bool_]]]] = field(repr=False)  # see `in_bag.in_bag`


@storable
@dataclass(frozen=True)
class ForestCore:
    """Outputs are means of leaf values over trees; theta is all leaf values. It minimises no objective."""

    forest: Forest
    theta: Tensor = field(repr=False)  # (d·k,)

    @property
    def k(self) -> int:
        """The number of outputs: of targets, or of classes."""
        return self.forest.values.shape[1]

    @property
    def family(self) -> Family:
        """Gaussian for regression; decided by shares of votes for classes."""
        decision: Decision | None = "shares" if self.forest.labels else None
        return Family(gaussian=not self.forest.labels, decision=decision, joint=False, held_fixed=HELD_FIXED)

    @cached_property
    def first(self) -> Tensor:
        """The number of the first leaf of each tree (T,)."""
        counts = torch.from_numpy(self.forest.counts)
        return counts.cumsum(0) - counts

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """The mean over trees (m, k)."""
        return theta.view(-1, self.k)[self.leaf(inputs)].mean(1)

    def leaf(self, inputs: Inputs) -> Tensor:
        """The numbers (m, T) of the leaves, counted through all trees."""
        return inputs[LEAVES].long() + self.first

    @property
    def loss(self) -> Loss:
        """½‖y − f‖², for shares the Brier score: each leaf mean minimises it, but the forest does not."""
        return LEAF_MEANS

    def contents(self) -> Iterator[Tensor]:
        """Leaf values, and the number of leaves of each tree."""
        yield torch.from_numpy(self.forest.values)
        yield torch.from_numpy(self.forest.counts)

    def describe(self) -> Facts:
        """Trees, and what is held fixed."""
        return {
            "loss": LEAF_MEANS.name,
            "l2": 0.0,
            "l2_given": True,
            "trees": len(self.forest.counts),
            "structure": "exact leaf means",
            "held_fixed": HELD_FIXED,
            "dtype": "float64",
            "device": "cpu",
        }


class ForestReading:
    """Reads leaves and points of a table, and targets, for a forest."""

    def read(self, core: ForestCore, inputs: Any) -> Inputs:  # noqa: ARG002  the signature of all readings
        """Leaves (n, T), points (n, p) and levels (n, q)."""
        return {LEAVES: torch.as_tensor(np.asarray(inputs[LEAVES]), dtype=torch.int32), **as_points(inputs)}

    def read_targets(self, core: ForestCore, targets: Any) -> Tensor:
        """Numbers (n, k); labels as indicators of the classes."""
        read = read_leaf(targets, core.theta, whole_numbers_in_frames=True)
        if core.forest.labels and read.shape != (len(read), core.k):
            return torch.nn.functional.one_hot(whole(read.double(), core.k), core.k).double()
        return like_outputs(read, core.k).double()


def forest_core(forest: Forest) -> ForestCore:
    """The core of a forest."""
    return ForestCore(forest, torch.from_numpy(forest.values.reshape(-1)))


def _half_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * (targets - outputs).square().sum(-1)


def _half_square_hessian(outputs: Tensor, _: Tensor) -> Tensor:
    return torch.eye(outputs.shape[1], dtype=outputs.dtype).expand(len(outputs), -1, -1)


LEAF_MEANS = Loss("leaf means", _half_square, hessian=_half_square_hessian)
NO_OBJECTIVE = (
    "a forest is a mean of trees, each with its own leaf means, and minimises no one objective, so that there are no "
    "gradients to work with; use ForestRUE()"
)
NO_BAG = "every tree of this forest has seen all rows, so that none can speak for a row left out"
