"""Every training row as a model says that was never shown the row, or its group: leverage and one Newton step."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from rue.core.concepts import Batch, Objective, Solving, TrainingSet
from rue.core.derivatives import jacobian_batches, loss_gradient, outputs, weighted_hessian
from rue.core.errors import ModelError, NumericalError, SettingError
from rue.core.memory import free_bytes
from rue.core.nested import take

COPIES = 4  # of all Jacobians that leaving groups out holds at the same time
Sole = Literal["refuse", "first order"]
CLOSE = 1e-8  # a leverage this close to one: without the row the model is not determined


@dataclass(frozen=True)
class LeftOut:
    """The training rows without their own unit: to first order, exact for a linear model with squared error.

    With M = JH̃⁻¹Jᵀ and Λ, r the weighted curvature and slope of the unit's loss, all of one unit's rows together,
    its parameters move by H̃⁻¹Jᵀ(I − ΛM)⁻¹r and its outputs by M(I − ΛM)⁻¹r.
    """

    fitted: Tensor = field(repr=False)  # (n, k), the model's own outputs
    prediction: Tensor = field(repr=False)  # (n, k), without the row's unit
    slope: Tensor = field(repr=False)  # (n, k), ∂ℓ/∂f there, of weight one
    pull: Tensor = field(repr=False)  # (n, k), (I − ΛM)⁻¹r
    reach: Tensor = field(repr=False)  # (n, k, k), the row's own block of M without its unit, M(I − ΛM)⁻¹
    turn: Tensor = field(repr=False)  # (n, k, k), the row's own block of (I − MΛ)⁻¹: JH̃⁻¹ without the unit over with it
    drawn: Tensor = field(repr=False)  # (n, k), Mr: the influence of its own unit on the row
    share: Tensor = field(repr=False)  # (n,), the row's leverage, trace of its block of ΛM
    residual: float  # of the solves

    @property
    def effective(self) -> float:
        """Effective parameters: the sum of all leverages."""
        return float(self.share.sum())


def left_out(model: Objective, data: TrainingSet, inverse: Solving, sole: Sole = "refuse") -> LeftOut:
    """Leave every unit out, one at a time; `sole` says what becomes of one that alone determines its own fit."""
    if model.family.coupled:
        raise ModelError(
            "a row whose loss depends on the other rows cannot be left out by its own leverage; use LinearRUE with "
            'meat="HC0", whose influences are exact for it'
        )
    leave = _rows if data.units == data.n else _groups
    found, residual = leave(model, data, inverse, sole)
    prediction, share = found["fitted"] + found.pop("moved"), found.pop("share").sum(-1)
    slope = torch.cat(
        [
            loss_gradient(model, prediction[batch.rows].to(model.theta.dtype), batch.targets).double()
            for batch in data.batches()
        ]
    )
    return LeftOut(prediction=prediction, slope=slope, share=share, residual=residual, **found)


def left_out_losses(model: Objective, data: TrainingSet, left: LeftOut) -> Tensor:
    """The loss of every row at its left-out prediction: (n,) in float64."""
    with torch.no_grad():
        parts = [
            model.loss(left.prediction[batch.rows].to(model.theta.dtype), batch.targets).double()
            for batch in data.batches()
        ]
    return torch.cat(parts)


def step_without(model: Objective, data: TrainingSet, inverse: Solving, rows: Tensor) -> Tensor:
    """How the parameters (d,) move when some rows (s,) are left out together: H̃⁻¹Jᵀ(I − ΛM)⁻¹r of these rows."""
    jacobians, losses = [], []
    for batch, jacobian in jacobian_batches(model, data):
        here = rows[(rows >= batch.rows.start) & (rows < batch.rows.stop)] - batch.rows.start
        if len(here):
            part = Batch(take(batch.inputs, here), take(batch.targets, here), batch.weight[here], batch.rows)
            jacobians.append(jacobian[here].double().flatten(0, 1))
            losses.append(_loss(model, part))
    _, slope, curvature = (torch.cat(part) for part in zip(*losses, strict=True))
    wide = torch.cat(jacobians)
    solved = inverse.solve(wide).vectors
    pull = _without((wide @ solved.T)[None], torch.block_diag(*curvature)[None], slope.reshape(1, -1))["pull"][0]
    return pull @ solved


def leverage(jacobian: Tensor, inverse: Solving) -> tuple[Tensor, float]:
    """M = J H̃⁻¹ Jᵀ for every row: (c, k, d) -> (c, k, k) in float64, and the residual of the solve."""
    rows = jacobian.double()
    solved, residual = inverse.solve(rows.flatten(0, 1))
    return rows @ solved.view_as(rows).mT, residual


def _rows(model: Objective, data: TrainingSet, inverse: Solving, sole: Sole) -> tuple[dict[str, Tensor], float]:
    """Row by row, in batches."""
    parts, residual = [], 0.0
    for batch, jacobian in jacobian_batches(model, data):
        fitted, slope, curvature = _loss(model, batch)
        own, checked = leverage(jacobian, inverse)
        residual = max(residual, checked)
        parts.append({"fitted": fitted, **_without(own, curvature, slope, sole)})
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}, residual


def _groups(model: Objective, data: TrainingSet, inverse: Solving, sole: Sole) -> tuple[dict[str, Tensor], float]:
    """Unit by unit: rows of a group may lie anywhere, so the Jacobians of all are held."""
    count = data.n * outputs(model, next(iter(data.batches())).inputs).shape[1]
    needed = COPIES * 8 * count * model.theta.numel()
    if needed > free_bytes(model.theta.device):
        raise SettingError(
            f"leaving groups out holds all {count} gradients of {model.theta.numel()} parameters, about "
            f"{needed / 2**30:.1f} GiB; select= fewer parameters, or leave the groups away"
        )
    losses, jacobians = [], []
    for batch, jacobian in jacobian_batches(model, data):
        losses.append(_loss(model, batch))
        jacobians.append(jacobian.double())
    fitted, slope, curvature = (torch.cat(part) for part in zip(*losses, strict=True))
    rows = torch.cat(jacobians)
    n, k, d = rows.shape
    solved, residual = inverse.solve(rows.reshape(n * k, d))
    solved = solved.view(n, k, d)
    order = torch.argsort(data.unit, stable=True)
    parts = []
    for members in order.split(torch.bincount(data.unit, minlength=data.units).tolist()):
        c = len(members)
        own = rows[members].reshape(c * k, d) @ solved[members].reshape(c * k, d).T
        found = _without(own[None], torch.block_diag(*curvature[members])[None], slope[members].reshape(1, c * k), sole)
        parts.append({name: _by_row(value[0], c, k) for name, value in found.items()})
    back = torch.argsort(order)
    return {"fitted": fitted} | {name: torch.cat([part[name] for part in parts])[back] for name in parts[0]}, residual


def _without(own: Tensor, curvature: Tensor, slope: Tensor, sole: Sole = "refuse") -> dict[str, Tensor]:
    """The fields of `LeftOut` for M, Λ (c, s, s) and r (c, s), with all s outputs of a unit left out together."""
    hat = curvature @ own
    alone = torch.linalg.eigvals(hat).real.max(-1).values > 1 - CLOSE
    if bool(alone.any()) and sole == "refuse":
        raise NumericalError(
            "a row or group has leverage one: without it the model is not determined; add a penalty, or for a variance "
            "use HC0"
        )
    kept = torch.where(alone[:, None, None], 0.0, hat)
    turn = torch.linalg.inv(torch.eye(hat.shape[-1], dtype=hat.dtype, device=hat.device) - kept)  # (I − ΛM)⁻¹
    pull = (turn @ slope.unsqueeze(-1)).squeeze(-1)
    return {
        "moved": (own @ pull.unsqueeze(-1)).squeeze(-1),
        "pull": pull,
        "reach": own @ turn,
        "turn": turn.mT,
        "drawn": (own @ slope.unsqueeze(-1)).squeeze(-1),
        "share": hat.diagonal(dim1=-2, dim2=-1),
    }


def _by_row(values: Tensor, c: int, k: int) -> Tensor:
    """What belongs to each of a unit's c rows: (c·k,) -> (c, k), and the blocks on the diagonal of (c·k, c·k)."""
    if values.ndim == 1:
        return values.view(c, k)
    rows = torch.arange(c, device=values.device)
    return values.view(c, k, c, k)[rows, :, rows]


def _loss(model: Objective, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs (c, k), and the weighted slope (c, k) and curvature (c, k, k) of the loss there, in float64."""
    fitted = outputs(model, batch.inputs)
    slope = batch.weight[:, None] * loss_gradient(model, fitted, batch.targets).double()
    curvature = weighted_hessian(model, fitted, batch)
    return fitted.double(), slope, curvature
