"""Random projection: exact where nothing is projected, close where something is, and never wide in memory."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

import cases
import rue
from rue.core.derivatives import jacobian, pushed
from rue.core.errors import RueWarning, SettingError
from rue.core.solve import Cholesky, Projection
from rue.data.opening import training_rows


@pytest.mark.parametrize("name", ["softplus", "convolution", "recurrent", "attention", "softmax"])
def test_pushing_vectors_forward_is_the_jacobian_times_them(name):
    case = cases.CASES[name]()
    model = case.wrap().bind(case.X, float(len(case.y)))
    vectors = torch.randn(4, model.theta.numel(), dtype=torch.float64)
    wanted = torch.einsum("ckd,rd->ckr", jacobian(model, case.X_new), vectors)
    torch.testing.assert_close(pushed(model, case.X_new, vectors), wanted)


def test_parameters_without_a_penalty_are_not_projected():
    case = cases.CASES["linear"]()
    model = rue.wrap(case.module, loss="squared_error", l2=0.0)
    exact, seen = (
        rue.LinearRUE(solver=solver).fit(model, (case.X, case.y)).audit(case.X_new)
        for solver in (Cholesky(), Projection(size=8))
    )
    np.testing.assert_allclose(seen.std, exact.std, rtol=1e-9)


def test_as_many_directions_as_parameters_give_the_exact_answer_in_any_units_of_the_penalty():
    case = cases.CASES["softplus"]()
    exact, seen = (
        rue.LinearRUE(solver=solver).fit(case.wrap(l2={"0.*": 3.0, "2.*": 0.2}), (case.X, case.y)).audit(case.X_new)
        for solver in (Cholesky(), Projection(size=40))
    )
    np.testing.assert_allclose(seen.std, exact.std, rtol=1e-4)


@pytest.mark.parametrize("method", [rue.LinearRUE, rue.CalibratedRUE])
def test_what_is_too_large_for_an_exact_solve_is_projected_unasked_and_said(method, monkeypatch):
    case = cases.CASES["softplus"]()
    monkeypatch.setattr("rue.core.solve.choice.LARGE", 10)
    with pytest.warns(RueWarning, match="too many for an exact solve"):
        method().fit(case.wrap(), (case.X, case.y))


def many_classes():
    """20 classes, about 5,000 parameters: the exact answer is at hand."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(20, 30, generator=generator, dtype=torch.float64)
    y = torch.randint(20, (200,), generator=generator)
    X = centres[y] + torch.randn(200, 30, generator=generator, dtype=torch.float64)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(30, 50), nn.ReLU(), nn.Linear(50, 20)).double()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        penalty = 0.5 * sum(p.square().sum() for p in net.parameters())
        (nn.functional.cross_entropy(net(X), y, reduction="sum") + penalty).backward()
        optimiser.step()
    new = centres[y[:60]] + torch.randn(60, 30, generator=generator, dtype=torch.float64)
    return rue.wrap(net, loss="cross_entropy", l2=1.0), (X, y), new


def test_a_projection_keeps_the_order_and_the_scale_of_the_exact_answer():
    model, data, new = many_classes()
    exact = rue.LinearRUE(solver=Cholesky()).fit(model, data).audit(new)
    seen = rue.LinearRUE(solver=Projection(size=1024)).fit(model, data).audit(new)
    np.testing.assert_array_equal(seen.prediction, exact.prediction)
    assert seen.facts["d"] == exact.facts["d"] == 2570
    assert seen.facts["projected_to"] == 1024
    assert spearmanr(seen.score, exact.score)[0] > 0.97
    assert spearmanr(seen.flip_probability, exact.flip_probability)[0] > 0.99
    assert np.median(seen.score / exact.score) == pytest.approx(1, abs=0.15)


def test_the_same_seed_gives_the_same_bits_and_a_size_below_two_is_refused():
    case = cases.CASES["softplus"]()
    first, again, other = (
        rue.LinearRUE(solver=Projection(size=6, seed=seed)).fit(case.wrap(), (case.X, case.y)).audit(case.X_new).score
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    with pytest.raises(SettingError, match="at least 2 directions"):
        Projection(size=1)


@pytest.mark.filterwarnings("ignore:the damping .* follows from:rue.errors.RueWarning")  # as it is meant here
@pytest.mark.filterwarnings("ignore:the network is not at rest:rue.errors.RueWarning")  # nor is it here
def test_every_closed_form_works_on_a_projected_model():
    case = cases.CASES["softplus"]()
    for method in (rue.CalibratedRUE(solver=Projection(12)), rue.Laplace(linearised=True, solver=Projection(12))):
        assert np.isfinite(method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new).score).all()
    found = rue.calibrate.leave_one_out(case.wrap(), (case.X, case.y), solver=Projection(12))
    assert np.isfinite(found.residual).all()


