"""Refuses modules whose backward pass is not the derivative of what they predict, or not by all that was trained."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from rue.core.errors import DerivativeError, ModelError
from rue.models.torch.graph import trainable_leaves
from rue.models.torch.parameters import listed

Call = Callable[[Tensor], Tensor]
Parts = Callable[[Tensor], Mapping[str, Tensor]]

SHIFTS = (0.1, -1.0, 10.0, -10.0)  # relative to the size of a parameter; tried in turn until the outputs move
PARTS = 4  # the parameters are moved in so many parts, so that one wrong layer is not lost among the others
MOVES = 3  # random moves of each part
APART = 0.03  # relative difference between a derivative and what the outputs do, over all moves of a part
DRAWN = 2**20  # random numbers that are drawn at most; longer vectors repeat them
BLOCK = 2**22  # numbers that are summed in float64 at once
TF32 = 2.0**-11  # rounding of numbers with ten binary digits
ROUNDINGS = 200.0  # rounding units of the outputs that a measured difference may be off by


def refuse_unregistered(call: Call, theta: Tensor) -> None:
    """Refuse outputs that depend on trainable tensors that the module does not list among its parameters.

    Tensors that every call makes anew, as a copy of the inputs that forces are derivatives by, are not trained.
    """
    at, outputs = _outputs(call, theta)
    strangers = [leaf for leaf in trainable_leaves(outputs) if leaf is not at]
    if strangers:
        again = {id(leaf) for leaf in trainable_leaves(_outputs(call, theta)[1])}
        strangers = [leaf for leaf in strangers if id(leaf) in again]
    if strangers:
        count = sum(leaf.numel() for leaf in strangers)
        raise ModelError(
            f"the outputs depend on {count} trainable numbers that are not among the module's parameters, the first of "
            f"shape {tuple(strangers[0].shape)}: no audit would move them; hold layers in nn.ModuleList or "
            "nn.ModuleDict rather than in a list or dict, tensors as nn.Parameter; call requires_grad_(False) on what "
            "was not trained"
        )


def padding(module: nn.Module) -> dict[str, int]:
    """The rows of padding tokens, by the names of weights: torch never trains them, and gives them no gradient."""
    names = {id(p): name for name, p in module.named_parameters()}
    return {
        names[id(layer.weight)]: layer.padding_idx
        for layer in module.modules()
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag)
        and layer.padding_idx is not None
        and id(layer.weight) in names
    }


def refuse_steps(call: Call, theta: Tensor, split: Parts) -> None:
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
            f"the outputs change with {listed(stepped, 4)}, but in steps: the derivative is zero (a rounding, sign, "
            "argmax or hard threshold follows, or a detach), so that resampling would seem not to move it; use a "
            f"smooth activation (tanh, sigmoid, softplus){after}"
        )


def refuse_wrong_derivative(call: Call, theta: Tensor, split: Parts, untrained: Mapping[str, int]) -> None:
    """Refuse a backward pass that says otherwise than small moves do, in some part of the parameters.

    `untrained` rows of some of them stay where they are. A move across the kink of a ReLU is told from a wrong
    derivative by a smaller move, which crosses fewer.
    """
    outputs, slope = _slope(call, theta)
    if slope is None or not bool(torch.isfinite(slope).all()) or not torch.equal(_outputs(call, theta)[1], outputs):
        return  # other checks refuse what is not finite, or random
    names = list(split(theta))
    size = -(-len(names) // PARTS)
    largest = torch.finfo(theta.dtype).eps ** (1 / 3)
    for part in (names[i : i + size] for i in range(0, len(names), size)):
        moves = [partial(_move, theta, split, part, untrained, seed) for seed in range(MOVES)]
        apart = _apart(call, theta, slope, moves, largest)
        if apart > APART and (apart := _apart(call, theta, slope, moves, largest / 8)) > APART:
            raise ModelError(
                f"the backward pass is not the derivative of the outputs by {listed(part, 4)}: small moves of them "
                f"change the outputs otherwise than it says, by {apart:.0%}; a custom backward is wrong, or a "
                "straight-through estimator, a detach or half precision stands in the way; audit a copy of the module "
                "without it, or select= the parameters after it"
            )


def _apart(call: Call, theta: Tensor, slope: Tensor, moves: Sequence[Callable[[], Tensor]], step: float) -> float:
    """The relative difference between derivatives along moves and the changes of the outputs; zero within rounding."""
    told, done, rounding = [], [], 0.0
    with torch.no_grad():
        for draw in moves:
            move = draw()
            told.append(_product(slope, move))
            behind, ahead = (call(torch.add(theta, move, alpha=side * step)).double() for side in (-1, 1))
            weights = _cotangent(ahead)
            done.append(((ahead - behind) * weights).sum() / (2 * step))
            rounding = max(rounding, float((ahead.abs() * weights).sum()))
    rounding *= ROUNDINGS * _precision(theta) / step
    said = torch.stack(told)
    difference = float((torch.stack(done) - said).norm())
    size = float(torch.maximum(torch.stack(done).norm(), said.norm()))
    return 0.0 if difference <= rounding else (difference - rounding) / size


def _precision(theta: Tensor) -> float:
    """The relative rounding of products of matrices; a GPU may have been told to round coarsely (TF32)."""
    eps = torch.finfo(theta.dtype).eps
    coarse = theta.device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return max(eps, TF32) if coarse else eps


def _product(one: Tensor, other: Tensor) -> Tensor:
    """The product of two vectors (d,), summed in float64."""
    pairs = zip(one.split(BLOCK), other.split(BLOCK), strict=True)
    return torch.stack([a.double() @ b.double() for a, b in pairs]).sum()


def _move(theta: Tensor, split: Parts, names: list[str], untrained: Mapping[str, int], seed: int) -> Tensor:
    """A random move of some parameters, each in proportion to its own size: columns may have any units."""
    move = torch.zeros_like(theta)
    own, parts = split(theta), split(move)
    typical = theta[:: -(-len(theta) // DRAWN)].abs().median()
    for name in names:
        parts[name].copy_(_signs(parts[name], seed)).mul_(own[name].abs() if bool(own[name].any()) else typical)
        if name in untrained:
            parts[name][untrained[name]] = 0
    return move


def _steps(call: Call, theta: Tensor, split: Parts, name: str, outputs: Tensor) -> bool:
    for shift in SHIFTS:
        moved = theta.detach().clone()
        part = split(moved)[name]  # a view
        size = part.square().mean().sqrt() if bool(part.any()) else torch.ones((), dtype=part.dtype, device=part.device)
        part.add_(shift * size * _signs(part))
        there, slope = _slope(call, moved)
        if not torch.equal(there, outputs):
            return slope is None or not bool(split(slope)[name].any())
    return False


def _slope(call: Call, theta: Tensor) -> tuple[Tensor, Tensor | None]:
    """Outputs, and the derivative of a random weighted sum of them: zero only if the derivative of each is zero."""
    with torch.enable_grad():
        at, outputs = _outputs(call, theta)
        if not outputs.requires_grad:
            return outputs.detach(), None
        weights = _cotangent(outputs).to(outputs)
        try:
            (slope,) = torch.autograd.grad(outputs, at, weights, allow_unused=True)
        except RuntimeError as error:
            raise DerivativeError(
                f"the module has no backward pass ({error}); where it writes over a tensor that is still needed, "
                "h.mul_(2), let it make another, h = h * 2"
            ) from error
    return outputs.detach(), slope


def _outputs(call: Call, theta: Tensor) -> tuple[Tensor, Tensor]:
    """The parameters, made for a derivative, and the outputs."""
    with torch.enable_grad():
        at = theta.detach().clone().requires_grad_()
        return at, call(at)


def _cotangent(outputs: Tensor) -> Tensor:
    """Weights from one to two, the same on every run."""
    drawn = torch.rand(outputs.shape, generator=torch.Generator().manual_seed(0))
    return 1 + drawn.to(outputs.device, torch.float32)


def _signs(part: Tensor, seed: int = 1) -> Tensor:
    """Random numbers of both signs, the same on every run."""
    drawn = torch.randn(min(part.numel(), DRAWN), generator=torch.Generator().manual_seed(seed)).to(part)
    return drawn.repeat(-(-part.numel() // max(1, len(drawn))))[: part.numel()].view(part.shape)


def refuse_layers(module: nn.Module) -> None:
    """Refuse layers whose mode, statistics or backward pass make an audit meaningless."""
    for name, part in module.named_modules():
        rate = part.p if isinstance(part, nn.modules.dropout._DropoutNd) else getattr(part, "dropout", 0.0)
        random = isinstance(part, nn.RReLU) or (isinstance(rate, int | float) and rate > 0)
        statistics = isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
            raise ModelError(
                f"layer {name!r} ({type(part).__name__}) keeps no running statistics, so that the prediction of a row "
                "changes with the rows beside it; train with track_running_stats=True"
            )
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and (
            part.scale_grad_by_freq or part.sparse or part.max_norm is not None
        ):
            raise ModelError(
                f"layer {name!r} ({type(part).__name__}) has a backward pass that is not its derivative, or changes "
                "its weights while predicting; audit a copy without scale_grad_by_freq, sparse and max_norm"
            )
        if part.training and (random or statistics):
            raise ModelError(
                f"layer {name or type(part).__name__!r} ({type(part).__name__}) is in training mode and behaves "
                "differently there; call net.eval() first"
            )
