"""The coverage of intervals on the test rows of a split, with and without rows held out for them."""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from rue.auditing.intervals import Interval
from rue.auditing.result import Audit
from rue.calibrate.conformal import rank
from rue.calibrate.left_out import Influence
from rue.core.arrays import Array
from rue.core.errors import CrowdedWarning, RueWarning
from rue.core.model import Model
from rue.core.resample import generator
from rue.data.features import Standardiser
from rue.methods import CalibratedRUE, Homoscedastic
from rue_paper.protocol import SplitProblem

LEVELS = (0.5, 0.8, 0.9, 0.95)
HELD_OUT = 0.2  # share of the training rows
HELD_OUT_SEED = 2000  # added to the split's number, so that draws differ from those of networks and audits
MOST = 2_000  # so many test rows of a split get intervals: the first ones, as their order is random

CONFORMAL = "split conformal"
CONSTANT = "split conformal, constant spread"
LEFT_OUT = ("jackknife+", "full conformal", "distribution")  # kinds without held-out rows


@dataclass(frozen=True)
class Parted:
    """A split whose training rows are divided: a problem of the rows that are kept, in their units, and the others."""

    kept: SplitProblem
    X: Tensor = field(repr=False)  # (c, p), held out
    y: Array = field(repr=False)  # (c,)


def hold_out(problem: SplitProblem) -> Parted:
    """Divide the training rows at random, and standardise everything by the kept ones alone."""
    n = len(problem.y)
    order = torch.randperm(n, generator=generator(HELD_OUT_SEED + problem.split)).to(problem.X.device)
    held, kept = order[: round(HELD_OUT * n)], order[round(HELD_OUT * n) :]
    of_x, of_y = (Standardiser.of(values[kept].double().cpu().numpy()) for values in (problem.X, problem.y))
    units = Standardiser(problem.units.mean + problem.units.scale * of_y.mean, problem.units.scale * of_y.scale)
    X, y, X_new = _by(of_x, problem.X), _by(of_y, problem.y), _by(of_x, problem.X_new)
    inner = replace(problem, X=X[kept], y=y[kept], X_new=X_new, units=units)
    return Parted(inner, X[held], y[held].double().cpu().numpy())


def with_held_out(parted: Parted, model: Model, method: CalibratedRUE) -> dict[str, Array]:
    """Split conformal intervals, with an audit's widths and with one width for all, from the same held-out rows."""
    arrays: dict[str, Array] = {}
    target = np.array([rank(len(parted.y), level) / (len(parted.y) + 1) for level in LEVELS])
    for name, chosen in ((CONFORMAL, method), (CONSTANT, Homoscedastic())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RueWarning)  # on many parameters, which held-out rows make harmless
            auditor = chosen.fit(model, (parted.kept.X, parted.kept.y)).calibrate(parted.X, parted.y)
        audit = auditor.audit(parted.kept.X_new[:MOST])
        arrays |= _measured(parted.kept, audit, CONFORMAL, name) | {f"{name}/target": target}
    return arrays


def without_held_out(problem: SplitProblem, model: Model, method: CalibratedRUE) -> dict[str, Array]:
    """Intervals from all training rows, and whether the method warned of too many effective parameters."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", RueWarning)
        auditor = method.fit(model, (problem.X, problem.y), left_out=Influence())
    warned = any(issubclass(one.category, CrowdedWarning) for one in raised)
    arrays = {"effective_share": np.array(auditor.facts["effective_share"]), "warned": np.array(float(warned))}
    audit = auditor.audit(problem.X_new[:MOST])
    for by in LEFT_OUT:
        arrays |= _measured(problem, audit, by, by) | {f"{by}/target": np.array(LEVELS)}
    return arrays


def _measured(problem: SplitProblem, audit: Audit, by: str, name: str) -> dict[str, Array]:
    """The share of test rows covered and the mean width in the units of the target, at every level (l,)."""
    target = (problem.target[:MOST] - problem.units.mean) / problem.units.scale
    intervals = [audit.interval(level, by=by) for level in LEVELS]
    return {
        f"{name}/covered": np.array([_covered(interval, target) for interval in intervals]),
        f"{name}/width": np.array([(own.upper - own.lower).mean() for own in intervals]) * problem.units.scale,
    }


def _covered(interval: Interval, target: Array) -> float:
    return float(((interval.lower <= target) & (target <= interval.upper)).mean())


def _by(standardise: Standardiser, values: Tensor) -> Tensor:
    standardised = standardise(values.double().cpu().numpy())
    return torch.as_tensor(standardised, dtype=values.dtype, device=values.device)
