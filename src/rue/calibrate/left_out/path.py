"""Refits an affine model for several strengths of its penalty, and chooses the one with the least left-out loss."""

from dataclasses import dataclass, field, replace
from math import isfinite

import torch
from torch import Tensor

from rue.calibrate.left_out.affine import Affine, Diagonal, FeatureRows, Judge, Movable
from rue.core.arrays import Array
from rue.core.concepts import Objective, Solving, TrainingSet
from rue.core.curvature import GaussNewton
from rue.core.derivatives import loss_hessian, outputs
from rue.core.errors import NotConvergedError, RueError
from rue.core.gradient_sums import weighted_gradients
from rue.core.one_step import LeftOut, left_out, left_out_losses
from rue.core.solve.dense import Cholesky
from rue.core.sums import summed

DECADES = tuple(float(power) for power in range(4, -7, -1))  # powers of ten of the mean eigenvalue, strongest first
FINER = (0.5, 0.25, 0.125)  # finer steps around the best, in decades; only the first if every trial takes many steps
STEPS = 120  # maximum number of L-BFGS steps
CLOSE = 1e-7  # relative decrease of the objective at which L-BFGS stops
MEMORY = 50  # steps that L-BFGS remembers
LEAST = 1e-3  # smallest curvature of the loss that is assumed, for starts with saturated classes
HALVINGS = 20  # maximum number of halvings of a Newton step
ENOUGH = 1e-4  # required part of the decrease that a linear model predicts (Armijo's rule)
ALONE = 1e5  # 1/(1 − leverage) above which a row alone determines its own fit
WORSE = 1.5  # weaker penalties are not tried after a loss of so many times the least one


@dataclass(frozen=True)
class Refitted:
    """The model refitted under one strength of the penalty, and its left-out predictions."""

    model: Affine
    inverse: Solving = field(repr=False)
    left: LeftOut = field(repr=False)
    loss: float  # mean over the left-out rows
    limit: bool = False  # the best penalty was the strongest or weakest one tried


def best_refit(like: Judge, rows: FeatureRows, spectrum: Tensor, alike: int = 1) -> Refitted:
    """The refit with the least left-out loss; features z are in coordinates where Σ w zzᵀ is diag(spectrum).

    If `alike` outputs share the same features, the spectrum holds every value that many times.
    """
    unit = float(spectrum.sum()) / (rows.n * alike)
    start = Affine(like, torch.zeros_like(spectrum), unit)
    tried: dict[float, Refitted] = {}
    for decade in DECADES:
        at = max(tried.values(), key=lambda trial: -trial.model.strength).model if tried else start
        refit = _refitted(replace(at, strength=unit * 10.0**decade), rows, spectrum)
        if refit is None:
            break  # under weaker penalties, too, some rows alone would determine their fit
        tried[decade] = refit
        if refit.loss > WORSE * min(trial.loss for trial in tried.values()):
            break
    if not tried:
        raise NotConvergedError("no penalty makes the refitted model determined by the rows; give the l2 of training")
    best = min(tried, key=lambda decade: tried[decade].loss)
    limit = best in (max(tried), DECADES[-1])
    for finer in FINER if like.family.gaussian else FINER[:1]:
        for decade in (best + finer, best - finer):
            refit = _refitted(replace(tried[best].model, strength=unit * 10.0**decade), rows, spectrum)
            if refit is not None:
                tried[decade] = refit
        best = min(tried, key=lambda decade: tried[decade].loss)
    return replace(tried[best], limit=limit)


def _refitted(start: Affine, rows: FeatureRows, spectrum: Tensor) -> Refitted | None:
    """The refit; None if a row alone would determine its own fit, or the search does not converge."""
    try:
        model, inverse = _exact(start, rows, spectrum) if start.family.gaussian else _searched(start, rows, spectrum)
        left = left_out(model, rows, inverse)
        loss = float((rows.weight.to(left.slope.device) @ left_out_losses(model, rows, left)) / rows.weight.sum())
    except RueError:
        return None
    determined = isfinite(loss) and float(left.turn.values.abs().max()) < ALONE
    return Refitted(model, inverse, left, loss) if determined else None


def _exact(start: Affine, rows: FeatureRows, spectrum: Tensor) -> tuple[Affine, Solving]:
    """For squared error: the curvature is diagonal in these coordinates, and one Newton step is exact."""
    inverse = Diagonal(spectrum + start.strength)
    origin = replace(start, theta=torch.zeros_like(start.theta))
    return replace(start, theta=-inverse.solve(gradient(origin, rows)[None]).vectors[0]), inverse


def _searched(start: Affine, rows: FeatureRows, spectrum: Tensor) -> tuple[Affine, Solving]:
    """For other convex losses: L-BFGS in coordinates where the curvature is about one, then factored at the minimum."""
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

    optimum = minimize(
        evaluated,
        (start.theta / unit).cpu().numpy(),
        method="L-BFGS-B",
        jac=True,
        options={"maxiter": STEPS, "maxcor": MEMORY, "ftol": CLOSE, "gtol": 0.0},
    )
    model = start.at(torch.from_numpy(optimum.x).to(unit) * unit)
    return model, Cholesky().factor(GaussNewton().at(model, rows), 0.0)


def downhill(model: Movable, data: TrainingSet, step: Tensor, value: float, gain: float) -> tuple[Movable, float]:
    """Take a Newton step, halved until the objective decreases enough (Armijo's rule)."""
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
    """J at the model's theta, differentiable."""
    return _loss(model, data) + model.penalty(model.theta.double())


def value_of(model: Objective, data: TrainingSet) -> float:
    """J at the model's theta, as a number."""
    with torch.no_grad():
        (loss,) = summed(data, lambda block: (_loss(model, block),), 1)
        return float(loss + model.penalty(model.theta.double()))


def _loss(model: Objective, data: TrainingSet) -> Tensor:
    parts = [
        batch.weight @ model.loss(model.predict(model.theta, batch.inputs), batch.targets).double()
        for batch in data.batches()
    ]
    return torch.stack(parts).sum()


def _size(model: Objective, data: TrainingSet) -> float:
    """Σ w|ℓ|, the scale of the objective."""
    with torch.no_grad():
        parts = [
            batch.weight @ model.loss(outputs(model, batch.inputs), batch.targets).double().abs()
            for batch in data.batches()
        ]
    return float(torch.stack(parts).sum())
