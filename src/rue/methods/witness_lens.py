"""Explanations for a model known by its predictions alone: the training rows that decide a witness's prediction."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.calibrate.left_out import Evidence
from rue.calibrate.left_out.forest import ForestModel
from rue.calibrate.left_out.honest import Mixed
from rue.calibrate.left_out.witness import codes_of
from rue.core.arrays import Array, Whole
from rue.core.concepts import Inputs, Resampler
from rue.core.model import Model
from rue.core.nested import joined
from rue.core.stored import storable
from rue.data.rows import Rows
from rue.explain.leaves import LeafLens
from rue.explain.lens import Sight, Usual
from rue.models.trees.forest import Forest
from rue.models.trees.in_bag import in_bag
from rue.models.trees.leaf_influence import leaf_influence


@storable
@dataclass(frozen=True)
class Leaves:
    """The leaves that inputs fall into, in the trees of a witness (a forest grown on the same rows)."""

    witness: ForestModel = field(repr=False)

    @cached_property
    def counts(self) -> Whole:
        """The number of leaves of each tree (T,)."""
        return np.asarray(np.add.reduceat(self.witness.trees.ends.astype(np.int64), self.witness.trees.roots))

    @cached_property
    def means(self) -> Array:
        """The means of all leaves (d, k), in the units of the targets."""
        means = self.witness.trees.value[self.witness.trees.ends]
        units = self.witness.units
        return means * units.scale + units.mean if self.witness.decision is None else means

    def leaf(self, inputs: Inputs) -> Tensor:
        """The numbers (c, T) of the leaves, counted through all trees."""
        trees = self.witness.trees
        return torch.from_numpy((np.cumsum(trees.ends) - 1)[trees.leaves(self.witness.points(inputs))])

    def in_bag(self, weight: Array) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
        """For each tree, weights and membership of the rows in the given order; the forest has them in another."""
        place = self.witness.place
        back = np.argsort(place)
        for used, seen in in_bag(self.witness.draws, weight[place]):
            yield used[back], seen[back]


@storable
@dataclass(frozen=True)
class WitnessLens:
    """The influence of training rows through the leaves of a witness, computed when first needed."""

    leaves: Leaves = field(repr=False)
    model: Model = field(repr=False)
    data: Rows = field(repr=False)
    resampler: Resampler

    @property
    def whose(self) -> str:
        """The name of the model that is explained."""
        return "the forest"

    @property
    def residual(self) -> Array:
        """Out-of-bag residuals."""
        return self._inside.residual

    @property
    def prediction(self) -> Array:
        """Out-of-bag predictions; for classes, the logarithms of their shares."""
        prediction = self._inside.prediction
        witness = self.leaves.witness
        return prediction if witness.decision is None else np.log(np.clip(prediction, witness.least, None))

    def usual(self, output: int) -> Usual | None:
        """Delegates to the leaves' lens."""
        return self._inside.usual(output)

    def without(self, inputs: Inputs, contrast: Tensor, rows: Whole) -> float:
        """Delegates to the leaves' lens."""
        return self._inside.without(inputs, contrast, rows)

    def look(self, inputs: Inputs, contrast: Tensor) -> Sight:
        """Delegates to the leaves' lens."""
        return self._inside.look(inputs, contrast)

    @cached_property
    def _inside(self) -> LeafLens:
        batches = list(self.data.batches())
        leaves, means = self.leaves, self.leaves.means
        targets = codes_of(self.model, joined([batch.targets for batch in batches]), means.shape[1]).numpy()
        labels = leaves.witness.decision is not None
        forest = Forest(means, leaves.counts, labels, bootstrap=True, in_bag=leaves.in_bag)
        leaf = torch.cat([leaves.leaf(batch.inputs) for batch in batches]).numpy()
        weight, unit = self.data.weight.numpy(), self.data.unit.numpy()
        influence = leaf_influence(forest, leaf, targets, weight, unit, left_out=True)
        return LeafLens(leaves, influence, leaf, targets, self.data, self.resampler)


def witness_lens(model: Model, evidence: Evidence, resampler: Resampler) -> WitnessLens | None:
    """The lens of the forest among the witnesses; None where there is none."""
    honest = evidence.honest
    witness = honest.first if isinstance(honest, Mixed) else honest
    return WitnessLens(Leaves(witness), model, evidence.rows, resampler) if isinstance(witness, ForestModel) else None
