"""The effect of training rows on the prediction of a forest, by the leaves they share with the input."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.core.arrays import Array, Whole
from rue.core.concepts import Inputs, Resampler
from rue.core.resample import generator
from rue.core.stored import storable_rows
from rue.data.rows import Rows, sample_numbers
from rue.explain.lens import MODEL, Sight, Usual, of_output
from rue.explain.misfit import ROWS, usual_rows
from rue.models.trees.leaf_influence import LeafInfluence, averaging


@storable_rows
@dataclass(frozen=True)
class LeafLens:
    """A prediction is a weighted mean of training targets: aᵢ(x) is the weight of row i in it, and k = aᵢ².

    Rows that share leaves are similar (Breiman's proximity). The density is Σ aᵢ², one over the effective number of
    rows in the mean.
    """

    forest: Any = field(repr=False)  # the model's core
    influence: LeafInfluence = field(repr=False)
    leaf: Whole = field(repr=False)  # (n, T)
    targets: Array = field(repr=False)  # (n, k)
    data: Rows = field(repr=False)
    resampler: Resampler

    @property
    def whose(self) -> str:
        """The model that is explained, in words."""
        return MODEL

    @cached_property
    def residual(self) -> Array:
        """Out-of-bag prediction minus target."""
        return self.influence.out_of_bag - self.targets

    @property
    def prediction(self) -> Array:
        """The out-of-bag prediction."""
        return self.influence.out_of_bag

    def usual(self, output: int) -> Usual | None:
        """The measures of some training rows, by the trees grown without their unit; None if there are none."""
        if output not in self._usual:
            self._usual[output] = self._measured(output)
        return self._usual[output]

    @cached_property
    def _usual(self) -> dict[int, Usual | None]:
        return {}

    def _measured(self, output: int) -> Usual | None:
        at = sample_numbers(self.data)
        usable = np.flatnonzero((self.influence.unseen.any(axis=1) & (self.data.weight.numpy() > 0))[at])
        if len(usable) < 2:
            return None
        drawn = torch.randperm(len(usable), generator=generator(0))[:ROWS].numpy()
        rows = np.sort(usable[drawn])
        share = self._mean(self.leaf[at[rows]], self.influence.unseen[at[rows]]) @ self.influence.share
        density = np.asarray(share.multiply(share).sum(axis=1)).ravel()
        residual = of_output(self.residual, output)[at]
        return usual_rows(rows, density, residual, self.data.weight.numpy()[at], self._similar_rows)

    def look(self, inputs: Inputs, contrast: Tensor) -> Sight:
        """Find the leaves of the inputs, and the training rows in them."""
        mean = self._mean(self.forest.leaf(inputs).numpy())
        mixed = contrast.numpy()
        moved = sum(mixed[:, j, None] * (mean @ pull).toarray() for j, pull in enumerate(self.influence.pulls))
        pull = -np.asarray(moved)  # more weight moves the mean towards the row's target, against the slope of its loss
        share = (mean @ self.influence.share).toarray()
        kernel = (mixed**2).sum(axis=1, keepdims=True) * share**2
        return Sight(pull, pull, kernel, (mean @ self._members).toarray(), (share**2).sum(axis=1))

    def without(self, inputs: Inputs, contrast: Tensor, rows: Whole) -> float:
        """The sum of the changes without each unit, a first-order approximation."""
        return float(self.look(inputs, contrast).change[0][np.unique(self.data.unit.numpy()[rows])].sum())

    def _similar_rows(self, rows: Whole) -> Array:
        at = sample_numbers(self.data)
        proximity = (self._mean(self.leaf[at[rows]], self.influence.unseen[at[rows]]) @ self._members[:, at]).toarray()
        unit = self.data.unit.numpy()[at]
        return np.where(unit[rows][:, None] == unit[None, :], 0.0, proximity)

    @cached_property
    def _members(self) -> Any:
        """Sparse (d, n): which rows are in which leaf."""
        from scipy.sparse import csr_array

        n, trees = self.leaf.shape
        places, rows = self.leaf.ravel(), np.repeat(np.arange(n), trees)
        return csr_array((np.ones(n * trees), (places, rows)), shape=(self.influence.share.shape[0], n))

    def _mean(self, leaf: Whole, use: Any = None) -> Any:
        return averaging(leaf, self.influence.share.shape[0], use)
