"""A witness: a second, cheap kernel model of the same rows, whose left-out predictions are honest.

If the left-out predictions of a network itself are not available, or not good enough, the witness bounds its errors:
by the errors of the witness, and by the disagreement of witness and network, which needs no label.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.calibrate.left_out.affine import FLAT, FeatureRows, spectrum
from rue.calibrate.left_out.evidence import Honest
from rue.calibrate.left_out.path import best_refit
from rue.core.concepts import Batch, Facts, Family, Inputs, Objective, Predictor, TrainingSet
from rue.core.derivatives import width
from rue.core.model import Model
from rue.core.nested import joined, leaves, take
from rue.core.stored import storable, storable_rows
from rue.data.features import Standardiser, some_points
from rue.data.rows import some_units
from rue.losses.classes import bernoulli, cross_entropy
from rue.losses.loss import Loss

BLOCK = 2**16  # similarities computed at once for new inputs: they stay in the cache, which takes half the time
CELLS = 2**25  # maximum number of entries of its features
MIXES = (  # shares of a linear, a wide and a narrow radial kernel
    (1.0, 0.0, 0.0),
    (0.95, 0.05, 0.0),
    (0.8, 0.2, 0.0),
    (0.5, 0.5, 0.0),
    (0.0, 1.0, 0.0),
    (0.5, 0.25, 0.25),
    (0.0, 0.5, 0.5),
    (0.0, 0.0, 1.0),
)
STRENGTHS = tuple(10.0**power for power in range(-6, 3))  # of the penalties that kernels are compared under
WIDE = 256  # columns from which on distances are computed by a product of matrices
ROUNDING = 1e-12  # of the squared lengths of two rows: a smaller distance is none
LIMIT = 1 - 1e-9  # largest leverage, to avoid a division by zero


@storable
@dataclass(frozen=True)
class Size:
    """Limits of the size of a witness."""

    rows: int  # maximum number of rows it is fitted to
    compared: int  # number of these rows that the kernel is chosen by
    directions: int  # number of features of all outputs together, if the loss is not squared error


WHOLE = Size(2_000, 500, 600)
QUICK = Size(700, 400, 450)  # for a witness that is one of two


@storable
@dataclass(frozen=True)
class Kernel:
    """1 plus a weighted sum of a linear and two radial kernels on standardised inputs.

    The wide kernel has the median squared distance as squared width, the narrow one a quarter of it.
    """

    shares: tuple[float, float, float]
    width: float  # the median squared distance of two training rows

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Similarities (c, w)."""
        linear, wide, narrow = self.shares
        alike = 1 + linear * (a @ b.T) / a.shape[1] if linear else a.new_ones(len(a), len(b))
        if not wide and not narrow:
            return alike
        near = squared_distance(a, b).div_(-self.width).exp_()
        alike.add_(near, alpha=wide)
        return alike.add_(near.square_().square_(), alpha=narrow) if narrow else alike  # exp(−4a) = exp(−a)⁴


