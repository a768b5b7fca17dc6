"""Makes explanations of audited inputs, a block at a time to limit memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rue.core.arrays import Array, Whole
from rue.core.concepts import Inputs
from rue.core.model import Model
from rue.core.nested import leaves, take
from rue.core.resample import spread, untouched
from rue.data.rows import sample_numbers
from rue.explain.explanation import Explanation, Standing, Standings
from rue.explain.lens import Lens, Sight, of_output
from rue.explain.misfit import misfit
from rue.explain.missed import Missed, missed
from rue.explain.people import TrainingTable
from rue.explain.target import Target

CELLS = 2**21  # pairs of audited and training rows in memory at once


@dataclass(frozen=True)
class Explainer:
    """A lens, which computes influences, and the training rows as the user knows them."""

    lens: Lens = field(repr=False)
    training: TrainingTable = field(repr=False)
    missed: Missed = field(repr=False)

    @classmethod
    def of(cls, lens: Lens, model: Model, noun: str | None) -> "Explainer":
        """The explainer of a model with a lens; `noun` is the user's word for the units."""
        plain = "training rows" if lens.data.source.group is None else "groups"
        return cls(lens, TrainingTable(lens.data, noun or plain), missed(lens, model))

    def __call__(self, chunks: Iterable[Inputs], rows: Whole, target: Target) -> Iterator[list[Explanation]]:
        """Explanations of the wanted rows (s,), which must be in ascending order, for the numbers in `target`."""
        start, together = 0, max(1, CELLS // self.lens.data.n)
        for chunk in chunks:
            stop = start + len(leaves(chunk)[0])
            inside = np.flatnonzero((rows >= start) & (rows < stop))
            for first in range(0, len(inside), together):
                part = inside[first : first + together]
                yield self._explained(take(chunk, torch.as_tensor(rows[part] - start)), rows, target, part)
            start = stop
            if stop > rows[-1]:
                return

    def _explained(self, inputs: Inputs, rows: Whole, target: Target, part: Whole) -> list[Explanation]:
        contrast = torch.as_tensor(target.contrast[part])
        sight = self.lens.look(inputs, contrast)
        parts = spread(self.lens.resampler, torch.from_numpy(sight.pull)).square().numpy()
        split = self._split(sight, target.output[part])
        return [
            Explanation(
                row=int(rows[i]),
                of=target.of[i],
                prediction=float(target.value[i]),
                variance=float(parts[j].sum()),
                contribution=parts[j],
                change=sight.change[j],
                pull=sight.pull[j],
                similarity=sight.similarity[j],
                kernel=sight.kernel[j],
                residual=self.missed.of(target.output[i]),
                split=split[j],
                kind=self.missed.kind,
                training=self.training,
                leave=partial(self._leave, take(inputs, slice(j, j + 1)), contrast[j : j + 1]),
                whose=self.lens.whose,
            )
            for j, i in enumerate(part)
        ]

    def _split(self, sight: Sight, output: Whole) -> list[Standings | None]:
        """Scarcity and misfit of each input compared with training rows, for the output that is explained."""
        standings: list[Standings | None] = [None] * len(output)
        for column in np.unique(output).tolist():
            usual = self.lens.usual(column)
            if usual is None:
                continue
            rows = np.flatnonzero(output == column)
            at = sample_numbers(self.lens.data)
            residual, weight = of_output(self.lens.residual, column)[at], self.lens.data.weight.numpy()[at]
            local = misfit(sight.similarity[rows][:, at], residual, weight, usual.power)
            for j, value in zip(rows, local, strict=True):
                density = _standing(float(sight.density[j]), usual.density, 1)
                standings[j] = Standings(density, _standing(float(value), usual.misfit, 2), len(usual.density))
        return standings

    def _leave(self, inputs: Inputs, contrast: Tensor, rows: Whole) -> float:
        """The change of the prediction without these training rows; it may be called later, in any mode of torch."""
        with untouched(), torch.inference_mode(False):
            return self.lens.without(inputs, contrast, rows)


def _standing(value: float, usual: Array, power: int) -> Standing:
    """A value compared with the usual ones; a variance grows with scarcity (power 1) and squared misfit (power 2)."""
    middle = max(float(np.median(usual)), float(np.finfo(np.float64).tiny))
    return Standing(float(value), 100 * float((usual < value).mean()), (float(value) / middle) ** power)
