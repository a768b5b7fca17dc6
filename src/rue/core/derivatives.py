"""All derivatives of an Objective, computed batch by batch.

Derivatives are taken in the model's dtype; sums over rows are kept in float64. Where a model cannot be
vectorised over rows (recurrent kernels, data-dependent control flow), a slower loop gives the same numbers.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import jacrev, jvp, vjp, vmap

from rue.core.chunks import chunk_rows, chunks
from rue.core.concepts import Batch, Coupling, Inputs, Objective, Parametrised, Predictor, TrainingSet
from rue.core.errors import DataError, DerivativeError
from rue.core.followed import Followed
from rue.core.memory import kept, known, once, reading
from rue.core.nested import leaves, map_leaves, take
from rue.core.process import forward_mode
from rue.core.progress import track
from rue.core.row_by_row import note
from rue.core.together import Trial, first_that_works, signs

FEW = 16  # number of outputs up to which a closed-form Jacobian is the cheapest way to compute Jᵀu


def outputs(model: Predictor, inputs: Inputs, theta: Tensor | None = None) -> Tensor:
    """Outputs (c, k), at the model's own parameters unless `theta` is given; in halves where memory runs out."""
    if theta is None:
        return once("output", model, inputs, partial(_outputs, model, inputs, model.theta))
    return _outputs(model, inputs, theta)


def _outputs(model: Predictor, inputs: Inputs, theta: Tensor) -> Tensor:
    with torch.no_grad():
        try:
            return model.predict(theta, inputs)
        except torch.OutOfMemoryError:
            half = len(leaves(inputs)[0]) // 2
            if half == 0 or model.family.coupled:
                raise
    return torch.cat([_outputs(model, take(inputs, part), theta) for part in (slice(0, half), slice(half, None))])


def member_outputs(model: Objective, thetas: Tensor, inputs: Inputs) -> Tensor:
    """Outputs (b, c, k) at each of b parameter vectors (b, d)."""

    def at_once(block: Tensor) -> Tensor:
        return vmap(lambda theta: model.predict(theta, inputs))(block)

    def one_by_one(block: Tensor) -> Tensor:
        return torch.stack([model.predict(theta, inputs) for theta in block])

    def pair(found: Tensor) -> tuple[Tensor, Tensor]:
        return found[:1], one_by_one(thetas[:1]) if len(thetas) else found

    if model.family.straight:
        rows = followed(model, inputs)
        moved = rows.placed(rows.values @ (thetas - model.theta).T.to(model.theta))  # (c, k, b)
        return outputs(model, inputs) + moved.permute(2, 0, 1)
    with torch.enable_grad():  # selects kernels that can be vectorised; nothing here requires a gradient
        return first_that_works(at_once, one_by_one, thetas, Trial(model, "members", _count(inputs), pair))


def loss_gradient(model: Predictor, predicted: Tensor, targets: Any) -> Tensor:
    """r = ∂ℓᵢ/∂f at outputs (c, k): (c, k)."""
    with torch.enable_grad():
        at = predicted.detach().requires_grad_()
        return _finite(gradient(model.loss(at, targets).sum(), at), "the loss")


def loss_hessian(model: Predictor, predicted: Tensor, targets: Any) -> Tensor:
    """Λ = ∂²ℓᵢ/∂f² at outputs (c, k): (c, k, k)."""
    if model.loss.hessian is not None:  # in float64: float32 rounds the curvature of saturated classes to zero
        return _finite(model.loss.hessian(predicted.detach().double(), targets), "the loss")
    with torch.enable_grad():
        at = predicted.detach().requires_grad_()
        slope = gradient(model.loss(at, targets).sum(), at, keep=True)
        rows = [gradient(slope[:, j].sum(), at, keep=True).detach() for j in range(at.shape[1])]
    return _finite(torch.stack(rows, dim=1), "the loss")


def weighted_hessian(model: Predictor, predicted: Tensor, batch: Batch) -> Tensor:
    """wᵢΛᵢ (c, k, k) in float64; coupled rows form one block (1, n, n)."""
    if model.family.coupled:
        return coupled(model, predicted.detach(), batch.targets, batch.weight).curvature.unsqueeze(0)
    return batch.weight[:, None, None] * loss_hessian(model, predicted, batch.targets).double()


def coupled(model: Predictor, predicted: Tensor, targets: Any, weight: Tensor) -> Coupling:
    """The loss of a family whose rows are coupled, at outputs (n, 1)."""
    assert model.loss.coupling is not None  # because the family is coupled
    return model.loss.coupling(predicted, targets, weight)


def jacobian(model: Objective, inputs: Inputs) -> Tensor:
    """∂f/∂θ for every row: (c, k, d)."""
    if model.jacobian is not None:
        return model.jacobian(inputs)
    return kept("Jacobian", model, inputs, lambda: derived_jacobian(model, inputs))


