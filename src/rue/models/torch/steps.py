"""Finds steps in a model, such as rounding, and cuts, such as `detach`, that make derivatives wrongly zero."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rue.core.errors import ModelError

SHIFTS = (0.1, -1.0, 10.0, -10.0)  # relative to the size of a parameter; tried in turn until the outputs move


def refuse_steps(
    call: Callable[[Tensor], Tensor], theta: Tensor, split: Callable[[Tensor], Mapping[str, Tensor]]
) -> None:
    """Refuse outputs that move with a parameter although their derivative is zero both before and after the move.

    A ReLU unit that is off also has a zero derivative, but no longer after a move that turns it on.
    """
    outputs, slope = _slope(call, theta)
    if slope is None:
        return  # nothing depends on theta: another check refuses that
    silent = [name for name, part in split(slope).items() if not bool(part.any())]
    stepped = [name for name in silent if _steps(call, theta, split, name, outputs)]
    if stepped:
        others = [name for name in split(theta) if name not in stepped]
        after = f", or audit what follows the step: select={others!r}" if others else ""
        raise ModelError(
            f"the outputs change with {_listed(stepped)}, but in steps: the derivative is zero (a rounding, sign, "
            "argmax or hard threshold follows, or a detach), so that resampling would seem not to move it; use a "
            f"smooth activation (tanh, sigmoid, softplus){after}"
        )


def _steps(
    call: Callable[[Tensor], Tensor],
    theta: Tensor,
    split: Callable[[Tensor], Mapping[str, Tensor]],
    name: str,
    outputs: Tensor,
) -> bool:
    for shift in SHIFTS:
        moved = theta.detach().clone()
        part = split(moved)[name]  # a view
        size = part.square().mean().sqrt() if bool(part.any()) else torch.ones((), dtype=part.dtype, device=part.device)
        part.add_(shift * size * _signs(part))
        there, slope = _slope(call, moved)
        if not torch.equal(there, outputs):
            return slope is None or not bool(split(slope)[name].any())
    return False


def _slope(call: Callable[[Tensor], Tensor], theta: Tensor) -> tuple[Tensor, Tensor | None]:
    """Outputs, and the derivative of a random weighted sum of them: zero only if the derivative of each is zero."""
    with torch.enable_grad():
        at = theta.detach().clone().requires_grad_()
        outputs = call(at)
        if not outputs.requires_grad:
            return outputs.detach(), None
        cotangent = 1 + torch.rand(outputs.shape, generator=torch.Generator().manual_seed(0)).to(outputs)
        (slope,) = torch.autograd.grad(outputs, at, cotangent, allow_unused=True)
    return outputs.detach(), slope


def _signs(part: Tensor) -> Tensor:
    """Random numbers of both signs, the same on every run."""
    return torch.randn(part.shape, generator=torch.Generator().manual_seed(1)).to(part)


def _listed(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
