"""Derivatives of training rows are made once in a fit where they fit in memory, and nothing else changes."""

import gc
import weakref

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import nn

import cases
import rue
from rue.calibrate.left_out.tangent import at_own
from rue.core import chunks, derivatives, memory
from rue.core.derivatives import gradient_batches, jacobian_batches
from rue.core.memory import derivatives_kept
from rue.core.solve import Projection
from rue.data.opening import training_rows
from rue.methods import best_method

pytestmark = pytest.mark.usefixtures("few_trees")

PASSES = 2  # over the training rows in a default fit: one for Jacobians, one for gradients


@pytest.fixture
def made(monkeypatch):
    """What autodiff makes: rows of Jacobians and of gradients, and the tensors themselves."""
    seen = {"Jacobian": 0, "gradient": 0, "tensors": []}

    def counted(kind, original):
        def call(model, *arguments):
            result = original(model, *arguments)
            seen[kind] += len(result)
            seen["tensors"].append(weakref.ref(result))
            return result

        return call

    for kind, name in (("Jacobian", "derived_jacobian"), ("gradient", "_derived_pull")):
        monkeypatch.setattr(derivatives, name, counted(kind, getattr(derivatives, name)))
    return seen


def numbers(n=60):
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 3))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * random.normal(size=n)


def network(outputs, y, loss, l2, steps, dtype=torch.float64, optimizer=torch.optim.AdamW):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs)).to(dtype)
    X, target = torch.tensor(numbers()[0], dtype=dtype), torch.tensor(y)
    train = optimizer(net.parameters(), **({"lr": 0.02} if optimizer is torch.optim.AdamW else {"max_iter": 500}))

    def closure():
        train.zero_grad()
        value = loss(net(X), target) + 0.5 * l2 * sum(p.square().sum() for p in net.parameters())
        value.backward()
        return value

    for _ in range(steps):
        train.step(closure)
    return net


def half_square(outputs, targets):
    return 0.5 * (outputs[:, 0] - targets).square().sum()


def brief():
    X, y = numbers()
    net = network(1, y.astype(np.float32), half_square, 0.0, 60, torch.float32)
    return rue.wrap(net, loss="squared_error"), X.astype(np.float32), y


def rested():
    X, y = numbers()
    net = network(1, y, half_square, 3.0, 4, optimizer=torch.optim.LBFGS)
    return rue.wrap(net, loss="squared_error", l2=3.0), X, y


def classes():
    X, y = numbers()
    labels = np.digitize(y, [-0.5, 0.5])
    net = network(3, labels, nn.functional.cross_entropy, 0.0, 60)
    return rue.wrap(net, loss="cross_entropy"), X, labels


def ridge():
    X, y = numbers()
    return rue.wrap(Ridge().fit(X, y)), X, y


MODELS = pytest.mark.parametrize("build", [brief, rested, classes, ridge])


def fitted(build):
    model, X, y = build()
    return best_method(model).fit(model, (X, y), refit=False), X


@MODELS
def test_a_default_fit_reads_the_derivatives_of_its_training_rows_at_most_twice_and_keeps_none(build, made):
    auditor, X = fitted(build)
    assert made["Jacobian"] == len(X)
    assert made["Jacobian"] + made["gradient"] <= PASSES * len(X)
    gc.collect()
    assert auditor is not None
    assert made["tensors"]
    assert not [tensor for tensor in made["tensors"] if tensor() is not None]


@MODELS
def test_an_audit_is_the_same_to_the_bit_where_nothing_can_be_kept(build, made, monkeypatch):
    auditor, X = fitted(build)
    kept, passes = auditor.audit(X[:9]), made["Jacobian"]
    monkeypatch.setattr(memory, "MOST", 0)
    auditor, _ = fitted(build)
    again = auditor.audit(X[:9])
    assert made["Jacobian"] > 3 * passes
    for name in ("prediction", "score", "std", "total_std", "probability", "covariance"):
        a, b = getattr(kept, name, None), getattr(again, name, None)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b)


def test_they_are_freed_after_an_error(made):
    model, X, y = rested()
    rows, bound = training_rows((X, y), model)

    def failing():
        with derivatives_kept(rows):
            list(jacobian_batches(bound, rows))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    gc.collect()
    assert not [tensor for tensor in made["tensors"] if tensor() is not None]
    list(jacobian_batches(bound, rows))
    assert made["Jacobian"] == 2 * len(X)


