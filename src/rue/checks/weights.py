"""Are the weights those of training? Trees keep sums over the rows of each leaf, which other weights do not make."""

import numpy as np
import torch

from rue.checks.check import Check, Senseless
from rue.checks.subject import Subject
from rue.core.arrays import Array
from rue.core.concepts import Batch
from rue.core.derivatives import weighted_hessian
from rue.core.model import Model
from rue.models.trees.noted import Noted
from rue.models.trees.tree_model import LEAVES, TreeCore

NAME = "weights"
APART = 0.002  # share of the weight in other leaves: a row may fall on the other side of a threshold by rounding
ROWS = 2.0  # so many rows may do so
CENTRE = 1e-4  # of the targets' deviation: by how much the mean may be off, which is computed in single precision
MOST_OUTPUTS = 10  # with more the curvature (k, k) of every row takes too long
LIMITS = (
    f"green where {APART:.1%} of the weight, or {ROWS:g} rows, at most lies in other leaves of the first tree than it "
    f"noted, and where the mean that boosting began from is that of the targets, within {CENTRE:g} of their deviation"
)
_ADVICE = (
    "training had weights that are not stated, or these are other rows or targets: errors are expected by rows that "
    "count otherwise than in training; give the same as rue.Data(X, y, weight=sample_weight)"
)


def weights(subject: Subject) -> Check | str:
    """Compare what the first tree noted of its rows with the same sums over the given rows and weights.

    Only shares are compared: weights that are all twice as large make the same trees. Where a tree may have seen a
    part of the rows, sums that are nowhere larger than those of all rows are taken for such a part.
    """
    core = subject.model.behind or subject.model.core
    if not isinstance(core, TreeCore):
        return Senseless("only boosted trees keep what they saw of their training rows")
    noted = core.ensemble.noted
    if noted is None or core.k > MOST_OUTPUTS:
        return "the ensemble does not say what its first tree saw of the training rows"
    n = subject.data.n
    if noted.sums is None:
        apart = _mean_apart(subject, core)
        text = f"boosting began {apart:.2g} of the targets' deviation away from the mean of n = {n} training rows"
        return _judged(apart, CENTRE, text)
    sums = _sums(subject, core, len(noted.sums))
    apart = _share_apart(noted, sums)
    text = f"{apart:.1%} of the weight of n = {n} training rows lies in other leaves than the first tree noted"
    return _judged(apart, max(APART, ROWS / n), text)


def _judged(apart: float, limit: float, found: str) -> Check:
    good = apart <= limit
    return Check(NAME, "green" if good else "amber", apart, found, LIMITS, "" if good else _ADVICE)


def _share_apart(noted: Noted, sums: Array) -> float:
    """Half the sum of differences between two lists of shares; zero where the noted may be those of a part."""
    assert noted.sums is not None
    if noted.perhaps_a_part and (noted.sums <= sums * (1 + APART)).all():
        return 0.0
    return float(np.abs(noted.sums / noted.sums.sum() - sums / sums.sum()).sum() / 2)


def _sums(subject: Subject, core: TreeCore, count: int) -> Array:
    """Weight × curvature of the loss at the base, summed over the rows in each leaf of the first tree."""
    sums = np.zeros(count)
    base = torch.from_numpy(core.ensemble.base)
    for batch in subject.data.batches():
        curvature = weighted_hessian(subject.model, base.expand(len(batch.weight), -1), batch)[:, 0, 0]
        sums += np.bincount(batch.inputs[LEAVES][:, 0].numpy(), curvature.numpy(), minlength=count)
    return sums


def _mean_apart(subject: Subject, core: TreeCore) -> float:
    """How far the base, as a prediction, is from the mean of the targets, in their standard deviations."""
    batches = list(subject.data.batches())
    targets = torch.cat([_as_means(subject.model, batch, core.k) for batch in batches])
    weight = torch.cat([batch.weight for batch in batches])[:, None] / subject.data.weight.sum()
    mean = (weight * targets).sum(0)
    deviation = (weight * (targets - mean).square()).sum(0).sqrt()
    began = _prediction(subject.model, torch.from_numpy(core.ensemble.base))
    return float(((began - mean).abs() / deviation.clamp_min(1e-300)).max())


def _as_means(model: Model, batch: Batch, k: int) -> torch.Tensor:
    """Targets (c, k) whose mean a constant prediction is; indicators for classes."""
    if model.family.decision == "largest":
        return torch.nn.functional.one_hot(batch.targets.long().reshape(-1), k).double()
    return batch.targets.double().reshape(len(batch.weight), -1)


def _prediction(model: Model, base: torch.Tensor) -> torch.Tensor:
    if model.family.decision == "largest":
        return base.softmax(0)
    if model.family.decision == "signs":
        return base.sigmoid()
    return base.exp() if model.family.link == "log" else base
