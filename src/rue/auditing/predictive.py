"""The parts of a predictive distribution and its intervals that do not depend on the inputs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.auditing.held_out import HeldOut
from rue.auditing.intervals import Interval, IntervalRule
from rue.calibrate.cv_plus import CVPlus
from rue.calibrate.left_out_intervals import LeftOutRows, RankedRows
from rue.core.arrays import Array, Labels
from rue.core.concepts import Inputs
from rue.core.model import Model
from rue.core.progress import track
from rue.core.resample import untouched
from rue.core.stored import storable

Again = Callable[[Array], Iterator[tuple[slice, Inputs]]]
"""Reads the audited inputs again; raises if their predictions are not these (m, k)."""


@storable
@dataclass(frozen=True)
class Predictive:
    """Residual noise, tails, and the rows that intervals are computed from."""

    noise: Tensor | None = field(default=None, repr=False)  # (k, k), for methods without a noise for each row
    degrees: float = inf  # of freedom of the predictive distribution
    left_out: LeftOutRows | None = field(default=None, repr=False)  # training rows left out by influence
    ranked: RankedRows | None = field(default=None, repr=False)  # training rows predicted by other models
    held_out: HeldOut | None = field(default=None, repr=False)  # the result of `calibrate`

    def rules(self, model: Model, inputs: Any, again: Again) -> dict[str, IntervalRule]:
        """The rules by which intervals can be made for these inputs, the default first."""
        rules: dict[str, IntervalRule] = {}
        if self.held_out is not None:
            rules["split conformal"] = self.held_out.interval
        if self.ranked is not None:
            rules["left-out ranks"] = partial(_by_ranks, self.ranked)
            if self.ranked.plus is not None:
                rules[self.ranked.plus.name] = partial(_by_copies, self.ranked.plus, inputs, again)
        if self.left_out is not None:
            rules["jackknife+"] = partial(_by_influence, self.left_out, model, again, "jackknife+")
            if self.left_out.single:
                rules["full conformal"] = partial(_by_influence, self.left_out, model, again, "full conformal")
        return rules


def _by_ranks(ranked: RankedRows, prediction: Array, spread: Array, level: float, _: Labels | None) -> Interval:
    return Interval(*ranked.ends(prediction, spread, level), ranked.guarantee(level))


def _by_copies(
    plus: CVPlus,
    inputs: Any,
    again: Again,
    prediction: Array,
    _spread: Array,
    level: float,
    _: Labels | None,
) -> Interval:
    """Predict the inputs with all copies, after a check that they are still those of the audit."""
    with untouched(), torch.inference_mode(False):
        for _rows in again(prediction):
            pass
        return Interval(*plus.ends(inputs, level), plus.guarantee(level))


def _by_influence(
    rows: LeftOutRows,
    model: Model,
    again: Again,
    by: str,
    prediction: Array,
    spread: Array,
    level: float,
    _: Labels | None,
) -> Interval:
    """Read the inputs again, because the effects of all training rows on them are too large to keep."""
    make = rows.jackknife_plus if by == "jackknife+" else rows.full_conformal
    ends = []
    with untouched(), torch.inference_mode(False):
        for part, chunk in track("intervals", again(prediction)):
            ends.append(make(model, chunk, prediction[part], spread[part], level))
    lower, upper = (np.concatenate(side) for side in zip(*ends, strict=True))
    return Interval(lower, upper, rows.guarantee(by, level))
