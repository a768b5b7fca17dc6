"""A boosted ensemble with its structure held fixed: linear in its leaf values, f_k(x) = base_k + Σₜ θ[leafₜ(x)]."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.concepts import Facts, Family, Inputs
from rue.core.errors import ModelError, SettingError
from rue.core.stored import storable
from rue.losses import Loss
from rue.models.reading import read_leaf
from rue.models.tables import as_points
from rue.models.trees.leaf_projection import SIZE, LeafProjection
from rue.models.trees.noted import Noted

LEAVES = "leaves"  # the key among the inputs of the leaf in each tree, counted from zero
MANY = SIZE  # with more leaf values than this they are projected
FEW = 1_024  # the size of the projection where speed matters more than precision
LEAST = 2.0  # the l2 that shrinkage by the learning rate corresponds to: see `leaf_penalty`
HELD_FIXED = (
    "the structure of the trees: a new training set moves the leaf values only, so that the plain variance is too "
    "small where splits would move"
)

LeafPenalty = float | Mapping[str, float] | None


@storable
@dataclass(frozen=True)
class BoostedTrees:
    """What a reader takes from a library or a file: T trees, their leaf values, and what they were grown for."""

    values: NDArray[np.float64] = field(repr=False)  # (d,), tree after tree
    counts: NDArray[np.int64] = field(repr=False)  # (T,), leaves of each tree
    output: NDArray[np.int64] = field(repr=False)  # (T,), the output each tree adds to
    base: NDArray[np.float64] = field(repr=False)  # (k,)
    loss: Loss
    learning_rate: float
    l2: float | None  # on the leaf values of one tree; None where it is unknown
    noted: Noted | None = field(default=None, repr=False)  # None where it cannot be compared with rows


@storable
@dataclass(frozen=True)
class TreeCore:
    """The core of an ensemble; inputs are leaves (n, T), and points that distances are measured on.

    With many leaves theta is not the leaf values but coordinates z of a random projection, zero at the trained model:
    z adds a change to the outputs of the exact leaf values.
    """

    sketched: ClassVar[None] = None
    ridge: ClassVar[None] = None
    eigenbases: ClassVar[None] = None
    few_outputs: ClassVar[None] = None
    gradient_products: ClassVar[None] = None
    by_layer: ClassVar[None] = None

    ensemble: BoostedTrees
    theta: Tensor = field(repr=False)
    l2: float  # λ of ½λ‖θ‖²
    why: str  # how λ was chosen
    projection: LeafProjection | None = field(default=None, repr=False)

    @property
    def stated(self) -> bool:
        """True: the penalty is read from the ensemble."""
        return True

    @property
    def family(self) -> Family:
        """The family of the loss; not stationary, because leaf values are fitted tree by tree."""
        return replace(
            self.ensemble.loss.family,
            stationary=False,
            grown=True,
            projected=self.projection is not None,
            held_fixed=HELD_FIXED,
        )

    @cached_property
    def _first(self) -> Tensor:
        """The number of the first leaf of each tree (T,)."""
        counts = torch.from_numpy(self.ensemble.counts)
        return counts.cumsum(0) - counts

    @cached_property
    def _output(self) -> Tensor:
        return torch.from_numpy(self.ensemble.output)

    @cached_property
    def _adds(self) -> Tensor:
        """Indicators (T, k) of the output that each tree adds to."""
        return torch.nn.functional.one_hot(self._output, self.k).double()

    @cached_property
    def _values(self) -> Tensor:
        return torch.from_numpy(self.ensemble.values)

    @property
    def k(self) -> int:
        """The number of outputs."""
        return len(self.ensemble.base)

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at these parameters."""
        leaf = self._leaf(inputs)
        exact = (theta if self.projection is None else self._values)[leaf] @ self._adds
        outputs = torch.from_numpy(self.ensemble.base) + exact
        if self.projection is None or theta is self.theta:  # z is zero at the trained model: nothing to add
            return outputs
        return outputs + self.projection.features(leaf, self._output, self.k) @ theta

    @property
    def loss(self) -> Loss:
        """The loss that the trees were grown for."""
        return self.ensemble.loss

    def penalty(self, theta: Tensor) -> Tensor:
        """½λ‖θ‖², with the same λ under a projection, which keeps lengths."""
        return 0.5 * self.l2 * theta.square().sum()

    @property
    def centre(self) -> Tensor:
        """Zero: leaf values, or their projection, are shrunk towards it."""
        return torch.zeros_like(self.theta)

    def jacobian(self, inputs: Inputs) -> Tensor:
        """Indicators of the leaves, or their projection: (c, k, d) in float64."""
        leaf = self._leaf(inputs)
        if self.projection is not None:
            return self.projection.features(leaf, self._output, self.k)
        rows = torch.zeros(len(leaf), self.k, self.theta.numel(), dtype=torch.float64)
        rows[torch.arange(len(leaf))[:, None], self._output, leaf] = 1.0
        return rows

    def contents(self) -> Iterator[Tensor]:
        """Leaf values, and the number of leaves of each tree."""
        yield self._values
        yield torch.from_numpy(self.ensemble.counts)

    def describe(self) -> Facts:
        """Loss, size, what is held fixed, and how λ was chosen."""
        d = len(self.ensemble.values)
        projected = f"random projection of {d} leaf values to {self.theta.numel()}"
        return {
            "loss": self.ensemble.loss.name,
            "l2": self.l2,
            "l2_reason": self.why,
            "l2_given": True,
            "trees": len(self.ensemble.counts),
            "structure": "exact leaf values" if self.projection is None else projected,
            "held_fixed": HELD_FIXED,
            "dtype": "float64",
            "device": "cpu",
        }

    def _leaf(self, inputs: Inputs) -> Tensor:
        return inputs[LEAVES].long() + self._first


