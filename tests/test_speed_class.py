"""Derivatives of many rows take as many forward passes as those of few, for every kind of layer; loops say so."""

import pytest
import torch
from torch import nn

import rue
from rue.core import derivatives, products, row_by_row
from rue.data.opening import training_rows
from rue.models.torch.module import ModuleCore
from sketch_cases import CASES, WHOLE, Packed, made

MOST = 4  # forward passes for any number of rows: the vectorised one, and others where torch refuses it
MANY = 60
LOOPS = "packed rows"
EVERY = {**CASES, **WHOLE}


@pytest.fixture
def passes(monkeypatch):
    """Counts the calls of a module."""
    calls, real = [], ModuleCore.call

    def counted(self, theta, inputs):
        calls.append(len(inputs))
        return real(self, theta, inputs)

    monkeypatch.setattr(ModuleCore, "call", counted)
    return calls


def problem(name):
    """A network of a kind, bound to many rows, and random vectors like its parameters."""
    build, rows, *_ = EVERY[name]
    net, few = made(build, rows)
    X = few[torch.arange(MANY) % len(few)]
    source = torch.Generator().manual_seed(0)
    y = torch.randn(MANY, net(X[:2]).shape[1], generator=source, dtype=torch.float64)
    data, bound = training_rows((X, y), rue.wrap(net, loss="squared_error", l2=1.0))
    vectors = torch.randn(3, bound.theta.numel(), generator=source, dtype=torch.float64)
    return bound.core, data, X, y, vectors


def gradients(core, inputs):
    """(n, k, d) by a plain backward pass for every row and output."""
    rows = []
    for row in range(len(inputs)):
        theta = core.theta.detach().requires_grad_()
        predicted = core.predict(theta, inputs[row : row + 1])[0]
        rows.append(torch.stack([torch.autograd.grad(one, theta, retain_graph=True)[0] for one in predicted]))
    return torch.stack(rows)


@pytest.mark.parametrize("name", [name for name in EVERY if name != LOOPS])
def test_many_rows_take_as_many_forward_passes_as_few_and_give_plain_gradients(name, passes):
    core, data, X, y, vectors = problem(name)
    whole, sketch = gradients(core, X), core.sketched(X, 10**6, 0)
    wanted = {
        "jacobian": (lambda: derivatives.derived_jacobian(core, X), whole),
        "pulled": (lambda: derivatives.pulled_back(core, X, y), torch.einsum("nkd,nk->nd", whole, y)),
        "pushed": (lambda: derivatives.pushed(core, X, vectors), whole @ vectors.T),
        "products": (
            lambda: products.gauss_newton_product(core, data, vectors),
            torch.einsum("nkd,nke,re->rd", whole, whole, vectors),
        ),
        "sketch": (lambda: sketch.jacobian(X).square().sum(2), whole.square().sum(2)),
        "tangent": (
            lambda: derivatives.on_the_tangent(core, core.theta + vectors[0], X) - derivatives.outputs(core, X),
            whole @ vectors[0],
        ),
    }
    if name == "padding":  # the backward pass leaves the row of padding out, the forward derivative does not
        del wanted["pushed"], wanted["tangent"]
    for way, (derive, right) in wanted.items():
        passes.clear()
        torch.testing.assert_close(derive().detach(), right, rtol=1e-7, atol=1e-8, msg=way)
        assert sum(passes) <= MOST * MANY, way
        assert len(passes) <= MOST, way


@pytest.mark.parametrize("name", [name for name in EVERY if name not in (LOOPS, "weight norm")])
def test_hessian_products_and_members_take_few_forward_passes(name, passes):
    core, data, X, _, vectors = problem(name)
    passes.clear()
    products.hessian_product(core, data, vectors)
    assert len(passes) <= MOST
    passes.clear()
    moved = derivatives.member_outputs(core, core.theta + 0.1 * vectors, X)
    assert len(passes) <= MOST
    each = torch.stack([derivatives.outputs(core, X, core.theta + 0.1 * vector) for vector in vectors])
    torch.testing.assert_close(moved.detach(), each)


@pytest.mark.parametrize(("rows", "warns"), [(MANY, False), (400, True)])
def test_rows_that_are_taken_one_by_one_are_counted_and_many_of_them_warned_of(rows, warns, monkeypatch):
    monkeypatch.setattr(row_by_row, "MANY", 300)
    net, X = made(Packed, lambda: torch.randn(rows, 5, 4))
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    y = net(X)[:, 0].detach() + X[:, 0, 0]
    if warns:
        with pytest.warns(rue.errors.RueWarning, match="row by row, because torch"):
            facts = rue.LinearRUE().fit(model, (X, y)).facts
    else:
        facts = rue.LinearRUE().fit(model, (X, y)).facts
    assert facts["row_by_row"] >= rows
    padded = rue.wrap(made(lambda: nn.Sequential(nn.Flatten(), nn.Linear(20, 1)), lambda: X)[0], loss="squared_error")
    assert "row_by_row" not in rue.LinearRUE(damping=rue.solve.Fixed(1.0)).fit(padded, (X, y)).facts