def followed(model: Objective, inputs: Inputs) -> Followed:
    """∂f/∂θ of the outputs that are followed, (c, f, d): of all, unless the model follows few of them."""
    if model.few_outputs is not None:
        return model.few_outputs(inputs)
    rows = jacobian(model, inputs)
    return Followed(rows, None, rows.shape[1])


def pushed(model: Objective, inputs: Inputs, vectors: Tensor) -> Tensor:
    """J v for every row v of (r, d): (c, k, r). Costs one forward pass per vector, for any number of outputs."""

    def at_once(block: Tensor) -> Tensor:
        with forward_mode:
            moved = vmap(lambda v: jvp(lambda theta: model.predict(theta, inputs), (model.theta,), (v,))[1])(block)
        return moved.permute(1, 2, 0)

    def backwards(block: Tensor) -> Tensor:
        theta = model.theta.detach().requires_grad_()
        predicted = model.predict(theta, inputs)
        probe = torch.zeros_like(predicted, requires_grad=True)
        pulled = gradient(predicted, theta, keep=True, cotangent=probe)  # Jᵀu is linear in u: its derivative is J
        return pull_many(pulled, probe, block, model).permute(1, 2, 0)

    def pair(found: Tensor) -> tuple[Tensor, Tensor]:
        mix = signs(*found.shape[:2], like=found)
        slope = _mixed(model, inputs, mix)
        whole, own = torch.einsum("ck,ckr->r", mix, found), vectors.to(slope) @ slope
        size = (vectors[:1].to(slope) * slope).norm()[None]  # what rounding is relative to: a product may cancel
        return torch.cat([whole, size]), torch.cat([own, size])

    with torch.enable_grad():
        trial = Trial(model, "products", _count(inputs), pair)
        products = first_that_works(at_once, backwards, vectors.to(model.theta), trial)
    return _finite(products.detach(), "the model")


def on_the_tangent(model: Objective, theta: Tensor, inputs: Inputs) -> Tensor:
    """The model linearised at its own θ̂, f(x) + J(x)(θ − θ̂): (c, k), differentiable with respect to θ."""
    at = model.theta

    def at_once(away: Tensor) -> Tensor:
        with forward_mode:
            return torch.add(*jvp(lambda where: model.predict(where, inputs), (at,), (away,)))

    def by_rows(away: Tensor) -> Tensor:
        rows = followed(model, inputs)
        return outputs(model, inputs) + rows.placed(rows.values.to(away) @ away)

    away = theta.to(at) - at
    rows = None if away.requires_grad else known("Jacobian", model, inputs)
    if rows is not None:
        return (outputs(model, inputs) + rows.double() @ away.double()).to(at)
    linearised: Tensor = by_rows(away) if model.family.straight else first_that_works(at_once, by_rows, away)
    return linearised


def pulled_back(model: Objective, inputs: Inputs, cotangents: Tensor) -> Tensor:
    """Jᵢᵀuᵢ for every row: cotangents (c, k) -> (c, d). With u = ∂ℓ/∂f these are the columns of L."""
    product = _closed_form_pull(model, inputs, cotangents)
    return _derived_pull(model, inputs, cotangents) if product is None else product


def jacobian_batches(model: Objective, data: TrainingSet) -> Iterator[tuple[Batch, Tensor]]:
    """Training rows with their output Jacobians (c, k, d), in chunks that fit in memory."""
    for part, rows in followed_batches(model, data, whole_ones=True):
        yield part, rows.whole()


def followed_batches(
    model: Objective, data: TrainingSet, *, whole_ones: bool = False
) -> Iterator[tuple[Batch, Followed]]:
    """Training rows with the Jacobians of the outputs that are followed, in chunks that fit in memory.

    With `whole_ones` the chunks are small enough for Jacobians of all outputs.
    """

    def parts() -> Iterator[tuple[Batch, Followed]]:
        k = width(model, data)
        few = k if whole_ones or model.few_outputs is None else min(k, FEW)
        for batch in data.batches():
            for part in chunks(batch, chunk_rows(model, few)):
                with reading(data, part):
                    yield part, followed(model, part.inputs)

    yield from track("Jacobians", parts(), data.n, lambda part: len(part[1].values))


def gradient_batches(model: Objective, data: TrainingSet) -> Iterator[tuple[Batch, Tensor]]:
    """Training rows with the gradients of their weighted losses (c, d) in float64: the rows of Lᵀ."""
    if model.family.coupled:
        yield _coupled_gradients(model, data)
        return

    def parts() -> Iterator[tuple[Batch, Tensor]]:
        k = width(model, data)
        many = k > FEW and not model.family.straight  # then no Jacobians are made
        for batch in data.batches():
            for part in chunks(batch, chunk_rows(model, 1 if many else min(k, FEW))):
                with reading(data, part):
                    yield part, part.weight.unsqueeze(-1) * _loss_gradients(model, part).double()

    yield from track("gradients", parts(), data.n, lambda part: len(part[1]))