class TreeReading:
    """Reads leaves and points of a table, and targets, for an ensemble."""

    def read(self, core: TreeCore, inputs: Any) -> Inputs:  # noqa: ARG002  the signature of all readings
        """Leaves (n, T) as whole numbers, points (n, p) and levels (n, q)."""
        leaf = torch.as_tensor(np.asarray(inputs[LEAVES]), dtype=torch.int32)
        return {LEAVES: leaf.reshape(len(leaf), -1), **as_points(inputs)}

    def read_targets(self, core: TreeCore, targets: Any) -> Any:
        """Targets as the loss takes them, in float64."""
        read = read_leaf(targets, torch.from_numpy(core.ensemble.values), whole_numbers_in_frames=True)
        fit_targets = core.loss.fit_targets
        fitted = read if fit_targets is None else fit_targets(read, core.k)
        return fitted.double() if fitted.is_floating_point() else fitted


def tree_core(ensemble: BoostedTrees, l2: LeafPenalty = None, *, size: int | None = None) -> TreeCore:
    """The core of an ensemble, projected to `size` coordinates if given, or if there are many leaves."""
    if not len(ensemble.counts):
        raise ModelError("the ensemble has no trees; train it for at least one round")
    value, why = leaf_penalty(ensemble, l2)
    d = len(ensemble.values)
    size = SIZE if size is None and d > MANY else size
    if size is None:
        return TreeCore(ensemble, torch.from_numpy(ensemble.values), value, why)
    projection = LeafProjection.drawn(d, size)
    return TreeCore(ensemble, torch.zeros(projection.size, dtype=torch.float64), value, why, projection)


def through_few_numbers(core: TreeCore) -> TreeCore:
    """An ensemble projected to `FEW` coordinates: precise enough for a spread, in a tenth of the time."""
    return core if core.theta.numel() <= FEW else tree_core(core.ensemble, core.l2, size=FEW)


def leaf_penalty(ensemble: BoostedTrees, l2: LeafPenalty) -> tuple[float, str]:
    """λ of the penalty on all leaf values, and a text about how it was chosen.

    Boosting sums trees that are each shrunk by the learning rate: λ = l2/rate. Shrinkage itself regularises, about as
    much as an l2 of 2: on 32 LightGBM ensembles (UCI sets, 380 to 6,750 rows, l2 0 and 1) leave-one-out errors at
    λ = 2/rate were .77 to 1.59 of the test errors (at 1/rate up to 2.8, at 5/rate down to .32). Choosing λ by ridge
    regression on the leaves fails: its leave-one-out error has no minimum for an ensemble that fits every row.
    """
    if isinstance(l2, Mapping) or (l2 is not None and not (isfinite(l2) and l2 > 0)):
        raise SettingError(f"l2 of a tree ensemble is one number above 0, the λ of ½λ‖leaf values‖², got {l2!r}")
    if l2 is not None:
        return float(l2), "given"
    rate = ensemble.learning_rate
    if ensemble.l2 is None:
        return LEAST / rate, f"{LEAST:g}/learning_rate of {rate:g}: the ensemble does not say its l2"
    if ensemble.l2 < LEAST:
        own = f"its own l2 of {ensemble.l2:g} does less than shrinking"
        return LEAST / rate, f"{LEAST:g}/learning_rate of {rate:g}: {own}"
    return ensemble.l2 / rate, f"l2/learning_rate = {ensemble.l2:g}/{rate:g}"