@storable_rows
@dataclass(frozen=True)
class KernelModel:
    """Predicts outputs at new inputs from their similarities to the rows it was fitted to."""

    kernel: Kernel
    standardise: Standardiser = field(repr=False)
    points: Tensor = field(repr=False)  # (w, p)
    pulls: Tensor = field(repr=False)  # (w, k), of the rows it was fitted to, for each unit of similarity
    offset: Tensor = field(repr=False)  # (k,)

    def __call__(self, inputs: Inputs) -> Tensor:
        """Outputs (c, k) in float64."""
        points = self.standardise.tensor(inputs, self.points)
        blocks = points.split(max(1, BLOCK // len(self.points)))
        return self.offset + torch.cat([self.kernel(block, self.points) @ self.pulls for block in blocks])


@storable
@dataclass(frozen=True)
class Witness:
    """A model fitted to the training rows, and its left-out predictions of these rows."""

    says: Honest  # the fitted model at new inputs
    prediction: Tensor = field(repr=False)  # (n, k), for each training row without its own unit
    facts: Facts = field(default_factory=dict, repr=False)


def witness(model: Objective, data: TrainingSet, seed: int, size: Size = WHOLE) -> Witness:
    """Choose a kernel and a penalty by leave-one-out; rows beyond `size.rows` are held out from the witness."""
    place = model.theta.device
    chosen = some_units(data, size.rows, seed)
    inside = torch.nonzero(chosen).flatten().to(place)
    standardise, points = some_points(data, inside)
    weight = data.weight.to(place)[inside]
    k = width(model, data)
    targets = take(joined([batch.targets for batch in data.batches()]), inside)
    codes = codes_of(model, targets, k)
    offset = weight @ codes / weight.sum() if model.family.gaussian else codes.new_zeros(k)
    kernel = _best_kernel(points, codes, weight, size.compared)
    most = _most(model, len(points), k, size.directions)
    features, basis, values = _features(kernel(points, points), weight, most)
    inputs = {"offset": offset.expand(len(points), k), "features": _for_each_output(features, k)}
    unit = torch.unique(data.unit[chosen], return_inverse=True)[1]
    rows = FeatureRows(
        (Batch(inputs, targets, weight, slice(0, len(points))),), data.weight[chosen], unit, int(unit.max()) + 1
    )
    best = best_refit(model if model.family.gaussian else LabelJudge.of(model), rows, values.repeat(k), k)
    says = KernelModel(kernel, standardise, points, basis @ best.model.theta.view(k, -1).T, offset)
    prediction = torch.cat([says(batch.inputs) for batch in data.batches()])
    prediction[inside] = best.left.prediction
    return Witness(says, prediction, {"witness_kernel": kernel.shares})


@storable
@dataclass(frozen=True)
class LabelJudge:
    """The plain likelihood of labels, without the class weights and label smoothing that a network was trained with."""

    family: Family
    loss: Loss

    @classmethod
    def of(cls, model: Predictor) -> "LabelJudge":
        """The likelihood for the kind of classes that the model predicts."""
        plain = cross_entropy() if model.family.decision == "largest" else bernoulli()
        assert plain.hessian is not None
        value, hessian = partial(_of_labels, plain.value), partial(_of_labels, plain.hessian)
        return cls(model.family, replace(plain, value=value, hessian=hessian))


def _of_labels(part: Callable[[Tensor, Any], Tensor], outputs: Tensor, targets: Any) -> Tensor:
    return part(outputs, _labels(outputs, targets))


def _labels(outputs: Tensor, targets: Any) -> Tensor:
    labels: Tensor = leaves(targets)[0]  # weights may follow them
    return labels.to(outputs) if labels.is_floating_point() else labels


def codes_of(model: Objective, targets: Any, k: int) -> Tensor:
    """Targets as numbers (n, columns) for regression: classes become columns of zeros and ones."""
    first: Tensor = leaves(targets)[0].double()
    if model.family.decision == "largest" and first.dim() == 1:
        return torch.nn.functional.one_hot(first.long(), k).double()
    return first.reshape(len(first), -1)


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """Squared distances (c, w), exactly zero between equal rows, so that the order of rows never matters."""
    if a.shape[1] <= WIDE:
        return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square()
    size = a.square().sum(1)[:, None] + b.square().sum(1)
    apart = size - 2 * a @ b.T
    return torch.where(apart > ROUNDING * size, apart, 0.0)  # a product of matrices rounds, and is many times faster


def _best_kernel(points: Tensor, codes: Tensor, weight: Tensor, most: int) -> Kernel:
    """The kernel whose ridge regression of the codes has the least leave-one-out error, over a few penalties.

    Only some rows are compared, because the cost of every kernel grows with the cube of their number.
    """
    place = torch.from_numpy(np.lexsort(points.cpu().numpy().T))  # sorted, so that the order of rows does not matter
    some = place[torch.linspace(0, len(points) - 1, min(len(points), most)).long()].to(points.device)
    points, codes, weight = points[some], codes[some], weight[some]
    apart = squared_distance(points, points)
    positive = apart[apart > 0]
    width = float(positive.median()) if len(positive) else 1.0
    kernels = [Kernel(shares, width) for shares in MIXES]
    return min(kernels, key=lambda kernel: _left_out_error(kernel(points, points), codes, weight))


def _left_out_error(gram: Tensor, codes: Tensor, weight: Tensor) -> float:
    """The least mean squared leave-one-out residual of a kernel ridge regression: (y − Hy)/(1 − h)."""
    root = weight.sqrt()
    values, vectors = torch.linalg.eigh(root[:, None] * gram * root)
    values = values.clamp_min(0)
    centred = root[:, None] * _in_own_units(codes - weight @ codes / weight.sum(), weight)
    along = vectors.T @ centred
    errors = []
    for strength in STRENGTHS:
        share = values / (values + strength * float(values.mean()))
        free = 1 - (vectors.square() @ share).clamp_max(LIMIT)
        errors.append(float(((centred - vectors @ (share[:, None] * along)) / free[:, None]).square().sum()))
    return min(errors)


def _in_own_units(centred: Tensor, weight: Tensor) -> Tensor:
    """Every column divided by its own spread, so that a sum over columns does not depend on their units."""
    spread = (weight @ centred.square() / weight.sum()).sqrt()
    return centred / torch.where(spread > 0, spread, 1.0)


def _features(gram: Tensor, weight: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features (w, r) of the rows, the matrix (w, r) from similarities to features, and the spectrum (r,)."""
    values, vectors = torch.linalg.eigh(gram)
    kept = torch.nonzero(values > FLAT * values[-1]).flatten()[-most:]
    root = values[kept].sqrt()
    directions = spectrum(vectors[:, kept] * root, weight)
    features = (vectors[:, kept] * root) @ directions.basis
    return features, (vectors[:, kept] / root) @ directions.basis, directions.values


def _most(model: Objective, rows: int, k: int, directions: int) -> int:
    """The number of directions of the kernel that are kept."""
    room = max(8, CELLS // (rows * k * k))
    return min(rows, room) if model.family.gaussian else min(rows, room, max(8, directions // k))


def _for_each_output(features: Tensor, k: int) -> Tensor:
    """(w, r) -> (w, k, k·r): every output has coefficients of its own."""
    eye = torch.eye(k, dtype=features.dtype, device=features.device)
    return torch.einsum("wr,jl->wjlr", features, eye).reshape(len(features), k, -1)


def can_be_witnessed(model: Model) -> bool:
    """Whether the model predicts numbers under squared error, or yes-or-no or one-of-k class probabilities."""
    family = model.family
    return family.gaussian or (family.decision in ("largest", "signs") and family.likelihood)
