"""The evidence: the marginal likelihood of the training targets under the prior, by Laplace's approximation."""

from math import log, pi

import torch
from torch import Tensor

from rue.core.concepts import Curvature
from rue.core.derivatives import outputs
from rue.core.errors import NotPositiveDefiniteError, NumericalError, SettingError
from rue.core.memory import free_bytes
from rue.core.model import Model
from rue.core.solve.choice import largest_matrix
from rue.data.rows import Rows


def log_evidence(model: Model, data: Rows, curvature: Curvature) -> float:
    """log p(y) with exp(−ℓ) as the likelihood and exp(−R) as the prior, exact for a linear model with squared error.

    For squared error the noise variance σ² is the one that maximises the evidence. Other losses may miss a normalising
    constant, which is the same for every penalty. A row of weight w counts as w rows.
    """
    objective, count = _objective(model, data)
    volume = 0.5 * _log_volume(curvature)
    if not model.family.gaussian:
        # −J + ½ log det R'' − ½ log det H: the factors (2π)^(d/2) of the prior and of the integral cancel
        return -objective - volume
    if objective <= 0:
        raise NumericalError("the objective is zero: a perfect fit without a penalty has no noise, so no evidence")
    # −J/σ² − ½N log 2πσ² − volume, where the σ² of both determinants cancel, is largest at σ² = 2J/N
    return -0.5 * count * (1 + log(2 * pi * 2 * objective / count)) - volume


def _objective(model: Model, data: Rows) -> tuple[float, float]:
    """J at the model's theta, and the weighted number N of targets."""
    total, k = 0.0, 1
    with torch.no_grad():
        for batch in data.batches():
            predicted = outputs(model, batch.inputs)
            total += float((batch.weight * model.loss(predicted, batch.targets).double()).sum())
            k = predicted.shape[1]
        return total + float(model.penalty(model.theta.double())), k * float(data.weight.sum())


def _log_volume(curvature: Curvature) -> float:
    """log det H − log det R'', from the smaller of R''^(−½) H R''^(−½), (d, d), and I + S R''⁻¹ Sᵀ, (n·k, n·k)."""
    penalty = _positive_penalty(curvature)
    size, dual = min(curvature.size, curvature.rank), curvature.rank < curvature.size
    needed = 3 * 8 * size * (curvature.size if dual else size)
    most = largest_matrix(curvature.device)
    if size > most or needed > free_bytes(curvature.device):
        raise SettingError(
            f"the evidence of {curvature.size} parameters and {curvature.rank} outputs needs the determinant of a "
            f"matrix of {size} rows, more than {most} or than fits; "
            'use criterion="leave-one-out", or select= fewer parameters'
        )
    root = curvature.root() if dual else None
    if root is None:
        scale = penalty.sqrt()
        matrix = curvature.dense() / torch.outer(scale, scale)
    else:
        rows = torch.cat(list(root))
        matrix = (rows / penalty) @ rows.T
        matrix.diagonal().add_(1.0)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed):
        raise NotPositiveDefiniteError(
            f"the curvature of {curvature.size} parameters points downwards, so there is no evidence; "
            "train to convergence, with a loss that is convex in the outputs"
        )
    return 2 * float(factor.diagonal().log().sum())


def _positive_penalty(curvature: Curvature) -> Tensor:
    """R'' (d,); raises unless every parameter has a penalty, because the prior is no density otherwise."""
    diagonal = curvature.penalty_diagonal()
    if diagonal is None:
        raise SettingError(
            "the evidence needs a penalty whose curvature is diagonal, as that of l2 is; "
            'use criterion="leave-one-out" for a penalty that mixes parameters'
        )
    if float(diagonal.min()) <= 0:
        raise SettingError(
            f"{int((diagonal <= 0).sum())} of {len(diagonal)} parameters have no penalty, so there is no prior and no "
            'evidence; give every parameter an l2 above 0, or use criterion="leave-one-out"'
        )
    return diagonal
