"""Checks of a model before anything is computed: models that cannot be audited are refused, with advice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rue.core.concepts import Inputs
from rue.core.errors import DataError, ModelError, RueError, ShapeError
from rue.core.model import Model
from rue.core.nested import leaves, map_leaves, take
from rue.models.answers import check_answers


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
    _admit_targets(model, outputs, targets)
    _admit_loss(model, inputs, targets)
    _admit_link(model, outputs, targets)
    if model.no_objective is None:
        _admit_penalty(model)


def admit_again(model: Model, raw: Any, inputs: Inputs) -> None:
    """Check that some rows are read as they were among all others, and that an estimator predicts what its parts say.

    `inputs` are these rows as they were read first.
    """
    again = model.read(raw)
    for first, second in zip(leaves(inputs), leaves(again), strict=True):
        if first.shape != second.shape or not torch.allclose(first.double(), second.double(), 1e-4, 1e-6, True):
            raise ModelError(
                "the same rows were read twice and came out differently: something between table and model is random, "
                "or looks at the other rows; give every random step of the pipeline a fixed state, and standardise by "
                "what was learnt in training"
            )
    answers = model.answer(raw)
    if answers is not None:
        with torch.no_grad():
            outputs = model.predict(model.theta, again).double().cpu().numpy()
        check_answers(model, outputs, answers)


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


def admit_labels(model: Model, labels: Any) -> None:
    """Refuse the labels of all training rows where they are of one class: nothing was learnt of the others."""
    first = leaves(labels)[0]
    if model.family.decision is not None and len(torch.unique(first.reshape(len(first), -1), dim=0)) < 2:
        raise DataError(
            f"all {len(first)} training labels are of one class: no audit can say how sure the model may be of it; "
            "give rows of two classes or more"
        )


def _admit_targets(model: Model, outputs: Tensor, targets: Any) -> None:
    """Refuse targets of another number than the outputs, where both are numbers."""
    first = leaves(targets)[0]
    if model.family.gaussian and not model.family.gradients and first.numel() != outputs.numel():
        raise ShapeError(
            f"the model has {outputs.shape[1]} outputs for a row, and the targets {first.numel() // len(first)}; give "
            "one target for each output"
        )


def _admit_link(model: Model, outputs: Tensor, targets: Any) -> None:
    """Refuse probabilities or means where the loss wants logits or logarithms, if the targets say so too."""
    if getattr(model.loss, "name", "") == "gaussian_nll":
        _admit_log_variance(model, outputs, targets)
    link = LINKS.get(model.family.decision or model.family.link or "")
    if link is None or model.family.coupled or not bool(((outputs >= 0) & (outputs <= link.most)).all()):
        return
    inside = outputs.double().clamp(LEAST, link.most - LEAST)
    if _fits_better(model, link.inverse(inside).to(outputs), outputs, targets):
        raise ModelError(
            f"all outputs are {link.called}, and fit the targets better as such than as the {link.wanted} that this "
            f"loss wants; leave the last {link.layer} out of the module, or give a callable loss of {link.called}"
        )


def _admit_log_variance(model: Model, outputs: Tensor, targets: Any) -> None:
    """Refuse variances where the loss wants their logarithms, if the targets say so too."""
    if not bool((outputs[:, 1] > 0).all()):
        return
    read = torch.stack([outputs[:, 0], outputs[:, 1].log()], dim=1)
    if _fits_better(model, read, outputs, targets):
        raise ModelError(
            "all second outputs are above zero, and fit the targets better as variances than as the logarithms of "
            "variances that gaussian_nll wants; give loss=torch.nn.GaussianNLLLoss(), which wants variances"
        )


def _fits_better(model: Model, other: Tensor, outputs: Tensor, targets: Any) -> bool:
    """Whether outputs that are read in another way fit the targets clearly better."""
    with torch.no_grad():
        better = (model.loss(outputs, targets) - model.loss(other, targets)).double()
    if len(better) < FEWEST:  # so few rows, as those of a loader's batch, fit either way by chance
        return False
    error = float(better.std(correction=0)) / len(better) ** 0.5
    return float(better.mean()) > max(ERRORS * error, SMALL * float(better.abs().mean()))


class _Link(NamedTuple):
    """A function that modules end in by mistake: what it makes, what the loss wants, and the way back."""

    called: str
    wanted: str
    layer: str
    most: float
    inverse: Callable[[Tensor], Tensor]


LEAST = 1e-6  # numbers this near to the end of the range are moved inside before the way back is taken
ERRORS = 3.0  # standard errors by which the targets must speak for the other reading
FEWEST = 10  # rows by which that can be told
SMALL = 1e-3  # and this share of the typical difference between the two
LINKS = {
    "signs": _Link("probabilities", "logits", "sigmoid", 1.0, torch.logit),
    "largest": _Link("probabilities", "logits", "softmax or sigmoid", 1.0, torch.log),
    "log": _Link("means", "logarithms", "exponential or softplus", inf, torch.log),
}


def _admit_loss(model: Model, inputs: Inputs, targets: Any) -> None:
    """Refuse a loss that is not one finite value per example, independent of other rows and differentiable in theta."""
    n = len(leaves(inputs)[0])
    with torch.enable_grad(), described(f"the loss could not take the outputs and targets of {shapes(targets)}"):
        outputs = model.predict(model.theta.detach().requires_grad_(), inputs)
        losses, again = (_checked_losses(model.loss(outputs, targets), n) for _ in range(2))
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
    if not torch.equal(losses, again):
        between = float((losses - again).abs().max() / (losses.abs().max() + 1e-12))
        raise ModelError(
            f"the loss of a row changes by {between:.1e} (relative) when it is computed again: something in it is "
            "random; give every random step of the loss a fixed state, or leave it out"
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
