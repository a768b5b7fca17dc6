"""From audited inputs to explanations, a block at a time: never more than a few numbers for each of some pairs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rue.concepts import Decision, Inputs, Model
from rue.derivatives import outputs
from rue.explain.explanation import Explanation, Standing
from rue.explain.lens import Array, Lens, Whole
from rue.explain.misfit import misfit
from rue.explain.people import TrainingTable
from rue.explain.target import Target
from rue.randomness import untouched
from rue.resample import spread
from rue.trees import leaves, take

CELLS = 2**21  # pairs of audited and training rows looked at together


@dataclass(frozen=True)
class Explainer:
    """A lens, and the training rows as people know them."""

    lens: Lens = field(repr=False)
    training: TrainingTable = field(repr=False)
    residual: Array = field(repr=False)  # (n,), as people read it

    @classmethod
    def of(cls, lens: Lens, model: Model, noun: str | None) -> "Explainer":
        """Residuals in units of the predictions, where these are made of outputs whose residuals are noise."""
        found, weight = lens.residual, lens.data.weight.numpy()
        if model.family.gaussian and model.response is not None:
            fitted = torch.cat([outputs(model, batch.inputs).double().cpu() for batch in lens.data.batches()])
            found = found * model.response.slope(fitted.numpy())
        residual = readable(found, model.family.decision)
        typical = float(np.average(np.abs(residual), weights=weight))
        plain = "training rows" if lens.data.source.group is None else "groups"
        training = TrainingTable(lens.data, noun or plain, model.family.decision is not None, typical)
        return cls(lens, training, residual)

    def __call__(self, chunks: Iterable[Inputs], rows: Whole, target: Target) -> Iterator[list[Explanation]]:
        """Explanations of the wanted rows (s,), which rise, with what is explained of each."""
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
        sight, usual = self.lens.look(inputs, contrast), self.lens.usual
        parts = spread(self.lens.resampler, torch.from_numpy(sight.pull)).square().numpy()
        density: list[Standing | None] = [None] * len(part)
        misfits = density
        if usual is not None:
            local = misfit(sight.similarity, self.lens.residual, self.lens.data.weight.numpy(), usual.power)
            density = [_standing(value, usual.density, 1) for value in sight.density]
            misfits = [_standing(value, usual.misfit, 2) for value in local]
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
                residual=self.residual,
                density=density[j],
                misfit=misfits[j],
                compared=0 if usual is None else len(usual.density),
                training=self.training,
                leave=partial(self._leave, take(inputs, slice(j, j + 1)), contrast[j : j + 1]),
            )
            for j, i in enumerate(part)
        ]

    def _leave(self, inputs: Inputs, contrast: Tensor, rows: Whole) -> float:
        """Asked for later, whatever mode torch is in then."""
        with untouched(), torch.inference_mode(False):
            return self.lens.without(inputs, contrast, rows)


def _standing(value: float, usual: Array, power: int) -> Standing:
    """A variance goes with scarcity and with the square of a misfit."""
    middle = max(float(np.median(usual)), float(np.finfo(np.float64).tiny))
    return Standing(float(value), 100 * float((usual < value).mean()), (float(value) / middle) ** power)


def readable(residual: Array, decision: Decision | None) -> Array:
    """One number for each training row (n, k): signed for one output, a length for several; for classes what their
    labels' probabilities lack.

    For logits of which the largest decides, ∂ℓ/∂f is the probability minus one for the label: the most negative entry.
    """
    if decision in ("largest", "shares"):
        return np.asarray(-residual.min(axis=1))
    if residual.shape[1] > 1:
        return np.asarray(np.linalg.norm(residual, axis=1))
    return np.asarray(np.abs(residual[:, 0]) if decision == "signs" else residual[:, 0])
