"""A boosted ensemble with its structure held fixed: linear in its leaf values, f_k(x) = base_k + Σₜ θ[leafₜ(x)]."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any, NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.concepts import Batches, Facts, Family, Inputs, Model
from rue.core.errors import ModelError, SettingError
from rue.losses import Loss
from rue.models.reading import read_leaf
from rue.models.tables import as_points
from rue.models.trees.leaf_projection import SIZE, LeafProjection

LEAVES = "leaves"  # the part of the inputs that predicts: a leaf of each tree, counted from zero
MANY = SIZE  # leaf values above which they are seen through a projection
FEW = 1_024  # numbers that a quick look at many leaves takes
LEAST = 2.0  # the l2 that shrinking every tree is worth: see `leaf_penalty`
HELD_FIXED = (
    "the structure of the trees: a new training set moves the leaf values only, so that the plain variance is too "
    "small where splits would move"
)

Penalty = float | Mapping[str, float] | None


@dataclass(frozen=True)
class Ensemble:
    """What a reader finds: T trees, the leaf values of all, and what they were grown for."""

    values: NDArray[np.float64] = field(repr=False)  # (d,), tree after tree
    counts: NDArray[np.int64] = field(repr=False)  # (T,), leaves of each tree
    output: NDArray[np.int64] = field(repr=False)  # (T,), the output each tree adds to
    base: NDArray[np.float64] = field(repr=False)  # (k,)
    loss: Loss
    learning_rate: float
    l2: float | None  # on the leaf values of one tree; None where nobody knows


@dataclass(frozen=True)
class TreeModel:
    """The four functions of an ensemble; inputs are leaves (n, T), and points that distances are measured on.

    With many leaves theta is not the leaf values but z, zero, of a random projection of them: predictions are always
    those of all leaf values.
    """

    ensemble: Ensemble
    theta: Tensor = field(repr=False)
    l2: float  # λ of ½λ‖θ‖²
    why: str  # this λ
    projection: LeafProjection | None = field(default=None, repr=False)

    @property
    def stated(self) -> bool:
        """Read off the ensemble."""
        return True

    @property
    def family(self) -> Family:
        """The loss knows; leaf values are settled tree by tree."""
        return replace(
            self.ensemble.loss.family,
            stationary=False,
            grown=True,
            projected=self.projection is not None,
            held_fixed=HELD_FIXED,
        )

    @property
    def response(self) -> None:
        """That of an estimator is around this."""

    @property
    def classes(self) -> None:
        """Those of an estimator are around this."""

    @cached_property
    def _first(self) -> Tensor:
        """Where each tree's leaves begin (T,)."""
        counts = torch.from_numpy(self.ensemble.counts)
        return counts.cumsum(0) - counts

    @cached_property
    def _output(self) -> Tensor:
        return torch.from_numpy(self.ensemble.output)

    @cached_property
    def _adds(self) -> Tensor:
        """(T, k), one where a tree adds to an output."""
        return torch.nn.functional.one_hot(self._output, self.k).double()

    @cached_property
    def _values(self) -> Tensor:
        return torch.from_numpy(self.ensemble.values)

    @property
    def k(self) -> int:
        """Outputs."""
        return len(self.ensemble.base)

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at these parameters."""
        leaf = self._leaf(inputs)
        exact = (theta if self.projection is None else self._values)[leaf] @ self._adds
        outputs = torch.from_numpy(self.ensemble.base) + exact
        if self.projection is None or theta is self.theta:  # z is zero there: nothing to project
            return outputs
        return outputs + self.projection.features(leaf, self._output, self.k) @ theta

    def loss(self, outputs: Tensor, targets: Any) -> Tensor:
        """Loss of each example (n,)."""
        return self.ensemble.loss.value(outputs, targets)

    def loss_hessian(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """In closed form for named losses."""
        hessian = self.ensemble.loss.hessian
        return None if hessian is None else hessian(outputs, targets)

    def coupling(self, outputs: Tensor, targets: Any, weight: Tensor) -> NoReturn:  # noqa: ARG002  the protocol's
        """No tree library we read trains coupled rows."""
        raise ModelError(f"loss {self.ensemble.loss.name} of an ensemble of trees has no coupled rows; use a module")

    def penalty(self, theta: Tensor) -> Tensor:
        """½λ‖θ‖²; a projection keeps lengths, so that λ stays."""
        return 0.5 * self.l2 * theta.square().sum()

    @property
    def centre(self) -> Tensor:
        """Leaf values, or what they are projected to, are shrunk towards zero."""
        return torch.zeros_like(self.theta)

    def jacobian(self, inputs: Inputs) -> Tensor:
        """Indicators of the leaves, or their projection: (c, k, d) in float64."""
        leaf = self._leaf(inputs)
        if self.projection is not None:
            return self.projection.features(leaf, self._output, self.k)
        rows = torch.zeros(len(leaf), self.k, self.theta.numel(), dtype=torch.float64)
        rows[torch.arange(len(leaf))[:, None], self._output, leaf] = 1.0
        return rows

    def answer(self, inputs: Any) -> None:
        """The outputs are the prediction."""

    def read(self, inputs: Any) -> Inputs:
        """Leaves (n, T) as whole numbers, points (n, p) and levels (n, q)."""
        leaf = torch.as_tensor(np.asarray(inputs[LEAVES]), dtype=torch.int32)
        return {LEAVES: leaf.reshape(len(leaf), -1), **as_points(inputs)}

    def read_targets(self, targets: Any) -> Any:
        """What the loss takes, in float64."""
        read = read_leaf(targets, self._values, whole_numbers_in_frames=True)
        fit_targets = self.ensemble.loss.fit_targets
        fitted = read if fit_targets is None else fit_targets(read, self.k)
        return fitted.double() if fitted.is_floating_point() else fitted

    def bind(self, inputs: Inputs, total_weight: float, batches: Batches | None = None) -> Self:  # noqa: ARG002  same
        """All is known."""
        return self

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


def tree_model(ensemble: Ensemble, l2: Penalty = None, *, size: int | None = None) -> TreeModel:
    """The model of an ensemble; `size` asks for a projection to that many numbers, else many leaves do."""
    if not len(ensemble.counts):
        raise ModelError("the ensemble has no trees; train it for at least one round")
    value, why = leaf_penalty(ensemble, l2)
    d = len(ensemble.values)
    size = SIZE if size is None and d > MANY else size
    if size is None:
        return TreeModel(ensemble, torch.from_numpy(ensemble.values), value, why)
    projection = LeafProjection.drawn(d, size)
    return TreeModel(ensemble, torch.zeros(projection.size, dtype=torch.float64), value, why, projection)


def few_numbers(model: Model) -> Model:
    """An ensemble of many leaves seen through `FEW` numbers, in or out of an estimator; any other model as it is.

    Enough for a spread, and a tenth of the time.
    """
    core: Any = getattr(model, "core", model)
    if not isinstance(core, TreeModel) or core.theta.numel() <= FEW:
        return model
    seen = tree_model(core.ensemble, core.l2, size=FEW)
    return seen if core is model else replace(model, core=seen)  # type: ignore[type-var]


def leaf_penalty(ensemble: Ensemble, l2: Penalty) -> tuple[float, str]:
    """λ of the leaf values taken together, and why.

    Boosting sums trees that are each shrunk by the learning rate: λ = l2/rate. Shrinking itself regularises, about as
    much as an l2 of 2: on 32 LightGBM ensembles (UCI sets, 380 to 6,750 rows, l2 0 and 1) leave-one-out errors at
    λ = 2/rate were .77 to 1.59 of the test errors (at 1/rate up to 2.8, at 5/rate down to .32). To choose λ by ridge
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
