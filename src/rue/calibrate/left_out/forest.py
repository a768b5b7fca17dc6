"""A random forest as witness: a row is predicted by the trees that were not grown on it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.calibrate.array_forest import ArrayForest
from rue.calibrate.error_model import columns, without_group
from rue.calibrate.left_out.witness import Witness, codes_of
from rue.core.arrays import Array, Whole
from rue.core.concepts import Decision, Inputs, Objective, TrainingSet
from rue.core.derivatives import outputs
from rue.core.nested import joined, take
from rue.core.stored import storable
from rue.data.features import Standardiser, coordinates, training_points
from rue.models.trees.in_bag import Draws

TREES, FEWEST = 300, 100  # maximum and minimum number of trees
WORK = 100_000  # rows that all trees together are grown on, within these limits
ROWS = 800  # maximum number of rows for each tree
FEATURES = 1 / 3  # fraction of the columns tried at each split
LEAF = 2  # minimum number of rows in a leaf for classes, so that leaves give frequencies and not single labels


@storable
@dataclass(frozen=True)
class ForestModel:
    """Predicts outputs at new inputs: means of targets, or logits from class frequencies."""

    draws: Draws = field(repr=False)  # of rows for the trees, which explanations ask for
    trees: ArrayForest = field(repr=False)
    standardise: Standardiser = field(repr=False)
    decision: Decision | None
    least: float  # smallest class frequency, before it becomes a logit
    units: Standardiser = field(repr=False)  # of the targets, because trees treat very small numbers as equal
    place: Whole = field(repr=False)  # (n,), the order of the rows in which trees draw them

    def __call__(self, inputs: Inputs) -> Tensor:
        """Outputs (c, k) in float64."""
        return self.outputs(self.trees(self.points(inputs)))

    def points(self, inputs: Inputs) -> NDArray[np.float32]:
        """Inputs as the trees take them (c, p)."""
        return self.standardise(coordinates(inputs)).astype(np.float32)

    def outputs(self, means: Array) -> Tensor:
        """Leaf means (c, k) as outputs."""
        if self.decision is None:
            return torch.from_numpy(means * self.units.scale + self.units.mean)
        frequencies = torch.from_numpy(means)
        if self.decision == "largest":
            return frequencies.clamp_min(self.least).log()
        return torch.logit(frequencies, eps=self.least)


def forest_witness(model: Objective, data: TrainingSet, seed: int) -> Witness:
    """A forest on all rows; a row is predicted by trees that have not drawn it, a group by forests without it."""
    standardise, all_points = training_points(data)
    batches = list(data.batches())
    k = outputs(model, take(batches[0].inputs, slice(0, 1))).shape[1]
    codes, decision = codes_of(model, joined([batch.targets for batch in batches]), k).numpy(), model.family.decision
    weight, unit = data.weight.numpy(), data.unit.numpy()
    # sorted, because trees draw rows by their position: the order of the rows must not matter
    place = np.lexsort(np.hstack([all_points, weight[:, None]]).T)
    points, units = all_points[place].astype(np.float32), Standardiser.of(codes)
    values = units(codes[place]) if decision is None else codes[place]
    grown = _forest(len(points), decision is not None, seed)
    target = values[:, 0] if values.shape[1] == 1 else values
    counted = None if (weight == 1).all() else weight[place]
    forest = grown.fit(points, target, sample_weight=counted)
    left_out = (
        _out_of_bag(forest, points, values, weight[place])
        if data.units == data.n
        else without_group(forest, points, target, weight[place], unit[place])
    )
    says = ForestModel(
        Draws.of(forest), ArrayForest.of(forest), standardise, decision, 1 / (4 * len(points)), units, place
    )
    return Witness(says, says.outputs(left_out[np.argsort(place)]), {"witness_trees": len(forest.estimators_)})


def _forest(n: int, classes: bool, seed: int) -> Any:
    """An unfitted forest. Classes are regressed as zeros and ones, so that leaf means are class frequencies."""
    from sklearn.ensemble import RandomForestRegressor

    rows = min(n, ROWS)
    return RandomForestRegressor(
        int(np.clip(WORK // rows, FEWEST, TREES)),
        min_samples_leaf=LEAF if classes else 1,
        max_features=FEATURES,
        max_samples=None if n <= ROWS else ROWS,
        random_state=seed,
        n_jobs=torch.get_num_threads(),
    )


def _out_of_bag(forest: Any, points: Any, values: Array, weight: Array) -> Array:
    """The mean (n, columns) over the trees that have not drawn a row; the overall mean for rows that all have drawn."""
    total, count = np.zeros_like(values), np.zeros(len(values))
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        unseen = np.ones(len(values), dtype=bool)
        unseen[drawn] = False
        if unseen.any():
            total[unseen] += columns(tree.predict(points[unseen]))
        count += unseen
    usual = np.average(values, axis=0, weights=weight)
    return np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], usual)
