"""LiSSA: its recursion by hand, the residual with all rows, and no answer where it has not converged."""

import numpy as np
import pytest
import torch

import cases
import rue
from rue.core.errors import NotConvergedError, SettingError
from rue.core.resample import generator
from rue.core.solve import LiSSA
from rue.data.opening import training_rows

DAMPING, L2 = 0.7, 0.3


def least_squares(n=40):
    """Rows, their weights, and the curvature of a linear model of them."""
    source = np.random.default_rng(0)
    X, weight = source.normal(size=(n, 4)), source.uniform(0.5, 2, size=n)
    net = torch.nn.Linear(4, 1, bias=False).double()
    data = rue.Data(X, source.normal(size=n), weight=weight)
    rows, model = training_rows(data, rue.wrap(net, loss="squared_error", l2=L2))
    return X, weight, rue.curvature.GaussNewton().at(model, rows)


def series_by_hand(X, weight, wanted, draws, steps, scale):
    solved = wanted / scale
    for _ in range(steps):
        rows = torch.randperm(len(X), generator=draws)[:10].numpy()
        part = len(X) / 10 * (X[rows].T * weight[rows]) @ X[rows] + (L2 + DAMPING) * np.eye(4)
        solved = solved + (wanted - solved @ part) / scale
    return solved


@pytest.mark.parametrize("repeats", [1, 3])
def test_each_step_is_one_of_the_series_with_rows_drawn_anew_and_repeats_are_averaged(repeats):
    X, weight, curvature = least_squares()
    wanted, draws = np.random.default_rng(1).normal(size=(3, 4)), generator(5)
    expected = np.mean([series_by_hand(X, weight, wanted, draws, 30, 300.0) for _ in range(repeats)], axis=0)
    settings = LiSSA(steps=30, rows=10, repeats=repeats, scale=300.0, tolerance=0.99, seed=5)
    solved, residual = settings.factor(curvature, DAMPING).solve(torch.tensor(wanted))
    np.testing.assert_allclose(solved, expected, rtol=1e-9)
    whole = (X.T * weight) @ X + (L2 + DAMPING) * np.eye(4)  # of all rows, whichever were drawn
    left = np.linalg.norm(expected @ whole - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
    assert residual == pytest.approx(left.max())


def test_the_scale_exceeds_the_largest_eigenvalue_of_what_is_drawn():
    X, weight, curvature = least_squares()
    whole = np.linalg.eigvalsh((X.T * weight) @ X + (L2 + DAMPING) * np.eye(4))[-1]
    assert whole < LiSSA(rows=None).factor(curvature, DAMPING).scale < 1.2 * whole
    assert LiSSA(rows=5).factor(curvature, DAMPING).scale > 1.2 * whole  # eight times as few rows differ more


@pytest.mark.parametrize("name", ["linear", "softplus", "convolution"])
def test_with_all_rows_it_converges_to_the_explicit_inverse(name):
    case, damping = cases.CASES[name](), 5.0
    rows, model = training_rows((case.X, case.y), case.wrap())
    curvature = rue.curvature.GaussNewton().at(model, rows)
    inverse = LiSSA(rows=None, tolerance=1e-9).factor(curvature, damping)
    vectors = torch.randn(3, curvature.size, generator=generator(1), dtype=torch.float64)
    solved, residual = inverse.solve(vectors)
    exact = np.linalg.inv(curvature.dense().numpy() + damping * np.eye(curvature.size))
    np.testing.assert_allclose(solved, vectors.numpy() @ exact, rtol=1e-6, atol=1e-9)
    assert residual <= 1e-9
    assert inverse.iterative
    assert float(inverse.solve(torch.zeros(2, curvature.size)).vectors.abs().max()) == 0


def test_samples_have_the_inverse_as_their_covariance():
    X, weight, curvature = least_squares()
    draws = LiSSA(rows=None, tolerance=1e-6).factor(curvature, DAMPING).sample(800, generator(3)).numpy()
    exact = np.linalg.inv((X.T * weight) @ X + (L2 + DAMPING) * np.eye(4))
    error = np.sqrt((exact**2 + np.outer(np.diag(exact), np.diag(exact))) / len(draws))
    assert (np.abs(np.cov(draws.T) - exact) < 5 * error).all()


@pytest.mark.parametrize(
    "settings",
    [LiSSA(steps=3), LiSSA(rows=2, tolerance=1e-6, steps=300), LiSSA(rows=None, scale=1.0), LiSSA(scale=1e-3)],
    ids=["too few steps", "too few rows", "too small a scale", "far too small a scale"],
)
def test_a_series_that_has_not_converged_is_an_error(settings):
    _, _, curvature = least_squares()
    with pytest.raises(NotConvergedError, match="LiSSA left a residual"):
        settings.factor(curvature, DAMPING).solve(torch.ones(1, 4))


def test_it_stops_when_it_has_converged():
    _, _, curvature = least_squares()
    inverse = LiSSA(rows=None, steps=10**9, tolerance=1e-8).factor(curvature, DAMPING)
    assert inverse.solve(torch.ones(1, 4)).residual <= 1e-8


def test_an_audit_by_it_is_the_exact_one_up_to_its_tolerance_and_says_so():
    case = cases.softplus()
    exact = rue.LinearRUE().fit(case.wrap(l2=2.0), (case.X, case.y)).audit(case.X_new)
    solver = LiSSA(rows=18, repeats=3, steps=300, tolerance=0.2)
    audit = rue.LinearRUE(solver=solver).fit(case.wrap(l2=2.0), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(audit.std, exact.std, rtol=0.2)
    assert 0 < audit.facts["residual"] <= 0.2 == audit.facts["tolerance"]
    again = rue.LinearRUE(solver=solver).fit(case.wrap(l2=2.0), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_array_equal(audit.std, again.std)


@pytest.mark.parametrize(
    "wrong",
    [{"steps": 0}, {"rows": 0}, {"rows": -3}, {"repeats": 0}, {"tolerance": 0.0}, {"tolerance": 1.0}, {"scale": 0.0}],
    ids=str,
)
def test_settings_without_sense_are_refused(wrong):
    with pytest.raises(SettingError):
        LiSSA(**wrong)


def test_rows_that_depend_on_each_other_are_not_drawn():
    source = np.random.default_rng(0)
    X, times = source.normal(size=(30, 3)), source.exponential(size=30)
    model = rue.wrap(torch.nn.Linear(3, 1, bias=False).double(), loss="cox", l2=L2)
    with pytest.raises(SettingError, match="rows=None"):
        rue.LinearRUE(solver=LiSSA()).fit(model, (X, np.stack([times, np.ones(30)], 1)))