def width(model: Objective, data: TrainingSet) -> int:
    """The number of outputs, k."""
    for batch in data.batches():  # what is kept of a whole batch costs nothing
        few = batch.inputs if model.family.straight else take(batch.inputs, slice(0, 1))
        return outputs(model, few).shape[1]
    raise DataError("there are no training rows; give at least two")


def _coupled_gradients(model: Objective, data: TrainingSet) -> tuple[Batch, Tensor]:
    """The derivative of the gradient by every row's weight, (n, d); for Cox's likelihood, the score residuals."""
    batch = whole(data)
    parts = [rows.double() for _, rows in jacobian_batches(model, data)]
    slope = coupled(model, outputs(model, batch.inputs), batch.targets, batch.weight).slope
    return batch, slope @ torch.cat(parts)[:, 0]


def _loss_gradients(model: Objective, batch: Batch) -> Tensor:
    """∇ℓᵢ of training rows, without their weights: (c, d)."""
    slope = loss_gradient(model, outputs(model, batch.inputs), batch.targets)
    gradients = _closed_form_pull(model, batch.inputs, slope)
    if gradients is not None:
        return gradients
    return kept("gradient", model, batch.inputs, lambda: _derived_pull(model, batch.inputs, slope))


def whole(data: TrainingSet) -> Batch:
    """All rows as one batch, for a family whose rows are coupled."""
    (batch,) = data.batches()
    return batch


def derived_jacobian(model: Parametrised, inputs: Inputs) -> Tensor:
    """The Jacobian (c, k, d) by automatic differentiation."""

    def at_once(rows: Inputs) -> Tensor:
        each = vmap(jacrev(lambda theta, row: _one_row(model, theta, row)), in_dims=(None, 0))
        found = each(model.theta, rows)
        if found.shape[0] != found.shape[1] or found.shape[0] == 1:
            return found
        # where rows are as many as outputs, torch's PReLU takes one axis for the other, silently
        return each(model.theta, map_leaves(lambda leaf: torch.cat([leaf, leaf[-1:]]), rows))[:-1]

    def by_outputs(rows: Inputs) -> Tensor:  # for layers that can be vectorised over rows, but not over outputs too
        def pulls(row: Inputs) -> Tensor:
            predicted, pull, *_ = vjp(lambda theta: _one_row(model, theta, row), model.theta)
            return torch.stack([pull(unit)[0] for unit in torch.eye(len(predicted)).to(predicted)])

        return vmap(pulls)(rows)

    def one_by_one(rows: Inputs) -> Tensor:
        return torch.stack([_row_jacobian(model, row) for row in _each_row(rows)])

    def pair(found: Tensor) -> tuple[Tensor, Tensor]:
        mix = signs(*found.shape[:2], like=found)
        return torch.einsum("ck,ckd->d", mix, found), _mixed(model, inputs, mix)

    with torch.enable_grad():
        first, second = (Trial(model, kind, _count(inputs), pair) for kind in ("Jacobian", "Jacobian by outputs"))
        by_rows = partial(first_that_works, by_outputs, one_by_one, trial=second)
        vectorised = partial(first_that_works, at_once, by_rows, trial=first)
        if _count(inputs) > 1:
            return _finite(vectorised(inputs), "the model")
        alone = first_that_works(lambda row: _row_jacobian(model, row)[None], vectorised, inputs)  # vectorising costs
        return _finite(alone, "the model")


def _closed_form_pull(model: Objective, inputs: Inputs, cotangents: Tensor) -> Tensor | None:
    """Jᵢᵀuᵢ by the model's closed-form Jacobian; None if it has none, or too many outputs for it to be cheap."""
    if model.jacobian is None or (cotangents.shape[1] > FEW and not model.family.straight):
        return None
    rows = followed(model, inputs)
    return torch.einsum("cfd,cf->cd", rows.values, rows.of(cotangents.to(rows.values)))