@pytest.mark.parametrize(("most", "share", "passes"), [(1.0, 1.0, 1), (0.99, 1.0, 3), (1.0, 0.0, 3)])
def test_all_rows_are_kept_or_none(most, share, passes, made, monkeypatch):
    model, X, y = rested()
    rows, bound = training_rows((X, y), model)
    needed = 8 * len(X) * bound.theta.numel()
    monkeypatch.setattr(memory, "MOST", int(most * needed))
    monkeypatch.setattr(memory, "SHARE", share)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 8 * 7 * bound.theta.numel())  # seven rows at a time
    with derivatives_kept(rows):
        first, second, third = (torch.cat([J for _, J in jacobian_batches(bound, rows)]) for _ in range(3))
    assert made["Jacobian"] == passes * len(X)
    assert torch.equal(first, second)
    assert torch.equal(first, third)


def test_what_is_kept_of_all_models_together_stays_below_the_limit(made, monkeypatch):
    model, X, y = rested()
    rows, bound = training_rows((X, y), model)
    _, other = training_rows((X, y), rested()[0])
    monkeypatch.setattr(memory, "MOST", int(1.5 * 8 * len(X) * bound.theta.numel()))
    with derivatives_kept(rows):
        for _ in range(2):
            for one in (bound, other):
                list(jacobian_batches(one, rows))
    assert made["Jacobian"] == 3 * len(X)  # the second model's are made twice


@pytest.mark.parametrize("name", ["softplus", "softmax"])
def test_tangents_at_other_parameters_have_the_jacobians_of_their_network(name, made):
    case = cases.CASES[name]()
    rows, bound = training_rows((case.X, case.y), case.wrap())
    tangent = at_own(bound, bound.core.centre, 1.0)
    moved = tangent.at(tangent.theta + 0.1)
    plain = torch.cat([g for _, g in gradient_batches(moved, rows)])
    before = made["Jacobian"]
    with derivatives_kept(rows):
        for one in (bound, tangent, moved):
            list(jacobian_batches(one, rows))
            again = torch.cat([g for _, g in gradient_batches(one, rows)])
    assert made["Jacobian"] - before == rows.n
    assert torch.equal(plain, again)


def test_gradients_are_those_of_the_parameters_they_are_asked_at(made):
    model, X, y = rested()
    rows, bound = training_rows((X, y), model)
    with derivatives_kept(rows):
        kept = [torch.cat([g for _, g in gradient_batches(bound, rows)]) for _ in range(2)]
    assert made["gradient"] == len(X)
    assert torch.equal(*kept)


def test_a_projection_is_pushed_through_the_rows_once(monkeypatch):
    model, X, y = rested()
    rows, bound = training_rows((X, y), model)
    view = Projection(size=8).view(bound, rows)
    seen = []
    original = derivatives.pushed
    monkeypatch.setattr("rue.core.solve.projection.pushed", lambda *a: seen.append(len(a[1])) or original(*a))
    with derivatives_kept(rows):
        first = torch.cat([J for _, J in jacobian_batches(view, rows)])
        pushes = len(seen)
        second = torch.cat([J for _, J in jacobian_batches(view, rows)])
    assert 0 < pushes == len(seen)
    assert torch.equal(first, second)


def test_rows_of_another_training_set_are_never_taken_for_them(made):
    model, X, y = rested()
    rows, bound = training_rows((X, y), model)
    others, _ = training_rows((X[::-1].copy(), y[::-1].copy()), model)
    with derivatives_kept(rows):
        own = torch.cat([J for _, J in jacobian_batches(bound, rows)])
        other = torch.cat([J for _, J in jacobian_batches(bound, others)])
        inner = next(J for _, J in jacobian_batches(bound, rows))
    torch.testing.assert_close(other, own.flip(0))
    assert torch.equal(inner, own)
    assert made["Jacobian"] == 2 * len(X)


def test_new_inputs_are_never_taken_for_training_rows():
    model, X, y = rested()
    rows, bound = training_rows((X, y), model)
    new = bound.read(X + 1.0)
    expected = derivatives.jacobian(bound, new)
    with derivatives_kept(rows):
        for _ in jacobian_batches(bound, rows):
            assert torch.equal(derivatives.jacobian(bound, new), expected)