def test_targets_are_read_as_the_model_behind_a_projection_reads_them():
    torch.manual_seed(0)
    net, X = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)), torch.randn(40, 3)
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    auditor = rue.LinearRUE(solver=Projection(8)).fit(model, (X, X.sum(1)))
    assert auditor.model.read_targets(X[:5, 0]).shape == (5, 1)
    assert rue.report(auditor, X[:9], X[:9].sum(1), baselines=False).document["predictions"]


@pytest.mark.parametrize("bias", [0.2, 0.0])
def test_along_all_directions_the_penalty_is_that_of_the_parameters(bias):
    """It shrinks towards zero; a parameter without a penalty has a direction of its own."""
    case = cases.CASES["linear"]()
    rows, model = training_rows((case.X, case.y), case.wrap(l2={"weight": 3.0, "bias": bias}))
    seen = Projection(size=40).view(model.core, rows)
    free = int(bias == 0)
    assert [len(seen.directions), len(seen.free)] == [4 - free, free]
    strength = torch.tensor([3.0, 3.0, 3.0, bias], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for z in (torch.zeros(4).double(), torch.randn(4, generator=generator, dtype=torch.float64)):
        moved = model.theta + z[: 4 - free] @ seen.directions
        moved[-1] += z[-1] * free
        wanted = 0.5 * (strength * moved.square()).sum()
        torch.testing.assert_close(seen.penalty(z), wanted, rtol=1e-5, atol=0)
        torch.testing.assert_close(seen.predict(z, case.X_new), model.predict(moved, case.X_new))
    J = jacobian(model, case.X_new)
    wanted = torch.cat([J @ seen.directions.T, J[..., 4 - free :]], -1)
    torch.testing.assert_close(seen.jacobian(case.X_new), wanted)


@pytest.mark.parametrize("l2", [2.0, {"0.*": 3.0, "2.weight": 0.2, "2.bias": 7.0}])
def test_the_penalty_along_few_directions_is_that_of_the_parameters_there(l2):
    """Steps along the directions cost what they cost the parameters, also where each has a penalty of its own."""
    case = cases.CASES["softplus"]()
    rows, model = training_rows((case.X, case.y), case.wrap(l2=l2))
    seen = Projection(size=5).view(model.core, rows)
    z = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = torch.stack([model.penalty(model.theta + part @ seen.directions) for part in z]) - model.penalty(
        model.theta
    )
    steps = torch.stack([seen.penalty(part) for part in z]) - seen.penalty(seen.theta)
    torch.testing.assert_close(steps, wanted, rtol=1e-6, atol=0)
    at = seen.centre.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model.penalty(model.theta + at @ seen.directions), at)
    np.testing.assert_allclose(slope, 0, atol=1e-6)  # nowhere along the directions is it smaller


@pytest.mark.parametrize("size", [9, 10, 11])
def test_parameters_without_a_penalty_keep_directions_of_their_own_while_they_are_few(size):
    """Five of them are at most half of ten directions; of nine they would be more, and the penalty gives no scale."""
    case = cases.CASES["softplus"]()
    rows, model = training_rows((case.X, case.y), case.wrap(l2={"0.*": 4.0, "2.*": 0.0}))
    seen = Projection(size=size).view(model.core, rows)
    few = size > 9
    assert seen.free.tolist() == (list(range(12, 17)) if few else [])
    assert float(seen.directions[:, seen.free].abs().sum()) == 0
    strength = torch.tensor([1.0] * 12 + [0.0] * 5 if few else [1.0] * 17, dtype=torch.float64)
    identity = torch.eye(len(seen.directions), dtype=torch.float64)
    torch.testing.assert_close((seen.directions * strength) @ seen.directions.T, identity, rtol=0, atol=1e-3)
    assert len(seen.theta) == len(seen.directions) + len(seen.free)
    z = torch.zeros(len(seen.theta), dtype=torch.float64)
    z[len(seen.directions) :] = 3.0
    torch.testing.assert_close(seen.penalty(z), seen.penalty(seen.theta))  # what has no penalty moves at no cost


def test_a_step_that_a_coupled_penalty_does_not_feel_costs_nothing_along_the_directions():
    """It gives no scale, so the directions are orthonormal as the parameters are, and no other penalty is made up."""
    case = cases.CASES["linear"]()
    coupled = case.wrap(l2=None, penalty=lambda named: 5 * named["weight"].sum().square())
    rows, model = training_rows((case.X, case.y), coupled)
    seen = Projection(size=3).view(model.core, rows)
    assert len(seen.free) == 0
    identity = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(seen.directions @ seen.directions.T, identity, rtol=0, atol=1e-6)
    felt = seen.directions[:, :3].sum(1)  # how a step along each direction moves the sum of the weights
    for z in torch.linalg.svd(felt[None]).Vh[1:]:
        moved = model.theta + z @ seen.directions
        torch.testing.assert_close(model.penalty(moved), model.penalty(model.theta))
        for step in (1.0, -20.0):
            torch.testing.assert_close(seen.penalty(step * z), seen.penalty(seen.theta))
