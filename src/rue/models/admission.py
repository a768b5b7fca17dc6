"""Checks of a model before anything is computed: models that cannot be audited are refused, with advice."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rue.core.concepts import Inputs
from rue.core.errors import ModelError, RueError, ShapeError
from rue.core.model import Model
from rue.core.nested import leaves, map_leaves, take

SHIFTS = (0.1, -1.0, 10.0, -10.0)  # relative to the size of a parameter; tried in turn until the outputs move


def admit(model: Model, inputs: Inputs, targets: Any) -> None:
    """Check a bound model on a first batch of training rows."""
    handed = map_leaves(torch.clone, inputs)
    with torch.no_grad(), described(f"the model could not take inputs of {shapes(inputs)}"):
        outputs, again = (model.predict(model.theta, handed) for _ in range(2))
        alone = torch.cat([model.predict(model.theta, row) for row in _ends(handed)])
    if not all(_same(a, b) for a, b in zip(leaves(handed), leaves(inputs), strict=True)):
        raise ModelError(
            "the model changes its inputs in place, so that a second pass would see other data; use inplace=False "
            "in its first layer"
        )
    if not bool(torch.isfinite(outputs).all()):
        raise ModelError("the model returns NaN or infinite outputs on the training rows; there is nothing to audit")
    if not torch.equal(outputs, again):
        raise ModelError(
            "two passes over the same rows gave different outputs; remove what is random in the model (dropout, "
            "sampling, noise) or call net.eval() before the audit"
        )
    if alone.shape != (2, outputs.shape[1]):
        raise ShapeError(
            f"the model returned {tuple(alone.shape)} for two single rows, expected (2, {outputs.shape[1]}); "
            "squeeze(-1) rather than squeeze() keeps the axis of rows"
        )
    apart = _apart(alone, outputs)
    if apart:
        raise ModelError(
            f"the prediction of a row changes by {apart:.1e} (relative) with the rows beside it in the batch; batch "
            "statistics at prediction time, or an LSTM without batch_first=True, cannot be audited"
        )
    _admit_logits(model, outputs)
    _admit_loss(model, inputs, targets)
    if model.no_objective is None:
        _admit_penalty(model)


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal, with NaN at the same places."""
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())


@contextmanager
def described(what: str) -> Iterator[None]:
    """Add what was being done to an error from the user's own code."""
    try:
        yield
    except RueError:
        raise
    except (RuntimeError, TypeError, IndexError, ValueError, AttributeError, KeyError) as error:
        raise ModelError(f"{what}: {error!r}; give data as you gave it to the model in training") from error


def shapes(tree: Any) -> str:
    """Shapes and types of the leaves, for messages."""
    return ", ".join(f"{tuple(leaf.shape)} {str(leaf.dtype).removeprefix('torch.')}" for leaf in leaves(tree))


def _admit_logits(model: Model, outputs: Tensor) -> None:
    """Refuse probabilities where logits are wanted: the loss would apply a softmax to them again."""
    if model.family.decision != "largest" or outputs.shape[1] < 2:
        return
    if bool((outputs >= 0).all()) and bool(((outputs.sum(-1) - 1).abs() < 1e-5).all()):
        raise ModelError(
            "the outputs of every row sum to one: they are probabilities, and the loss wants logits; leave the last "
            "softmax out, or give a callable loss of probabilities"
        )


def _admit_loss(model: Model, inputs: Inputs, targets: Any) -> None:
    """Refuse a loss that is not one finite value per example, independent of other rows and differentiable in theta."""
    n = len(leaves(inputs)[0])
    with torch.enable_grad(), described(f"the loss could not take the outputs and targets of {shapes(targets)}"):
        outputs = model.predict(model.theta.detach().requires_grad_(), inputs)
        losses = _checked_losses(model.loss(outputs, targets), n)
        ends = zip(_ends(outputs), _ends(targets), strict=True)
        alone = (
            losses[[0, -1]]
            if model.family.coupled
            else torch.cat([_checked_losses(model.loss(output, target), 1) for output, target in ends])
        )
    for name, value in (("the model's outputs do", outputs), ("the loss does", losses)):
        if model.family.gradients and not value.requires_grad:
            raise ModelError(
                f"{name} not depend on the audited parameters: the derivative was cut off (detach, no_grad, argmax, "
                "rounding); keep it"
            )
    apart = _apart(alone.detach(), losses.detach())
    if apart:
        raise ModelError(
            f"the loss of a row changes by {apart:.1e} (relative) with the rows beside it in the batch; it must not "
            "divide by the batch size, nor broadcast (n, 1) outputs against (n,) targets"
        )


def _checked_losses(losses: Any, n: int) -> Tensor:
    """Insist on one finite value per example."""
    if not isinstance(losses, Tensor):
        raise ShapeError(f"loss returned {type(losses).__name__}, expected a tensor of one value per example ({n},)")
    if tuple(losses.shape) != (n,):
        raise ShapeError(
            f"loss returned {tuple(losses.shape)}, expected one value per example ({n},); "
            'use reduction="none" and sum over outputs, and give targets the shape the loss wants'
        )
    if not bool(torch.isfinite(losses).all()):
        bad = int((~torch.isfinite(losses)).sum())
        raise ModelError(f"the loss of {bad} of {n} examples is not finite; check outputs and targets")
    return losses


def _admit_penalty(model: Model) -> None:
    with described("the penalty could not take the named parameters, a dict of tensors"):
        theta = model.theta.detach().requires_grad_()
        value: Any = model.penalty(theta)
    if not isinstance(value, Tensor) or value.numel() != 1:
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ShapeError(f"penalty returned {shape}, expected one number; sum over the parameters")
    if not bool(torch.isfinite(value)):
        raise ModelError("the penalty is not finite at the trained parameters; check the callable")


def _ends(tree: Any) -> list[Any]:
    """The first and the last row, each alone."""
    n = len(leaves(tree)[0])
    return [take(tree, slice(0, 1)), take(tree, slice(n - 1, n))]


def _apart(alone: Tensor, together: Tensor) -> float:
    """How far the first and last rows' values are from those in the batch, relative; zero within rounding."""
    ends = together[[0, -1]]
    apart = float((alone - ends).abs().max() / (together.abs().max() + 1e-12))
    return apart if apart > (1e-3 if together.dtype == torch.float32 else 1e-8) else 0.0


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
