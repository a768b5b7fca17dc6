"""Left-out predictions: what a model trained without a row, or its group, would predict for it.

They follow from the row's leverage and one Newton step; nothing is trained again.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rue.core.concepts import Batch, Objective, Solving, TrainingSet
from rue.core.derivatives import followed_batches, jacobian_batches, loss_gradient, outputs, weighted_hessian
from rue.core.errors import ModelError, NumericalError, SettingError
from rue.core.followed import Followed, OutputBlocks
from rue.core.memory import free_bytes
from rue.core.nested import take
from rue.core.stored import storable

COPIES = 4  # of all Jacobians that are in memory at once when groups are left out
Sole = Literal["refuse", "first order"]
CLOSE = 1e-8  # a leverage this close to one: without the row the model is not determined


@storable
@dataclass(frozen=True)
class LeftOut:
    """Every training row with its own unit left out: an approximation, exact for a linear model with squared error.

    For all rows of one unit together, let M = JH̃⁻¹Jᵀ, and let Λ and r be the weighted curvature and slope of the loss.
    Without the unit the parameters move by H̃⁻¹Jᵀ(I − ΛM)⁻¹r and the unit's outputs by M(I − ΛM)⁻¹r.
    """

    fitted: Tensor = field(repr=False)  # (n, k), the model's own outputs
    prediction: Tensor = field(repr=False)  # (n, k), without the row's unit
    slope: Tensor = field(repr=False)  # (n, k), ∂ℓ/∂f at that prediction, without the row's weight
    pull: Tensor = field(repr=False)  # (n, k), (I − ΛM)⁻¹r
    reach: OutputBlocks  # (n, k, k), the row's block of M(I − ΛM)⁻¹, which is M without the unit
    turn: OutputBlocks  # (n, k, k), the row's block of (I − MΛ)⁻¹, which maps JH̃⁻¹ to that without the unit
    drawn: Tensor = field(repr=False)  # (n, k), Mr: the influence of the row's own unit on its outputs
    share: Tensor = field(repr=False)  # (n,), the leverage of the row: the trace of its block of ΛM
    size: Tensor = field(repr=False)  # (n,), the Frobenius norm of the row's block of M
    residual: float  # the largest relative residual of the solves

    @property
    def effective(self) -> float:
        """Effective parameters: the sum of all leverages."""
        return float(self.share.sum())


def left_out(model: Objective, data: TrainingSet, inverse: Solving, sole: Sole = "refuse") -> LeftOut:
    """Leave every unit out, one at a time.

    A unit with leverage one alone determines its own fit. `sole` chooses what happens then: "refuse" raises, "first
    order" uses the unit's influence without the factor (I − ΛM)⁻¹.
    """
    if model.family.coupled:
        raise ModelError(
            "a row whose loss depends on the other rows cannot be left out by its own leverage; use LinearRUE with "
            'meat="HC0", whose influences are exact for it'
        )
    leave = _rows if data.units == data.n else _groups
    parts, residual = leave(model, data, inverse, sole)
    prediction = torch.cat([part.fitted + part.moved for part in parts])
    slope = torch.cat(
        [
            loss_gradient(model, prediction[batch.rows].to(model.theta.dtype), batch.targets).double()
            for batch in data.batches()
        ]
    )
    return LeftOut(
        fitted=torch.cat([part.fitted for part in parts]),
        prediction=prediction,
        slope=slope,
        pull=torch.cat([part.pull for part in parts]),
        reach=OutputBlocks.joined([part.reach for part in parts]),
        turn=OutputBlocks.joined([part.turn for part in parts]),
        drawn=torch.cat([part.drawn for part in parts]),
        share=torch.cat([part.share for part in parts]),
        size=torch.cat([part.size for part in parts]),
        residual=residual,
    )


def left_out_losses(model: Objective, data: TrainingSet, left: LeftOut) -> Tensor:
    """The loss of every row at its left-out prediction: (n,) in float64."""
    with torch.no_grad():
        parts = [
            model.loss(left.prediction[batch.rows].to(model.theta.dtype), batch.targets).double()
            for batch in data.batches()
        ]
    return torch.cat(parts)


def step_without(model: Objective, data: TrainingSet, inverse: Solving, rows: Tensor) -> Tensor:
    """The change H̃⁻¹Jᵀ(I − ΛM)⁻¹r of the parameters (d,) when some rows (s,) are left out together."""
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


class _Part(NamedTuple):
    """Some rows left out: the fields of `LeftOut`, and how far their outputs move."""

    fitted: Tensor
    moved: Tensor  # (c, k)
    pull: Tensor
    reach: OutputBlocks
    turn: OutputBlocks
    drawn: Tensor
    share: Tensor
    size: Tensor


def _rows(model: Objective, data: TrainingSet, inverse: Solving, sole: Sole) -> tuple[list[_Part], float]:
    """Leave out single rows, in batches.

    Outputs that are not followed do not move: M is zero there, and (I − ΛM)⁻¹r = r + Λ(moved).
    """
    parts, residual = [], 0.0
    for batch, rows in followed_batches(model, data):
        fitted, slope, curvature = _loss(model, batch)
        leverages, checked = leverage(rows.values, inverse)
        residual = max(residual, checked)
        fields = _without(leverages, rows.among(curvature), rows.of(slope), sole)
        moved = rows.placed(fields["moved"])
        pull = fields["pull"] if rows.at is None else slope + (curvature @ moved.unsqueeze(-1)).squeeze(-1)
        parts.append(
            _Part(
                fitted,
                moved,
                pull,
                rows.blocks(fields["reach"]),
                rows.blocks(fields["turn"], beside=1.0),
                rows.placed(fields["drawn"]),
                fields["share"].sum(-1),
                torch.linalg.matrix_norm(leverages),
            )
        )
    return parts, residual


def _groups(model: Objective, data: TrainingSet, inverse: Solving, sole: Sole) -> tuple[list[_Part], float]:
    """Leave out groups. Rows of a group may be anywhere, so all Jacobians are in memory."""
    count = data.n * outputs(model, next(iter(data.batches())).inputs).shape[1]
    needed = COPIES * 8 * count * model.theta.numel()
    if needed > free_bytes(model.theta.device):
        raise SettingError(
            f"leaving groups out holds all {count} gradients of {model.theta.numel()} parameters, about "
            f"{needed / 2**30:.1f} GiB; select= fewer parameters, or audit without groups"
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
        leverages = rows[members].reshape(c * k, d) @ solved[members].reshape(c * k, d).T
        curvatures, slopes = torch.block_diag(*curvature[members]), slope[members].reshape(1, c * k)
        fields = {**_without(leverages[None], curvatures[None], slopes, sole), "own": leverages[None]}
        parts.append({name: _by_row(value[0], c, k) for name, value in fields.items()})
    back = torch.argsort(order)
    found = {name: torch.cat([part[name] for part in parts])[back] for name in parts[0]}
    every = Followed(rows, None, k)
    reach, turn, share = every.blocks(found.pop("reach")), every.blocks(found.pop("turn")), found.pop("share").sum(-1)
    size = torch.linalg.matrix_norm(found.pop("own"))
    return [_Part(fitted=fitted, reach=reach, turn=turn, share=share, size=size, **found)], residual


def _without(leverages: Tensor, curvature: Tensor, slope: Tensor, sole: Sole = "refuse") -> dict[str, Tensor]:
    """The fields of `LeftOut` from M, Λ (c, s, s) and r (c, s), with all s outputs of a unit left out together."""
    hat = curvature @ leverages
    alone = _determines_itself(hat)
    if bool(alone.any()) and sole == "refuse":
        raise NumericalError(
            "a row or group has leverage one: without it the model is not determined; add a penalty, or for a variance "
            "use HC0"
        )
    kept = torch.where(alone[:, None, None], 0.0, hat)
    turn = torch.linalg.inv(torch.eye(hat.shape[-1], dtype=hat.dtype, device=hat.device) - kept)  # (I − ΛM)⁻¹
    pull = (turn @ slope.unsqueeze(-1)).squeeze(-1)
    return {
        "moved": (leverages @ pull.unsqueeze(-1)).squeeze(-1),
        "pull": pull,
        "reach": leverages @ turn,
        "turn": turn.mT,
        "drawn": (leverages @ slope.unsqueeze(-1)).squeeze(-1),
        "share": hat.diagonal(dim1=-2, dim2=-1),
    }


def _determines_itself(hat: Tensor) -> Tensor:
    """Which of the matrices (c, s, s) have an eigenvalue of one; no matrix with a smaller norm has such."""
    large = torch.linalg.matrix_norm(hat) > 1 - CLOSE
    found = torch.zeros_like(large)
    if bool(large.any()):  # on the CPU, because a GPU finds eigenvalues of small matrices one after the other
        found[large] = (torch.linalg.eigvals(hat[large].cpu()).real.amax(-1) > 1 - CLOSE).to(hat.device)
    return found


def _by_row(values: Tensor, c: int, k: int) -> Tensor:
    """Values of a unit split by its c rows: (c·k,) -> (c, k), or (c·k, c·k) -> its diagonal blocks (c, k, k)."""
    if values.ndim == 1:
        return values.view(c, k)
    rows = torch.arange(c, device=values.device)
    return values.view(c, k, c, k)[rows, :, rows]


def _loss(model: Objective, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs (c, k), and the weighted slope (c, k) and curvature (c, k, k) of the loss at them, in float64."""
    fitted = outputs(model, batch.inputs)
    slope = batch.weight[:, None] * loss_gradient(model, fitted, batch.targets).double()
    curvature = weighted_hessian(model, fitted, batch)
    return fitted.double(), slope, curvature
