"""The terms of the predictive variance at training rows, each computed without the row's own unit.

The weights of these terms are calibrated by left-out residuals.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.calibrate.smoother import POWERS, Metric, smooth
from rue.core.arrays import Array
from rue.core.concepts import Objective, Resampler
from rue.core.derivatives import jacobian_batches
from rue.core.stored import storable_rows
from rue.data.rows import Rows


@storable_rows
@dataclass(frozen=True)
class LeftOutTerms:
    """The terms at s training rows, without the unit of each row."""

    resampling: Tensor = field(repr=False)  # (s, k, k), the resampling covariance
    smoothed: Tensor = field(repr=False)  # (p, s, k, k), the normalised smoother at each of `POWERS`
    similarity: Tensor = field(repr=False)  # (s,), the largest κ to a row of another unit


@storable_rows
@dataclass(frozen=True)
class Compared:
    """The rows that inputs are compared with, and how each is predicted without its unit."""

    rows: Rows = field(repr=False)
    slope: Tensor = field(repr=False)  # (n, k), left-out residuals
    drawn: Tensor = field(repr=False)  # (n, k), the influence of the unit on the row
    turn: Tensor = field(repr=False)  # (n, k, k), which maps JH̃⁻¹ to that without the unit


@storable_rows
@dataclass(frozen=True)
class WholeMoves:
    """How all training rows move the parameters."""

    steps: Tensor = field(repr=False)  # (r, d), a root of the parameters' covariance
    toward: Tensor = field(repr=False)  # (d,), Σ∇ℓ: −∇R at an optimum
    units: int
    resampler: Resampler


def left_out_terms(
    model: Objective, compared: Compared, rows: Tensor, metric: Metric, whole: WholeMoves
) -> LeftOutTerms:
    """The terms at some `rows` (s,) of those compared, in ascending order; `metric` is that of the steps."""
    squares = outer(compared.slope).flatten(1)
    k = compared.slope.shape[1]
    resampled, smoothed, similar = [], [], []
    for batch, jacobian in jacobian_batches(model, compared.rows):
        inside = rows[(rows >= batch.rows.start) & (rows < batch.rows.stop)].to(jacobian.device)
        for part in inside.split(metric.chunk()):
            gradients, solved = jacobian[part - batch.rows.start].double(), metric.solved[part]
            moved = gradients @ whole.steps.T
            total, pulled = moved @ moved.mT, solved @ whole.toward
            resampled.append(
                without_own(total, pulled, compared.drawn[part], compared.turn[part], whole.resampler, whole.units)
            )
            kappa = metric.similarity(gradients, gradients @ solved.mT, metric.unit[part])
            smoothed.append(smooth(kappa, squares, metric.weight, POWERS).view(len(POWERS), len(part), k, k))
            similar.append(kappa.max(1).values)
    return LeftOutTerms(torch.cat(resampled), torch.cat(smoothed, dim=1), torch.cat(similar))


def outer(values: Tensor) -> Tensor:
    """Products of all pairs of outputs: (n, k) -> (n, k, k)."""
    return values.unsqueeze(-1) * values.unsqueeze(-2)


def disagreement(apart: Tensor, overall: Array, strange: Tensor) -> Tensor:
    """ddᵀ (c, k, k) of the distances d (c, k) between the model and an honest one.

    At `strange` inputs, unlike the training rows, the honest model is itself unreliable: there a distance larger than
    the usual residual grows only with its logarithm.
    """
    times = (apart.abs() / torch.as_tensor(overall).to(apart).sqrt()).clamp_min(1)
    return outer(torch.where(strange[:, None], apart / times * (1 + times.log() / 2).sqrt(), apart))


def without_own(
    covariance: Tensor, pulled: Tensor, influence: Tensor, turn: Tensor, resampler: Resampler, units: int
) -> Tensor:
    """Remove a unit's own influence b from scale·(Σbbᵀ − shared·(Σb)(Σb)ᵀ/u), and correct the others for its absence.

    `influence` (c, k) and `turn` (c, k, k) are those of left-out rows. Exact for single rows; for groups, the
    correction of the row's own block is used for the whole group.
    """
    scale, shared = resampler.covariance(units)
    squares = covariance / scale + shared * outer(pulled) / units - outer(influence)
    kept = scale * (squares - shared * outer(pulled - influence) / units)
    turned = turn @ kept @ turn.mT
    values, vectors = torch.linalg.eigh(0.5 * (turned + turned.mT))
    return (vectors * values.clamp_min(0).unsqueeze(-2)) @ vectors.mT
