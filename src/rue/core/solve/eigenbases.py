"""EK-FAC as a preconditioner: the curvature counts as diagonal in eigenbases of every layer, to begin with."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.core.chunks import chunk_rows, chunks, inputs_of
from rue.core.concepts import Curvature, Facts, Objective, TrainingSet
from rue.core.coordinates import Coordinates, CurvedRows
from rue.core.curvature import convex_root
from rue.core.derivatives import loss_hessian, outputs
from rue.core.errors import NotPositiveDefiniteError, SettingError
from rue.core.nested import take
from rue.core.progress import track
from rue.core.stored import storable


@dataclass(frozen=True)
class EigenBases:
    """For `ConjugateGradient(preconditioner=EigenBases())`: what `EKFAC` takes for the inverse, as a first guess.

    Iterations go on until the answer is exact, whatever a preconditioner is: it only changes how many there are.
    """

    def at(self, curvature: Curvature, damping: float) -> "TurnedPreconditioner":
        """Turn every layer into its eigenbases, and add up the squares of the curvature's root there."""
        model = curvature.model
        root, penalty = curvature.root(), curvature.penalty_diagonal()
        if model.eigenbases is None or model.family.coupled or root is None or penalty is None:
            raise SettingError(
                "EigenBases() are those of layers of a torch module, with curvature=GaussNewton() and a penalty that "
                "couples no parameters, and this model has none; use ConjugateGradient(rank=100)"
            )
        held = penalty + damping
        coordinates = model.eigenbases(inputs_of(curvature.data), curved_rows(model, curvature.data))
        values = torch.cat([part.mean().expand(size) for part, size in coordinates.parts(held)])
        for rows in root:
            values = values + coordinates.project(rows).square().sum(0)
        return TurnedPreconditioner(coordinates, positive(values, damping), _unused(coordinates, held))


@storable
@dataclass(frozen=True)
class TurnedPreconditioner:
    """P⁻¹ = Qᵀ diag(1/values) Q, with Q the coordinates; parameters that no layer uses have their penalty alone."""

    coordinates: Coordinates = field(repr=False)
    values: Tensor = field(repr=False)  # (r,)
    unused: Tensor = field(repr=False)  # (d,), one over penalty and damping where no layer is, else zero

    def __call__(self, rows: Tensor) -> Tensor:
        """Apply to every row of (r, d)."""
        pull = torch.func.vjp(self.coordinates.project, rows)  # the coordinates, and their transpose as a function
        return pull[1](pull[0] / self.values)[0].detach() + rows * self.unused

    def describe(self) -> Facts:
        """The preconditioner's name, and how much of the model it sees through eigenbases."""
        return {"preconditioner": "EigenBases", **self.coordinates.describe()}


def positive(values: Tensor, damping: float) -> Tensor:
    """The values themselves; raises if some are zero."""
    if not bool((values > 0).all()):
        raise NotPositiveDefiniteError(
            f"{int((values <= 0).sum())} of {len(values)} eigenvalues are zero with damping {damping:.3g}; give "
            "the l2 of training, or a damping"
        )
    return values


def curved_rows(model: Objective, data: TrainingSet) -> Iterator[CurvedRows]:
    """All training rows, with the roots of the second derivatives of their losses."""
    for batch in track("eigenbases", data.batches()):
        k = outputs(model, take(batch.inputs, slice(0, 1))).shape[1]
        for part in chunks(batch, chunk_rows(model, k)):
            curved = loss_hessian(model, outputs(model, part.inputs), part.targets).double()
            yield CurvedRows(part.inputs, convex_root(curved), part.weight)


def _unused(coordinates: Coordinates, held: Tensor) -> Tensor:
    """One over `held` (d,) for parameters without coordinates, zero for all others."""
    rest = torch.where(held > 0, held, torch.ones_like(held)).reciprocal()
    for entries, _ in coordinates.parts(torch.arange(len(held), device=held.device)):
        rest[entries.reshape(-1)] = 0.0
    return rest