def _derived_pull(model: Objective, inputs: Inputs, cotangents: Tensor) -> Tensor:
    """Jᵢᵀuᵢ (c, d) by automatic differentiation."""

    def pull(theta: Tensor, row: Inputs, cotangent: Tensor) -> Tensor:
        return vjp(lambda at: _one_row(model, at, row), theta)[1](cotangent)[0]

    def at_once(pair: tuple[Inputs, Tensor]) -> Tensor:
        rows, weights = pair
        return vmap(pull, in_dims=(None, 0, 0))(model.theta, rows, weights)

    def one_by_one(pair: tuple[Inputs, Tensor]) -> Tensor:
        rows, weights = pair
        return torch.stack([_row_pull(model, row, u) for row, u in zip(_each_row(rows), weights, strict=True)])

    def pair(found: Tensor) -> tuple[Tensor, Tensor]:
        mix = signs(len(found), like=found)
        return mix @ found, _mixed(model, inputs, mix[:, None] * cotangents)

    with torch.enable_grad():
        trial = Trial(model, "gradients", _count(inputs), pair)
        return _finite(first_that_works(at_once, one_by_one, (inputs, cotangents), trial), "the model")


def gradient(value: Tensor, at: Tensor, *, keep: bool = False, cotangent: Tensor | None = None) -> Tensor:
    """First derivative; zero where the value does not depend on `at`."""
    if not value.requires_grad:
        return torch.zeros_like(at)
    (derivative,) = torch.autograd.grad(value, at, cotangent, create_graph=keep, allow_unused=True)
    return torch.zeros_like(at) if derivative is None else derivative


def pull_many(value: Tensor, at: Tensor, cotangents: Tensor, model: object, kind: str = "pulled") -> Tensor:
    """Products of r cotangents with the derivative of `value`, of some `kind` of the model's, all from one graph."""
    if not value.requires_grad:
        return torch.zeros(len(cotangents), *at.shape, dtype=at.dtype, device=at.device)

    def at_once(block: Tensor) -> Tensor | None:
        (rows,) = torch.autograd.grad(value, at, block, is_grads_batched=True, retain_graph=True, allow_unused=True)
        return rows

    def one_by_one(block: Tensor) -> Tensor | None:
        parts = [torch.autograd.grad(value, at, row, retain_graph=True, allow_unused=True)[0] for row in block]
        return None if parts[0] is None else torch.stack(parts)

    def pair(found: Tensor | None) -> tuple[Tensor, Tensor]:
        if found is None:
            return cotangents[:0], cotangents[:0]
        mix = signs(len(cotangents), like=cotangents)
        (plain,) = torch.autograd.grad(value, at, torch.tensordot(mix, cotangents, 1), retain_graph=True)
        return torch.tensordot(mix.to(found), found, 1), plain

    trial = Trial(model, kind, len(value), pair)
    pulled = first_that_works(at_once, one_by_one, cotangents, trial)
    return torch.zeros(len(cotangents), *at.shape, dtype=at.dtype, device=at.device) if pulled is None else pulled


def _finite(derivative: Tensor, of: str) -> Tensor:
    """Return the derivative, or raise if it is NaN or infinite."""
    bad = ~torch.isfinite(derivative).flatten(1).all(1)
    if bool(bad.any()):
        raise DerivativeError(
            f"the derivative of {of} is NaN or infinite at {int(bad.sum())} of {len(bad)} rows; look for square roots "
            "or norms of zero, logarithms and divisions there"
        )
    return derivative


def _one_row(model: Parametrised, theta: Tensor, row: Inputs) -> Tensor:
    return model.predict(theta, map_leaves(lambda leaf: leaf.unsqueeze(0), row)).squeeze(0)


def _row_jacobian(model: Parametrised, row: Inputs) -> Tensor:
    """The Jacobian (k, d) of one row from one graph, by plain backward passes while the outputs are few."""
    with torch.enable_grad():
        theta = model.theta.detach().requires_grad_()
        (predicted,) = model.predict(theta, row)
        if len(predicted) > FEW:
            return pull_many(predicted, theta, torch.eye(len(predicted)).to(predicted), model, "row").detach()
        rows = [torch.autograd.grad(value, theta, retain_graph=True, allow_unused=True)[0] for value in predicted]
    return torch.stack([torch.zeros_like(theta) if row is None else row for row in rows]).detach()


def _mixed(model: Parametrised, inputs: Inputs, cotangents: Tensor) -> Tensor:
    """Σᵢ Jᵢᵀuᵢ (d,) by one plain backward pass."""
    theta = model.theta.detach().requires_grad_()
    return gradient(model.predict(theta, inputs), theta, cotangent=cotangents.to(theta)).detach()


def _count(inputs: Inputs) -> int:
    return len(leaves(inputs)[0])


def _row_pull(model: Objective, row: Inputs, cotangent: Tensor) -> Tensor:
    """Jᵀu (d,) of one row, by one plain backward pass."""
    theta = model.theta.detach().requires_grad_()
    return gradient(model.predict(theta, row)[0], theta, cotangent=cotangent.to(theta)).detach()


def _each_row(inputs: Inputs) -> Iterator[Inputs]:
    note(len(leaves(inputs)[0]))
    for i in range(len(leaves(inputs)[0])):
        yield take(inputs, slice(i, i + 1))
