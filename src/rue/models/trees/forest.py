"""A forest: the mean of trees whose leaves are means of the rows they were grown on. It minimises no one objective."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.arrays import Array
from rue.core.concepts import Batches, Decision, Facts, Family, Inputs
from rue.core.errors import ModelError
from rue.losses.loss import like_outputs, whole
from rue.models.reading import read_leaf
from rue.models.tables import as_points
from rue.models.trees.tree_model import LEAVES

HELD_FIXED = (
    "the structure of the trees and which rows each has seen: other weights move the leaf means only, so that the "
    "plain variance is too small where splits would move"
)


@dataclass(frozen=True)
class Forest:
    """What a reader finds."""

    values: Array = field(repr=False)  # (d, k), of all leaves: means, or shares of the classes
    counts: NDArray[np.int64] = field(repr=False)  # (T,), leaves of each tree
    labels: bool  # the targets are classes
    bootstrap: bool
    in_bag: Callable[[Array], Iterator[tuple[Array, NDArray[np.bool_]]]] = field(repr=False)  # by tree, from weights


@dataclass(frozen=True)
class ForestModel:
    """Outputs are mean leaf values, theta all of them; what wants the gradient of an objective is refused."""

    forest: Forest
    theta: Tensor = field(repr=False)  # (d·k,)

    @property
    def k(self) -> int:
        """Outputs: targets, or classes."""
        return self.forest.values.shape[1]

    @property
    def stated(self) -> bool:
        """There is none."""
        return True

    @property
    def family(self) -> Family:
        """Residuals of numbers are noise; classes have shares."""
        decision: Decision | None = "shares" if self.forest.labels else None
        return Family(gaussian=not self.forest.labels, decision=decision, joint=False, held_fixed=HELD_FIXED)

    @property
    def response(self) -> None:
        """The outputs are predictions."""

    @property
    def classes(self) -> None:
        """Those of an estimator are around this."""

    @cached_property
    def first(self) -> Tensor:
        """Where each tree's leaves begin (T,)."""
        counts = torch.from_numpy(self.forest.counts)
        return counts.cumsum(0) - counts

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """The mean over trees (m, k)."""
        return theta.view(-1, self.k)[self.leaf(inputs)].mean(1)

    def leaf(self, inputs: Inputs) -> Tensor:
        """Places (m, T) among the leaves of all trees."""
        return inputs[LEAVES].long() + self.first

    def loss(self, outputs: Tensor, targets: Any) -> Tensor:
        """½‖y − f‖², of shares: Brier's score; what each leaf mean minimises, though not the forest."""
        return 0.5 * (targets - outputs).square().sum(-1)

    def loss_hessian(self, outputs: Tensor, targets: Any) -> Tensor:  # noqa: ARG002  the protocol's
        """∂²ℓ/∂f² (n, k, k): ones on the diagonal. Of the parameters there is no curvature."""
        return torch.eye(outputs.shape[1], dtype=outputs.dtype).expand(len(outputs), -1, -1)

    def coupling(self, outputs: Tensor, targets: Any, weight: Tensor) -> NoReturn:  # noqa: ARG002  the protocol's
        """A forest has no objective."""
        raise _no_objective()

    def penalty(self, theta: Tensor) -> Tensor:
        """None."""
        return torch.zeros_like(theta).sum()

    @property
    def centre(self) -> Tensor:
        """Zeros: there is no penalty."""
        return torch.zeros_like(self.theta)

    def jacobian(self, inputs: Inputs) -> NoReturn:  # noqa: ARG002  the protocol's
        """Gradients of one objective are what a forest does not have."""
        raise _no_objective()

    def answer(self, inputs: Any) -> None:
        """The outputs are the prediction."""

    def read(self, inputs: Any) -> Inputs:
        """Leaves (n, T), points (n, p) and levels (n, q)."""
        return {LEAVES: torch.as_tensor(np.asarray(inputs[LEAVES]), dtype=torch.int32), **as_points(inputs)}

    def read_targets(self, targets: Any) -> Tensor:
        """Numbers (n, k), labels as indicators."""
        read = read_leaf(targets, self.theta, whole_numbers_in_frames=True)
        if self.forest.labels and read.shape != (len(read), self.k):
            return torch.nn.functional.one_hot(whole(read.double(), self.k), self.k).double()
        return like_outputs(read, self.k).double()

    def bind(self, inputs: Inputs, total_weight: float, batches: Batches | None = None) -> Self:  # noqa: ARG002  same
        """All is known."""
        return self

    def describe(self) -> Facts:
        """Trees, and what is held fixed."""
        return {
            "loss": "leaf means",
            "l2": 0.0,
            "l2_given": True,
            "trees": len(self.forest.counts),
            "structure": "exact leaf means",
            "held_fixed": HELD_FIXED,
            "dtype": "float64",
            "device": "cpu",
        }


def forest_model(forest: Forest) -> ForestModel:
    """The model of a forest."""
    return ForestModel(forest, torch.from_numpy(forest.values.reshape(-1)))


def _no_objective() -> ModelError:
    return ModelError(
        "a forest is a mean of trees, each with its own leaf means, and minimises no one objective, so that there are "
        "no gradients to work with; use ForestRUE()"
    )
