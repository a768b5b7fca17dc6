"""The penalty chosen without held-out rows, against exact leave-one-out and the exact marginal likelihood."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal
from torch import nn

import oracles
import rue
from rue.calibrate.evidence import log_evidence
from rue.calibrate.leaving_one_out import leave_one_out, reading
from rue.calibrate.penalty import choose_penalty
from rue.core.curvature import GaussNewton
from rue.core.errors import NumericalError, RueWarning, SettingError
from snapshot import changed, world_picture

VALUES = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
seed = st.integers(0, 10_000)


def table(seed, n=30, d=4, noise=1.0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    return X, X @ random.normal(size=d) + noise * random.normal(size=n)


def solved(X, y, l2, weight=None):
    rows = X if weight is None else weight[:, None] * X
    return np.linalg.solve(X.T @ rows + l2 * np.eye(X.shape[1]), rows.T @ y)


def wrapped(theta, l2, loss="squared_error", **settings):
    net = nn.Linear(len(theta), 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(torch.as_tensor(theta)[None])
    return rue.wrap(net, loss=loss, l2=l2, **settings)


def ridge(X, y, weight=None):
    return lambda l2: wrapped(solved(X, y, l2, weight), l2)


def evidence_of(model, data):
    with reading(model, data, "test") as (bound, rows):
        return log_evidence(bound, rows, GaussNewton().at(bound, rows))


def profile_log_marginal(X, y, l2):
    """log N(y; 0, σ²(I + XXᵀ/l2)) at its best σ²."""
    covariance = np.eye(len(y)) + X @ X.T / l2

    def cost(log_variance):
        return -multivariate_normal.logpdf(y, np.zeros(len(y)), np.exp(log_variance) * covariance)

    return -minimize_scalar(cost, bounds=(-15, 15), method="bounded", options={"xatol": 1e-10}).fun


@pytest.mark.filterwarnings("ignore:the best of")  # where the ends of the grid are best
@settings(max_examples=10)
@given(seed)
def test_for_ridge_regression_the_choice_is_that_of_exact_cross_validation(seed):
    X, y = table(seed, noise=0.1 + seed % 7)
    choice = choose_penalty(ridge(X, y), VALUES, (X, y))
    exact = []
    for l2 in VALUES:
        errors = [y[i] - X[i] @ solved(np.delete(X, i, 0), np.delete(y, i), l2) for i in range(len(y))]
        exact.append(0.5 * np.mean(np.square(errors)))
    np.testing.assert_allclose([trial.loss for trial in choice.trials], exact, rtol=1e-8)
    assert choice.value == VALUES[int(np.argmin(exact))]
    assert choice.model.describe()["l2"] == choice.value


@pytest.mark.filterwarnings("ignore:the best of")
@settings(max_examples=10)
@given(seed)
def test_for_ridge_regression_the_evidence_is_the_marginal_likelihood(seed):
    X, y = table(seed, noise=0.1 + seed % 7)
    choice = choose_penalty(ridge(X, y), VALUES, (X, y), criterion="evidence")
    exact = [profile_log_marginal(X, y, l2) for l2 in VALUES]
    np.testing.assert_allclose([trial.evidence for trial in choice.trials], exact, rtol=1e-8)
    assert choice.value == VALUES[int(np.argmax(exact))]


def test_the_evidence_is_the_integral_over_the_parameter():
    X, y = table(0, n=7, d=1)

    def integral(log_variance):
        variance = np.exp(log_variance)

        def density(theta):
            noise = np.exp(-0.5 * ((y - X[:, 0] * theta) ** 2).sum() / variance) / (2 * np.pi * variance) ** 3.5
            return noise * np.exp(-0.5 * 0.8 * theta**2 / variance) * np.sqrt(0.8 / (2 * np.pi * variance))

        return -np.log(quad(density, -30, 30, points=[solved(X, y, 0.8)[0]], epsabs=0, epsrel=1e-12, limit=500)[0])

    best = minimize_scalar(integral, bounds=(-5, 5), method="bounded", options={"xatol": 1e-9})
    assert evidence_of(ridge(X, y)(0.8), (X, y)) == pytest.approx(-best.fun, rel=1e-8)


def test_the_evidence_of_a_callable_loss_has_its_noise_in_the_loss():
    X, y = table(0)

    def normal(outputs, targets):  # the negative log density of noise of variance one
        return 0.5 * (outputs[:, 0] - targets).square() + 0.5 * np.log(2 * np.pi)

    found = evidence_of(wrapped(solved(X, y, 2.0), 2.0, normal), (X, y))
    exact = multivariate_normal.logpdf(y, np.zeros(30), np.eye(30) + X @ X.T / 2.0)
    assert found == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("d", [5, 60])
def test_the_evidence_is_the_same_with_more_parameters_than_rows(d):
    X, y = table(1, n=20, d=d)
    found = evidence_of(ridge(X, y)(3.0), (X, y))
    assert found == pytest.approx(profile_log_marginal(X, y, 3.0), rel=1e-8)


def test_the_evidence_needs_the_smaller_of_two_determinants(monkeypatch):
    monkeypatch.setattr("rue.core.solve.choice.LARGE", 10)
    for n, d in ((10, 40), (40, 10)):
        X, y = table(2, n=n, d=d)
        assert evidence_of(ridge(X, y)(3.0), (X, y)) == pytest.approx(profile_log_marginal(X, y, 3.0), rel=1e-8)
    X, y = table(2, n=11, d=11)
    with pytest.raises(SettingError, match="determinant of a matrix of 11 rows, more than 10"):
        evidence_of(ridge(X, y)(3.0), (X, y))


def test_the_evidence_of_two_outputs_is_that_of_both():
    X, _ = table(0)
    Y = np.stack([table(1)[1], table(2)[1]], axis=1)
    net = nn.Linear(4, 2, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor(solved(X, Y, 1.0).T))
    found = evidence_of(rue.wrap(net, loss="squared_error", l2=1.0), (X, Y))
    both = np.kron(np.eye(2), X)
    assert found == pytest.approx(profile_log_marginal(both, Y.T.ravel(), 1.0), rel=1e-8)


def test_a_row_of_weight_three_counts_as_three_rows():
    X, y = table(0)
    weight = np.where(np.arange(30) < 4, 3.0, 1.0)
    repeated = np.repeat(np.arange(30), weight.astype(int))
    once = choose_penalty(ridge(X, y, weight), [0.1, 1.0, 10.0, 100.0], rue.Data(X, y, weight))
    group = rue.Data(X[repeated], y[repeated], group=repeated)
    copies = choose_penalty(ridge(X[repeated], y[repeated]), [0.1, 1.0, 10.0, 100.0], group)
    for a, b in zip(once.trials, copies.trials, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_the_penalty_of_a_mean_is_chosen_alike():
    X, y = table(0)
    values = [0.1, 1.0, 10.0, 100.0]
    summed = choose_penalty(ridge(X, y), values, (X, y))
    mean = choose_penalty(
        lambda l2: wrapped(solved(X, y, 30 * l2), l2, reduction="mean"), [value / 30 for value in values], (X, y)
    )
    assert mean.value == pytest.approx(summed.value / 30)
    for a, b in zip(summed.trials, mean.trials, strict=True):
        np.testing.assert_allclose(a[1:], b[1:], rtol=1e-9)


def test_what_is_said_of_a_value_is_what_leave_one_out_says():
    X, y = table(0)
    choice = choose_penalty(ridge(X, y), [0.1, 1.0, 10.0, 100.0], (X, y))
    found = leave_one_out(choice.model, (X, y))
    chosen = next(trial for trial in choice.trials if trial.value == choice.value)
    assert chosen.loss == pytest.approx(found.mean_loss, rel=1e-12)
    assert choice.effective_parameters == pytest.approx(found.effective_parameters, rel=1e-12)
    effective = [trial.effective_parameters for trial in choice.trials]
    assert effective == sorted(effective, reverse=True)


@pytest.mark.parametrize(
    ("values", "noise", "wanted"),
    [
        ([1e3, 1e4], 0.1, "smaller than 1000"),
        ([0.5, 1e4], 0.01, "smaller than 0.5"),
        ([1e-4, 1e-3], 9.0, "larger than 0.001"),
    ],
)
def test_a_best_value_at_the_end_of_the_grid_is_said(values, noise, wanted):
    X, y = table(3, noise=noise)
    with pytest.warns(RueWarning, match=f"end of the grid; extend it by values {wanted}"):
        choice = choose_penalty(ridge(X, y), values, (X, y))
    assert len(choice.warnings) == 1
    assert wanted in str(choice)


def test_softmax_with_a_free_bias_is_chosen_by_the_pseudo_inverse_and_without_a_warning():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    y = np.argmax(X @ random.normal(size=(3, 3)) + random.gumbel(size=(60, 3)), axis=1)
    J, values = oracles.softmax_rows(X, 3), [0.03, 0.3, 3.0, 30.0]
    expected = []
    for value in values:
        penalty = np.repeat([value, 0.0], [9, 3])
        logits, leverage = oracles.softmax_left_out(J, y, oracles.softmax_fit(J, y, penalty), penalty)
        own = logits[np.arange(60), y]
        expected.append((np.mean(np.log(np.exp(logits).sum(1)) - own), leverage.sum()))

    def train(value):
        net = nn.Linear(3, 3).double()
        theta = oracles.softmax_fit(J, y, np.repeat([value, 0.0], [9, 3]))
        torch.nn.utils.vector_to_parameters(torch.tensor(theta), net.parameters())
        return rue.wrap(net, loss="cross_entropy", l2={"weight": value, "bias": 0.0})

    choice = choose_penalty(train, values, (X, y))
    found = [(trial.loss, trial.effective_parameters) for trial in choice.trials]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert choice.value == values[int(np.argmin([loss for loss, _ in expected]))]
    assert choice.warnings == ()


def test_nothing_is_smaller_than_no_penalty():
    X, y = table(3, noise=0.01)
    choice = choose_penalty(ridge(X, y), [0.0, 100.0], (X, y))  # warnings are errors here
    assert choice.value == 0.0
    assert choice.trials[0].evidence is None
    assert "none" in str(choice)
    with pytest.raises(SettingError, match="4 of 4"):
        choose_penalty(ridge(X, y), [0.0, 100.0], (X, y), criterion="evidence")


def test_too_many_effective_parameters_of_the_chosen_value_are_said():
    X, y = table(3, n=12, d=5, noise=0.01)
    with pytest.warns(RueWarning, match=r"effective parameters for 12 rows .* held-out rows"):
        choice = choose_penalty(ridge(X, y), [0.0, 100.0], (X, y))
    assert len(choice.warnings) == 1


def test_every_training_starts_from_one_random_state_and_the_world_stays_as_it_was():
    X, y = table(0)
    drawn = []

    def train(l2):
        drawn.append(torch.rand(1).item())
        np.random.seed(0)  # noqa: NPY002  a training may do so
        return ridge(X, y)(l2)

    before = world_picture()
    choose_penalty(train, [0.1, 1.0, 10.0, 100.0], (X, y))
    assert changed(before, world_picture()) == []
    assert len(drawn) == 4
    assert len(set(drawn)) == 1


def test_the_order_of_values_does_not_matter():
    X, y = table(0)
    first = choose_penalty(ridge(X, y), [0.1, 1.0, 10.0, 100.0], (X, y))
    second = choose_penalty(ridge(X, y), np.array([10.0, 0.1, 100.0, 1.0]), (X, y))
    assert first.trials == second.trials
    assert str(first) == str(second)


def test_a_choice_reads_as_a_table():
    X, y = table(0)
    choice = choose_penalty(ridge(X, y), [0.1, 1.0, 10.0, 100.0], (X, y))
    lines = str(choice).splitlines()
    assert lines[0] == f"penalty {choice.value:g} of 4 values, by leave-one-out on n = 30 training rows"
    assert len(lines) == 6
    assert [line.split()[1] for line in lines if line.startswith("→")] == [f"{choice.value:g}"]


def test_a_perfect_fit_without_a_penalty_has_no_evidence():
    X, _ = table(0)
    with pytest.raises(NumericalError, match="objective is zero"):
        evidence_of(wrapped(np.zeros(4), 1.0), (X, np.zeros(30)))
