"""The type of a loss, and checks that bring targets into the form it takes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rue.core.concepts import Coupling, Family
from rue.core.errors import DataError, ShapeError
from rue.core.stored import storable

PLAIN = Family()

FitTargets = Callable[[Any, int], Tensor]
"""From raw targets and the number of outputs k to the targets that the loss takes."""


@storable
@dataclass(frozen=True)
class Loss:
    """One value per example from outputs (n, k), and the meaning of the outputs."""

    name: str
    value: Callable[[Tensor, Any], Tensor]
    family: Family = PLAIN
    fit_targets: FitTargets | None = field(default=None, repr=False)  # None: targets are taken as they are
    hessian: Callable[[Tensor, Any], Tensor] | None = field(
        default=None, repr=False
    )  # ∂²ℓ/∂f² (n, k, k); None: by automatic differentiation
    coupling: Callable[[Tensor, Any, Tensor], Coupling] | None = field(
        default=None, repr=False
    )  # only for coupled rows

    def __call__(self, outputs: Tensor, targets: Any) -> Tensor:
        """Loss of each example (n,) from outputs (n, k)."""
        return self.value(outputs, targets)


@storable
def like_outputs(targets: Any, k: int) -> Tensor:
    """Targets in the shape of the outputs (n, k); nothing is broadcast."""
    targets = one_tensor(targets)
    shape = tuple(targets.shape)
    if shape == (shape[0], k) or (shape == (shape[0],) and k == 1):
        return targets.reshape(-1, k)
    raise ShapeError(
        f"targets have shape {shape}, the outputs ({shape[0]}, {k}); they must agree, nothing is broadcast"
    )


def one_for_each_row(targets: Any) -> Tensor:
    """Targets (n,), for any number of outputs."""
    targets = one_tensor(targets)
    if targets.dim() == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.dim() != 1:
        raise ShapeError(f"targets have shape {tuple(targets.shape)}, expected one number per row ({len(targets)},)")
    return targets


def within(targets: Tensor, ok: Tensor, wanted: str) -> Tensor:
    """Return the targets, or raise if some are outside the range of the loss."""
    if not bool(ok.all()):
        raise DataError(f"{int((~ok).sum())} of {ok.numel()} targets are not {wanted}; check what the loss is of")
    return targets


def whole(targets: Tensor, classes: int) -> Tensor:
    """Labels: the whole numbers from 0 to classes − 1, (n,)."""
    labels = one_for_each_row(targets)
    ok = (labels == labels.round()) & (labels >= 0) & (labels < classes)
    return within(labels, ok, f"the whole numbers 0 to {classes - 1}").long()


def one_tensor(targets: Any) -> Tensor:
    """The targets as one array of floating-point numbers; raises for nested structures."""
    if not isinstance(targets, Tensor):
        raise ShapeError(f"targets are a {type(targets).__name__}, expected one array (n,) or (n, k); stack the parts")
    if targets.dim() not in (1, 2):
        raise ShapeError(f"targets have shape {tuple(targets.shape)}, expected (n,) or (n, k)")
    return targets if targets.is_floating_point() else targets.double()


def diagonal(values: Tensor) -> Tensor:
    """Diagonal matrices: (n, k) -> (n, k, k)."""
    return torch.diag_embed(values)
