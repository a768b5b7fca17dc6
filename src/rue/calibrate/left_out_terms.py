"""What a predictive variance is calibrated by: its terms at training rows, each without the row's own unit."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.calibrate.smoother import POWERS, Metric, smooth
from rue.core.concepts import Objective, Resampler, TrainingSet
from rue.core.derivatives import jacobian_batches, weighted_gradients
from rue.core.one_step import LeftOut


@dataclass(frozen=True)
class LeftOutTerms:
    """Of s training rows, as models without their unit see them."""

    resampling: Tensor = field(repr=False)  # (s, k, k), RUE
    smoothed: Tensor = field(repr=False)  # (p, s, k, k), the normalised smoother at each of `POWERS`
    similarity: Tensor = field(repr=False)  # (s,), the largest κ to a row of another unit


def left_out_terms(
    model: Objective,
    data: TrainingSet,
    slope: Tensor,
    own: LeftOut,
    rows: Tensor,
    metric: Metric,
    steps: Tensor,
    resampler: Resampler,
) -> LeftOutTerms:
    """Look at `rows` (s,), in ascending order; `steps` (r, d) are the root of the parameters' covariance.

    `slope` (n, k) are the left-out residuals; `own` says what leaving out does in the metric of `steps`.
    """
    squares = outer(slope).flatten(1)
    toward = weighted_gradients(model, data, torch.ones(1, data.n, dtype=torch.float64))[0]  # Σ∇ℓ: −∇R at an optimum
    k = slope.shape[1]
    resampled, smoothed, similar = [], [], []
    for batch, jacobian in jacobian_batches(model, data):
        inside = rows[(rows >= batch.rows.start) & (rows < batch.rows.stop)].to(jacobian.device)
        for part in inside.split(metric.chunk()):
            own_rows, solved = jacobian[part - batch.rows.start].double(), metric.solved[part]
            moved = own_rows @ steps.T
            total, pulled = moved @ moved.mT, solved @ toward
            resampled.append(without_own(total, pulled, own, part, resampler, data.units))
            kappa, which = metric.similarity(own_rows, own_rows @ solved.mT, metric.unit[part])
            smoothed.append(smooth(kappa, which, squares, metric.weight, POWERS).view(len(POWERS), len(part), k, k))
            similar.append(kappa.max(1).values)
    return LeftOutTerms(torch.cat(resampled), torch.cat(smoothed, dim=1), torch.cat(similar))


def outer(values: Tensor) -> Tensor:
    """Products of all pairs of outputs: (n, k) -> (n, k, k)."""
    return values.unsqueeze(-1) * values.unsqueeze(-2)


def without_own(
    covariance: Tensor, pulled: Tensor, left: LeftOut, rows: Tensor, resampler: Resampler, units: int
) -> Tensor:
    """Take a unit's own influence out of scale·(Σbbᵀ − shared·(Σb)(Σb)ᵀ/u), and let the others pull without it.

    Exact for rows; for groups the turn of the row's own block stands for that of the whole group.
    """
    scale, shared = resampler.covariance(units)
    own = left.drawn[rows]
    squares = covariance / scale + shared * outer(pulled) / units - outer(own)
    kept = scale * (squares - shared * outer(pulled - own) / units)
    turn = left.turn[rows]
    turned = turn @ kept @ turn.mT
    values, vectors = torch.linalg.eigh(0.5 * (turned + turned.mT))
    return (vectors * values.clamp_min(0).unsqueeze(-2)) @ vectors.mT
