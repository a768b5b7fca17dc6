"""Leverages: how much each row decides its own prediction."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rue.calibrate.crowding import free_outputs
from rue.checks.check import Senseless
from rue.core.concepts import Inverse, TrainingSet
from rue.core.derivatives import jacobian_batches, outputs, weighted_hessian
from rue.core.model import Model
from rue.core.one_step import leverage

WORK = 1e12  # the largest n·k·d²: about a minute on one core


class Leverages(NamedTuple):
    """The leverages of n rows."""

    largest: NDArray[np.float64]  # (n,), the largest over all linear combinations of a row's outputs
    total: float  # their sum, the effective number of parameters
    free: int  # outputs that can move freely; for softmax one less, because only differences of logits matter


def leverages(model: Model, data: TrainingSet, inverse: Inverse) -> Leverages | str:
    """The leverages, eigenvalues of ΛM for each row; or the reason why they are not computed."""
    if model.family.coupled:
        return Senseless("the loss of a row depends on the other rows, so that no row has a leverage of its own")
    if inverse.iterative:
        return f"n = {data.n} solves by iterations, one for each row, take too long"
    k = outputs(model, next(data.batches()).inputs).shape[1]
    if data.n * k * float(model.theta.numel()) ** 2 > WORK:
        return f"n = {data.n} solves with d = {model.theta.numel()} parameters would take minutes"
    parts, total = [], 0.0
    for batch, jacobian in jacobian_batches(model, data):
        hat = weighted_hessian(model, outputs(model, batch.inputs), batch) @ leverage(jacobian, inverse)[0]
        total += float(hat.diagonal(dim1=-2, dim2=-1).sum())
        parts.append((hat[:, 0, 0] if k == 1 else torch.linalg.eigvals(hat).real.amax(-1)).cpu())
    return Leverages(np.asarray(torch.cat(parts).numpy()), total, free_outputs(model.family, k))
