"""Intervals without held-out rows: training rows, left out by influence or predicted by other models, stand in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from rue.calibrate.conformal import percent, quantile
from rue.calibrate.cv_plus import CVPlus
from rue.calibrate.full_conformal import full_conformal
from rue.calibrate.full_conformal import guarantee as full_conformal_guarantee
from rue.calibrate.jackknife_plus import guarantee as jackknife_plus_guarantee
from rue.calibrate.jackknife_plus import jackknife_plus
from rue.core.arrays import Array
from rue.core.concepts import Inputs, Inverse
from rue.core.derivatives import jacobian
from rue.core.errors import SettingError
from rue.core.guarantee import Guarantee
from rue.core.model import Model
from rue.core.one_step import leverage
from rue.core.stored import storable_rows

BLOCK = 2**22  # pairs of a new and a training row in memory at once

Ends = tuple[Array, Array]


@storable_rows
@dataclass(frozen=True)
class LeftOutRows:
    """s training rows: how the parameters change without them, and how well the other rows predict them."""

    steps: Tensor = field(repr=False)  # (s, d), change of the parameters when the row's unit is left out
    solved: Tensor = field(repr=False)  # (s, k, d), H̃⁻¹J
    residual: Array = field(repr=False)  # (s, k), y − f of the fitted model
    left_out: Array = field(repr=False)  # (s, k), y − f without the row's unit
    leverage: Array = field(repr=False)  # (s,)
    spread: Array = field(repr=False)  # (s, k), predictive deviation without the row's unit
    inverse: Inverse = field(repr=False)
    single: bool  # there is one output, and every row is a unit of weight one

    def jackknife_plus(self, model: Model, inputs: Inputs, prediction: Array, spread: Array, level: float) -> Ends:
        """Ends (c, k) for inputs with this prediction and spread (c, k)."""
        scores = np.abs(self.left_out) / self.spread
        pieces = []
        for rows, part in self._pieces(model, inputs):
            moved = prediction[rows, :, None] + (part @ self.steps.T).cpu().numpy()  # (c, k, s)
            ends = [
                jackknife_plus(moved[:, j], scores[:, j], spread[rows, j], level) for j in range(prediction.shape[1])
            ]
            pieces.append(tuple(np.stack(side, axis=1) for side in zip(*ends, strict=True)))
        return _joined(pieces)

    def full_conformal(self, model: Model, inputs: Inputs, prediction: Array, spread: Array, level: float) -> Ends:
        """Ends (c, 1); only for one output and rows without groups or weights."""
        if not self.single:
            raise SettingError(
                "full conformal intervals are for one output and rows without groups or weights; "
                'use interval(level, by="jackknife+")'
            )
        pieces = []
        for rows, part in self._pieces(model, inputs):
            cross = (part[:, 0] @ self.solved[:, 0].T).cpu().numpy()
            ends = full_conformal(
                prediction[rows, 0],
                cross,
                leverage(part, self.inverse)[0].flatten().cpu().numpy(),
                self.leverage,
                self.residual[:, 0],
                spread[rows, 0],
                self.spread[:, 0],
                level,
            )
            pieces.append((ends[0][:, None], ends[1][:, None]))
        return _joined(pieces)

    def guarantee(self, by: str, level: float) -> Guarantee:
        """The guarantee of the intervals named `by`."""
        words = {"jackknife+": jackknife_plus_guarantee, "full conformal": full_conformal_guarantee}[by]
        return words(level, len(self.left_out))

    def _pieces(self, model: Model, inputs: Inputs) -> Iterator[tuple[slice, Tensor]]:
        """Jacobians of a few inputs at a time, to limit memory."""
        every = jacobian(model, inputs).double()
        size = max(1, BLOCK // (len(self.steps) * every.shape[1]))
        for start in range(0, len(every), size):
            rows = slice(start, min(start + size, len(every)))
            yield rows, every[rows]


@storable_rows
@dataclass(frozen=True)
class RankedRows:
    """Intervals from the ranks of |left-out residual| / spread over s training rows."""

    scores: Array = field(repr=False)  # (s, k)
    plus: CVPlus | None = None

    def ends(self, prediction: Array, spread: Array, level: float) -> Ends:
        """Ends (m, k) for inputs with this prediction and spread (m, k)."""
        reach = np.array([quantile(scores, level) for scores in self.scores.T])
        return prediction - reach * spread, prediction + reach * spread

    def guarantee(self, level: float) -> Guarantee:
        """The guarantee of these intervals."""
        words = (
            f"approximately {percent(level)}, not guaranteed: as far as {percent(level)} of n = {len(self.scores)} "
            "training rows were missed by models that had not seen them, in units of their spread; hold rows out for a "
            "guarantee"
        )
        return Guarantee(words, "approximate")


def _joined(parts: Sequence[tuple[Array, ...]]) -> Ends:
    lower, upper = (np.concatenate(side) for side in zip(*parts, strict=True))
    return lower, upper
