"""An affine model refitted for every strength of its penalty, and judged by the rows it leaves out."""

from dataclasses import dataclass, field, replace
from math import isfinite

import torch
from torch import Tensor

from rue.calibrate.left_out.affine import Affine, Diagonal, FeatureRows, Judge, Movable
from rue.core.arrays import Array
from rue.core.concepts import Objective, Solving, TrainingSet
from rue.core.curvature import GaussNewton
from rue.core.derivatives import loss_hessian, outputs, weighted_gradients
from rue.core.errors import NotConvergedError, RueError
from rue.core.one_step import LeftOut, left_out, left_out_losses
from rue.core.solve.dense import Cholesky

DECADES = tuple(float(power) for power in range(4, -7, -1))  # of the mean eigenvalue, strong penalties first
FINER = (0.5, 0.25, 0.125)  # decades around the best of them; the first alone where every trial takes many steps
STEPS = 120  # of L-BFGS, at most
CLOSE = 1e-7  # of the losses: a step that gains less is the last
MEMORY = 50  # steps that it remembers
LEAST = 1e-3  # of a loss's curvature, where the start is saturated
HALVINGS = 20
ENOUGH = 1e-4  # of the decrease that a straight line would promise (Armijo's rule)
ALONE = 1e5  # 1/(1 − leverage) beyond which a row alone determines its own fit
WORSE = 1.5  # times the least left-out loss, after which weaker penalties are not tried


@dataclass(frozen=True)
class Refitted:
    """The model under one strength of the penalty, at rest, and its left-out predictions."""

    model: Affine
    inverse: Solving = field(repr=False)
    left: LeftOut = field(repr=False)
    loss: float  # mean over the left-out rows
    limit: bool = False  # the strongest or weakest penalty that was tried was the best


def best_refit(like: Judge, rows: FeatureRows, spectrum: Tensor, alike: int = 1) -> Refitted:
    """The strength with the least left-out loss; features are in coordinates where Σ w zzᵀ is diag(spectrum).

    The spectrum of so many outputs with the same features has each value as often.
    """
    unit = float(spectrum.sum()) / (rows.n * alike)
    start = Affine(like, torch.zeros_like(spectrum), unit)
    tried: dict[float, Refitted] = {}
    for decade in DECADES:
        at = max(tried.values(), key=lambda one: -one.model.strength).model if tried else start
        found = _refitted(replace(at, strength=unit * 10.0**decade), rows, spectrum)
        if found is None:
            break  # a weaker penalty leaves rows that alone determine their fit
        tried[decade] = found
        if found.loss > WORSE * min(one.loss for one in tried.values()):
            break
    if not tried:
        raise NotConvergedError("no penalty makes the refitted model determined by the rows; give the l2 of training")
    best = min(tried, key=lambda decade: tried[decade].loss)
    limit = best in (max(tried), DECADES[-1])
    for finer in FINER if like.family.gaussian else FINER[:1]:
        for decade in (best + finer, best - finer):
            found = _refitted(replace(tried[best].model, strength=unit * 10.0**decade), rows, spectrum)
            if found is not None:
                tried[decade] = found
        best = min(tried, key=lambda decade: tried[decade].loss)
    return replace(tried[best], limit=limit)


def _refitted(start: Affine, rows: FeatureRows, spectrum: Tensor) -> Refitted | None:
    """None where a row alone would determine its own fit, or nothing converges."""
    try:
        model, inverse = _exact(start, rows, spectrum) if start.family.gaussian else _searched(start, rows, spectrum)
        left = left_out(model, rows, inverse)
        loss = float((rows.weight.to(left.slope.device) @ left_out_losses(model, rows, left)) / rows.weight.sum())
    except RueError:
        return None
    determined = isfinite(loss) and float(left.turn.abs().max()) < ALONE
    return Refitted(model, inverse, left, loss) if determined else None


def _exact(start: Affine, rows: FeatureRows, spectrum: Tensor) -> tuple[Affine, Solving]:
    """Squared error: the curvature is diagonal in these coordinates, and one step from anywhere is exact."""
    inverse = Diagonal(spectrum + start.strength)
    origin = replace(start, theta=torch.zeros_like(start.theta))
    return replace(start, theta=-inverse.solve(gradient(origin, rows)[None]).vectors[0]), inverse


def _searched(start: Affine, rows: FeatureRows, spectrum: Tensor) -> tuple[Affine, Solving]:
    """Another convex loss: L-BFGS in units in which the curvature is about one, factored where it rests."""
    from scipy.optimize import minimize

    with torch.no_grad():
        typical = [loss_hessian(start, outputs(start, batch.inputs), batch.targets) for batch in rows.batches()]
    curvature = float(torch.cat([part.diagonal(dim1=1, dim2=2).mean(1) for part in typical]).mean())
    unit = (max(curvature, LEAST) * spectrum + start.strength).rsqrt()
    size = max(_size(start, rows), torch.finfo(torch.float64).tiny)

    def evaluated(place: Array) -> tuple[float, Array]:
        moved = torch.from_numpy(place).to(unit).requires_grad_()
        with torch.enable_grad():
            value = objective(start.at(moved * unit), rows) / size
            (slope,) = torch.autograd.grad(value, moved)
        return float(value.detach()), slope.cpu().numpy()

    found = minimize(
        evaluated,
        (start.theta / unit).cpu().numpy(),
        method="L-BFGS-B",
        jac=True,
        options={"maxiter": STEPS, "maxcor": MEMORY, "ftol": CLOSE, "gtol": 0.0},
    )
    model = start.at(torch.from_numpy(found.x).to(unit) * unit)
    return model, Cholesky().factor(GaussNewton().at(model, rows), 0.0)


def downhill(model: Movable, data: TrainingSet, step: Tensor, value: float, gain: float) -> tuple[Movable, float]:
    """Newton's step, halved until the objective falls as it should."""
    for halvings in range(HALVINGS):
        size = 0.5**halvings
        moved = model.at(model.theta - size * step)
        reached = value_of(moved, data)
        if reached <= value - ENOUGH * size * gain:
            return moved, reached
    raise NotConvergedError("no step along Newton's direction lowers the refitted objective; is the loss convex?")


def gradient(model: Objective, data: TrainingSet) -> Tensor:
    """∇J at the model's theta: (d,) in float64."""
    with torch.enable_grad():
        theta = model.theta.detach().double().requires_grad_()
        (pull,) = torch.autograd.grad(model.penalty(theta), theta)
    return weighted_gradients(model, data, torch.ones(1, data.n, dtype=torch.float64))[0] + pull


def objective(model: Objective, data: TrainingSet) -> Tensor:
    """J at the model's theta, to differentiate."""
    parts = [
        batch.weight @ model.loss(model.predict(model.theta, batch.inputs), batch.targets).double()
        for batch in data.batches()
    ]
    return torch.stack(parts).sum() + model.penalty(model.theta.double())


def value_of(model: Objective, data: TrainingSet) -> float:
    """The same as a number."""
    with torch.no_grad():
        return float(objective(model, data))


def _size(model: Objective, data: TrainingSet) -> float:
    """Σ w|ℓ|: what the objective is made of, whatever its sign."""
    with torch.no_grad():
        parts = [
            batch.weight @ model.loss(outputs(model, batch.inputs), batch.targets).double().abs()
            for batch in data.batches()
        ]
    return float(torch.stack(parts).sum())
