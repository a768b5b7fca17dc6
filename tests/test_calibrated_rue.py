"""The audit that calibrates itself, against plain arithmetic, refits and laws."""

import re
import warnings
from dataclasses import replace
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.base import BaseEstimator, RegressorMixin
from torch.utils.data import DataLoader, TensorDataset

import cases
import oracles
import rue
from rue.calibrate.doubts import doubts
from rue.calibrate.smoother import POWERS
from rue.core.errors import DataError, ModelError, NumericalError, RueWarning, SettingError
from rue.core.solve import Fixed, NoDamping
from rue.data.opening import training_rows
from rue.methods.calibrated_rue import DAMPINGS, TERMS, _terms

LEAST = (0,) * len(TERMS)  # any term may turn out not to pay, scarcity too


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rue.calibrate.error_model.TREES", 30)
        yield


def with_degrees(audit, degrees):
    return replace(audit, numbers=replace(audit.numbers, degrees=degrees))


def ridge(X, y, l2=1.0):
    """A linear module at the minimum of Σ ½(y − f)² + ½ l2 ‖θ‖², the bias penalised too."""
    D, Y = np.hstack([X, np.ones((len(X), 1))]), np.asarray(y, dtype=float).reshape(len(X), -1)
    theta = np.linalg.solve(D.T @ D + l2 * np.eye(D.shape[1]), D.T @ Y)
    module = torch.nn.Linear(X.shape[1], Y.shape[1]).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor(theta[:-1].T))
        module.bias.copy_(torch.tensor(theta[-1]))
    return module


def wrap(module, l2=1.0):
    return rue.wrap(module, loss="squared_error", l2=l2)


def constant(X):
    return 0.5


def table(n, p=3, m=0, seed=0, noise=constant):
    """X, y of n + m rows: a linear mean and noise that may depend on the inputs."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n + m, p))
    return X, X @ np.linspace(1, -1, p) + noise(X) * generator.normal(size=n + m)


def network(X, y, l2=0.1, hidden=4, seed=0):
    """A softplus net near a minimum."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = torch.nn.Sequential(torch.nn.Linear(X.shape[1], hidden), torch.nn.Softplus(), torch.nn.Linear(hidden, 1))
    net, inputs, targets = net.double(), torch.tensor(X), torch.tensor(y)
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=60)

    def closure():
        optimiser.zero_grad()
        penalty = sum(parameter.square().sum() for parameter in net.parameters())
        objective = 0.5 * (net(inputs)[:, 0] - targets).square().sum() + 0.5 * l2 * penalty
        objective.backward()
        return objective

    optimiser.step(closure)
    return net


@pytest.fixture(scope="module")
def small():
    """A net, its rows, inputs to audit (some far away), and G, r as the oracles take them."""
    X, y = table(80, p=2, m=40, noise=lambda X: 0.5 * np.exp(1.5 * X[:, 1]))
    X[100:] *= 2.5
    net = network(X[:80], y[:80])
    G = oracles.output_jacobian(net, X[:80])[:, 0]
    r = oracles.predict_at(net, oracles.flat(net), X[:80])[:, 0] - y[:80]
    return net, X[:80], y[:80], X[80:], G, r


# Equality with plain arithmetic


@pytest.fixture(scope="module")
def audited(small):
    net, X, y, X_new, _, _ = small
    auditor = rue.CalibratedRUE(damping=NoDamping()).fit(wrap(net, 0.1), (X, y))
    return auditor, auditor.audit(X_new)


def test_every_term_at_a_training_row_is_that_without_the_row(small, audited):
    *_, G, r = small
    spread = audited[0].assess
    slopes, h = oracles.left_out_slopes(G, r, 0.1)
    kappa, noise = oracles.squared_cosines(G, 0.1), (slopes**2).mean()
    for power in POWERS:
        terms = _terms(spread.view, spread.known, power)[:, :, 0, 0]
        np.testing.assert_allclose(terms[0], noise, rtol=1e-6)
        np.testing.assert_allclose(terms[1], oracles.left_out_rue(G, r, 0.1), rtol=1e-6)
        np.testing.assert_allclose(terms[2], oracles.smoothed(kappa, slopes**2, power), rtol=1e-6)
        np.testing.assert_allclose(terms[4], noise * h / (1 - h), rtol=1e-6)
    np.testing.assert_allclose(spread.view.terms.similarity, kappa.max(1), rtol=1e-6)
    assert audited[0].facts["left_out_std"] == pytest.approx([np.sqrt(noise)], rel=1e-6)


def test_the_terms_at_training_rows_do_not_depend_on_the_batches_they_come_in(small, audited, monkeypatch):
    net, X, y, _, _, _ = small
    loader = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(y)), batch_size=17)
    whole = audited[0].assess.view.terms
    monkeypatch.setattr("rue.calibrate.smoother.BLOCK", 500)  # six rows at once
    parts = rue.CalibratedRUE(damping=NoDamping()).fit(wrap(net, 0.1), loader).assess.view.terms
    for name in ("resampling", "smoothed", "similarity"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("resampler", [rue.resample.Poisson(), rue.resample.Jackknife()])
def test_other_resamplers_keep_their_own_covariance_when_a_row_is_left_out(small, resampler):
    net, X, y, _, G, r = small
    auditor = rue.CalibratedRUE(damping=NoDamping(), resampler=resampler).fit(wrap(net, 0.1), (X, y))
    wanted = oracles.left_out_rue(G, r, 0.1, *resampler.covariance(80))
    np.testing.assert_allclose(auditor.assess.view.terms.resampling[:, 0, 0], wanted, rtol=1e-6)


def test_no_other_weights_make_the_left_out_residuals_more_likely(small, audited):
    *_, G, r = small
    slopes, _ = oracles.left_out_slopes(G, r, 0.1)
    facts, spread = audited[0].facts, audited[0].assess
    found = np.array([facts["weights"][name] for name in TERMS])
    terms = _terms(spread.view, spread.known, facts["smoother_power"])[:, :, 0, 0]
    assert facts["left_out_nll"] == pytest.approx(oracles.mean_nll(found, terms, slopes, facts["degrees"]), abs=1e-6)
    reached = oracles.least_nll(terms, slopes, LEAST, facts["degrees"])[1]
    assert facts["left_out_nll"] == pytest.approx(reached, abs=1e-6)


def test_the_power_is_the_one_that_left_out_residuals_like_best(small, audited):
    *_, G, r = small
    slopes, _ = oracles.left_out_slopes(G, r, 0.1)
    spread = audited[0].assess
    reached = [
        oracles.least_nll(_terms(spread.view, spread.known, power)[:, :, 0, 0], slopes, LEAST, inf)[1]
        for power in (spread.power, *(power for power in (spread.power // 2, 2 * spread.power) if power in POWERS))
    ]
    assert reached[0] <= min(reached) + 1e-6


def test_the_total_at_new_inputs_is_the_weighed_sum_with_its_guard(small, audited):
    net, X, _, X_new, G, r = small
    auditor, audit = audited
    spread = auditor.assess
    predicted = oracles.predict_at(net, oracles.flat(net), X_new)
    errors, missed = spread.known.errors, np.abs(oracles.left_out_slopes(G, r, 0.1)[0]).mean()
    size = errors.forest(np.hstack([(X_new - X.mean(0)) / X.std(0), predicted / missed]).astype(np.float32))[:, 0]
    expected = errors.scale * size**2  # the forest learns absolute errors, in units of their mean
    G_new = oracles.output_jacobian(net, X_new)[:, 0]
    total, guard, scarce = oracles.calibrated_variance(
        G, r, 0.1, X, G_new, X_new, spread.weights[:5], spread.power, expected
    )
    assert spread.weights[5] == 0  # the net is not linear: nobody stands beside it
    np.testing.assert_allclose(audit.total_std**2, total, rtol=1e-6)
    np.testing.assert_array_equal(audit.scarce, scarce)
    own = (oracles.left_out_slopes(G, r, 0.1)[0] ** 2).mean() * oracles.own_products(G, 0.1, G_new)
    np.testing.assert_allclose(audit.axes["scarcity"] ** 2, spread.weights[4] * own + guard, rtol=1e-6)
    assert (guard > 0).any()
    assert (guard == 0).any()


def test_a_damping_of_zero_is_no_damping(small, audited):
    net, X, y, X_new, _, _ = small
    found = rue.CalibratedRUE(damping=Fixed(0.0)).fit(wrap(net, 0.1), (X, y)).audit(X_new)
    np.testing.assert_allclose(found.total_std, audited[1].total_std, rtol=1e-9)


# Beside a linear model


def test_a_linear_model_of_a_curve_is_compared_with_a_kernel_model():
    source = np.random.default_rng(0)
    X, X_new = source.uniform(-1, 1, size=(200, 2)), source.uniform(-1, 1, size=(100, 2))
    y = 3 * X[:, 0] ** 2 + 0.1 * source.normal(size=200)
    auditor = rue.CalibratedRUE().fit(wrap(ridge(X, y)), (X, y))
    known, weights = auditor.assess.known, auditor.facts["weights"]
    np.testing.assert_allclose(known.apart[:, 0], (known.evidence.prediction - known.witness.prediction)[:, 0] ** 2)
    assert weights["disagreement"] == pytest.approx(1, abs=0.4)
    assert weights["noise"] + weights["error model"] + weights["neighbours"] < 0.2
    audit = auditor.audit(X_new)
    missed = np.abs(3 * X_new[:, 0] ** 2 - audit.prediction)
    assert np.corrcoef(audit.total_std, missed)[0, 1] > 0.9


def test_a_linear_model_of_a_line_keeps_the_kernel_model_out():
    X, y = table(200, noise=constant)
    weights = rue.CalibratedRUE().fit(wrap(ridge(X, y)), (X, y)).facts["weights"]
    assert weights["disagreement"] < 0.3


# Axes, weights, score


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("outputs", [1, 2])
def test_squares_of_the_axes_sum_to_the_total_and_no_weight_is_negative(seed, outputs):
    X, y = table(70, seed=seed, noise=lambda X: 0.1 + np.abs(X[:, 2]))
    Y = y if outputs == 1 else np.stack([y, y**2 / 3 - X[:, 0]], axis=1)
    auditor = rue.CalibratedRUE(seed=seed).fit(wrap(ridge(X, Y)), (X, Y))
    audit = auditor.audit(1.5 * X[:30])
    assert list(audit.axes) == ["noise and local misfit", "resampling", "scarcity"]
    np.testing.assert_allclose(sum(part**2 for part in audit.axes.values()), audit.total_std**2, rtol=1e-9)
    assert all(value >= 0 for value in auditor.facts["weights"].values())
    trace = np.trace(audit.total_covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(audit.score, np.sqrt(trace), rtol=1e-9)
    if outputs == 1:
        np.testing.assert_allclose(audit.score, audit.total_std, rtol=1e-9)
    assert list(audit.to_frame()["scarce"]) == audit.scarce.tolist()


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")  # influence is asked for
@pytest.mark.parametrize("damping", [NoDamping(), Fixed(3.0), None])
def test_std_is_that_of_linear_rue_under_the_same_damping(small, damping):
    net, X, y, X_new, _, _ = small
    auditor = rue.CalibratedRUE(damping=damping).fit(wrap(net, 0.1), (X, y), left_out=rue.left_out.Influence())
    same = rue.LinearRUE(damping=Fixed(auditor.facts["damping"])).fit(wrap(net, 0.1), (X, y))
    np.testing.assert_allclose(auditor.audit(X_new).std, same.audit(X_new).std, rtol=1e-6)


@given(st.integers(-6, 6))
@settings(max_examples=5)
def test_targets_in_another_unit_scale_every_spread_of_a_linear_model(exponent):
    X, y = table(60, m=20, noise=lambda X: 0.2 + np.abs(X[:, 0]))
    one, other = (
        rue.CalibratedRUE(damping=NoDamping())
        .fit(wrap(ridge(X[:60], c * y[:60])), (X[:60], c * y[:60]))
        .audit(2 * X[60:])
        for c in (1.0, 2.0**exponent)
    )
    for name in ("std", "noise_std", "total_std", "score", "prediction"):
        np.testing.assert_allclose(getattr(other, name), 2.0**exponent * getattr(one, name), rtol=1e-5)
    for name, part in one.axes.items():
        np.testing.assert_allclose(other.axes[name], 2.0**exponent * part, rtol=1e-4, atol=1e-6 * 2.0**exponent)
    np.testing.assert_array_equal(one.scarce, other.scarce)


def quadruples(n, seed=0):
    """Four rows at each input; two targets with the same squares whose products sum to zero at each."""
    generator = np.random.default_rng(seed)
    X = np.repeat(generator.normal(size=(n, 2)), 4, axis=0)
    size = np.repeat(np.exp(X[::4, 0]) * np.abs(generator.normal(size=n)), 4)
    return X, size * np.tile([1, 1, -1, -1], n), size * np.tile([1, -1, 1, -1], n), np.repeat(np.arange(n), 4)


def test_two_outputs_alike_are_audited_as_one(monkeypatch):
    monkeypatch.setattr("rue.calibrate.error_model.FEATURES", 1.0)  # a draw of columns knows how many there are
    X, one, other, group = quadruples(30)
    both = np.stack([one, other], axis=1)
    method = rue.CalibratedRUE(tails="gaussian")  # a joint Student-t is not the product of two
    single = method.fit(wrap(ridge(X, one)), rue.Data(X, one, group=group))
    double = method.fit(wrap(ridge(X, both)), rue.Data(X, both, group=group))
    alone, pair = single.audit(2 * X[::4]), double.audit(2 * X[::4])
    for j in range(2):
        np.testing.assert_allclose(pair.total_std[:, j], alone.total_std, rtol=1e-3)
    np.testing.assert_allclose(pair.score, np.sqrt(2) * alone.score, rtol=1e-3)
    np.testing.assert_array_equal(pair.scarce, alone.scarce)
    assert double.facts["smoother_power"] == single.facts["smoother_power"]
    assert double.facts["left_out_nll"] == pytest.approx(2 * single.facts["left_out_nll"], abs=1e-4)


# Groups and example weights: targets change and the network does not, so that only residuals do


def seen(module, X, y, **columns):
    """The left-out terms of all rows at some power, resampling included, and what the forest says: (t, n, k, k)."""
    auditor = rue.CalibratedRUE(damping=NoDamping()).fit(wrap(module), rue.Data(X, y, **columns))
    return _terms(auditor.assess.view, auditor.assess.known, 4), auditor


@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_said_of_a_unit_does_not_depend_on_its_own_targets(grouped):
    X, y = table(60)
    group = np.arange(60) % 15 if grouped else np.arange(60)
    module, own = ridge(X, y), group == 7
    poisoned = y + 100.0 * own
    columns = {"group": group} if grouped else {}
    plain, poison = seen(module, X, y, **columns)[0], seen(module, X, poisoned, **columns)[0]
    for term in (1, 2):  # resampling, neighbours; the error model's part is in test_smoother.py
        np.testing.assert_allclose(poison[term, own], plain[term, own], rtol=1e-5, err_msg=TERMS[term])
        assert (poison[term, ~own] > 1.5 * plain[term, ~own]).any(), TERMS[term]
    # what the error model is told of a row: its left-out prediction, of a model at rest on either targets
    told, otherwise = (
        seen(ridge(X, targets), X, targets, **columns)[1].assess.known.evidence.prediction for targets in (y, poisoned)
    )
    np.testing.assert_allclose(otherwise[own], told[own], rtol=1e-8, atol=1e-8)
    assert float((otherwise[~own] - told[~own]).abs().max()) > 0.1


@pytest.mark.filterwarnings("ignore:copies")
def test_rows_of_a_group_are_never_compared_with_each_other():
    X, y = table(40)
    X = np.repeat(X, 2, axis=0)  # every row twice: without groups, its copy is the most similar row
    y = np.repeat(y, 2)
    _, apart = seen(ridge(X, y), X, y, group=np.repeat(np.arange(40), 2))
    _, loose = seen(ridge(X, y), X, y)
    assert float(apart.assess.view.terms.similarity.max()) < 1 - 1e-9
    assert float(loose.assess.view.terms.similarity.min()) > 1 - 1e-9


def test_a_row_of_weight_two_is_a_pair_of_rows_that_leave_together():
    X, y = table(50)
    weight = 1.0 + (np.arange(50) < 10)
    twice = np.concatenate([np.arange(50), np.arange(10)])
    module = ridge(X[twice], y[twice])
    (weighed, one), (paired, other) = seen(module, X, y, weight=weight), seen(module, X[twice], y[twice], group=twice)
    for term in (0, 2, 4):  # noise, neighbours, scarcity
        np.testing.assert_allclose(paired[term, :50], weighed[term], rtol=1e-9, err_msg=TERMS[term])
    assert one.facts["left_out_std"] == pytest.approx(other.facts["left_out_std"], rel=1e-9)
    assert one.facts["effective_parameters"] == pytest.approx(other.facts["effective_parameters"], rel=1e-9)


def test_a_row_without_weight_is_as_if_it_were_not_there():
    X, y = table(60, m=20)
    module, weight = ridge(X[:60], y[:60]), np.r_[np.ones(60), np.zeros(3)]
    added = np.vstack([X[:60], [[9.0, 9.0, 9.0], [0, 0, 0], [0.1, 0, 0]]])  # far away, and among the others
    wrong = np.r_[y[:60], 1000.0, -1000.0, 1000.0]
    (plain, one), (poison, other) = seen(module, X[:60], y[:60]), seen(module, added, wrong, weight=weight)
    assert other.facts["calibrated_on"] == 60
    for term in (0, 2, 4):
        np.testing.assert_allclose(poison[term], plain[term], rtol=1e-9, err_msg=TERMS[term])
    np.testing.assert_allclose(poison[1], plain[1], rtol=0.02)  # the resampler counts 63 units
    far = np.array([[9.0, 9.0, 9.0]])
    assert other.audit(far).scarce.all()
    assert one.audit(far).scarce.all()
    np.testing.assert_allclose(other.audit(X[60:]).total_std, one.audit(X[60:]).total_std, rtol=0.25)


# The damping trap


def crowd(seed=0, n=60, hidden=12):
    """A net with many parameters on few noisy rows."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * generator.normal(size=n) * np.exp(X[:, 1] / 2)
    return X, y, network(X, y, l2=0.5, hidden=hidden, seed=seed)


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")  # influence is asked for
def test_left_out_residuals_do_not_depend_on_the_damping_that_is_chosen():
    chosen = set()
    for seed in range(4):
        X, y, net = crowd(seed)
        auditor = rue.CalibratedRUE().fit(wrap(net, 0.5), (X, y), left_out=rue.left_out.Influence())
        G = oracles.output_jacobian(net, X)[:, 0]
        r = oracles.predict_at(net, oracles.flat(net), X)[:, 0] - y
        slopes, _ = oracles.left_out_slopes(G, r, 0.5)
        assert auditor.facts["left_out_std"][0] == pytest.approx(np.sqrt((slopes**2).mean()), rel=1e-6)
        mean = np.trace(G.T @ G + 0.5 * np.eye(G.shape[1])) / G.shape[1]
        added = auditor.facts["damping"]
        chosen.add(added)
        assert any(added == pytest.approx(fraction * mean, rel=1e-6) for fraction in (0, *DAMPINGS))
        # recomputed for each damping, constant noise would always like the largest best
        recomputed = [
            np.log((oracles.left_out_slopes(G, r, 0.5 + fraction * mean)[0] ** 2).mean()) for fraction in (0, *DAMPINGS)
        ]
        assert recomputed == sorted(recomputed, reverse=True)
        # resampling is taken apart in the damped metric
        rows = auditor.assess.view.terms.resampling[:, 0, 0]
        np.testing.assert_allclose(rows, oracles.left_out_rue(G, r, 0.5 + added), rtol=1e-5)
        if added < 0.9 * DAMPINGS[-1] * mean:
            chosen.add("not the largest")
    assert "not the largest" in chosen
    assert any(isinstance(added, float) and added > 0 for added in chosen)


# What pays and what does not


def measured(method, X, y, n):
    """Mean NLL and mean AUC of a method on the rows after the first n."""
    audit = method.fit(wrap(ridge(X[:n], y[:n])), (X[:n], y[:n])).audit(X[n:])
    return -audit.log_prob(y[n:]).mean(), rue.evaluate.mean_auc(audit.score, audit.errors(y[n:])[:, 0])


def compared(others, **settings):
    """Means of `measured` over three data sets, with n = 400 and m = 500: (1 + others, 2)."""
    found = []
    for seed in range(3):
        X, y = table(400, m=500, seed=seed, **settings)
        found.append([measured(method, X, y, 400) for method in (rue.CalibratedRUE(), *others)])
    return np.mean(found, axis=0)


def test_terms_that_do_not_pay_cost_little():
    (own, _), (constant, _) = compared([rue.Homoscedastic()])
    assert own < constant + 0.02


def test_noise_of_a_feature_that_the_mean_ignores_is_found():
    def noise(X):
        return 0.5 * np.exp(0.8 * X[:, 1])  # the middle coefficient of the mean is zero

    (nll, auc), (_, plain), (constant, _) = compared([rue.LinearRUE(), rue.Homoscedastic()], noise=noise)
    assert auc > plain + 0.1
    assert nll < constant - 0.2


def test_heavy_tails_are_noticed():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1000, 2))
    y = X[:, 0] + generator.standard_t(3, size=1000)
    model = wrap(ridge(X[:400], y[:400]))
    student, gaussian = (rue.CalibratedRUE(tails=tails).fit(model, (X[:400], y[:400])) for tails in TAILS)
    assert student.facts["degrees"] <= 5
    assert gaussian.facts["degrees"] == inf
    assert student.facts["left_out_nll"] < gaussian.facts["left_out_nll"] - 0.02
    assert student.audit(X[400:]).log_prob(y[400:]).mean() > gaussian.audit(X[400:]).log_prob(y[400:]).mean() + 0.02


TAILS = ("student", "gaussian")


@pytest.mark.parametrize("degrees", [3.0, 7.0, inf])
def test_the_density_integrates_to_one_with_the_stated_deviation(audited, degrees):
    audit = with_degrees(audited[1], degrees)
    row = 3

    def density(value):
        targets = audit.prediction.copy()
        targets[row] = value
        return float(np.exp(audit.log_prob(targets)[row]))

    centre, deviation = audit.prediction[row], audit.total_std[row]
    mass = sum(integrate.quad(density, *ends)[0] for ends in ((-inf, centre), (centre, inf)))
    assert mass == pytest.approx(1, abs=1e-6)
    far = (40 if degrees == inf else 4000) * deviation
    square = sum(
        integrate.quad(lambda v: (v - centre) ** 2 * density(v), *ends, limit=400)[0]
        for ends in ((centre - far, centre), (centre, centre + far))
    )
    assert square == pytest.approx(deviation**2, rel=2e-3)
    lower, upper, _ = audit.interval(0.8, by="distribution")
    assert integrate.quad(density, lower[row], upper[row])[0] == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("degrees", [3.0, 20.0])
def test_the_density_of_several_outputs_is_scipys_multivariate_t(degrees):
    X, y = table(60)
    Y = np.stack([y, X[:, 0] - y], axis=1)
    audit = rue.CalibratedRUE().fit(wrap(ridge(X, Y)), (X, Y)).audit(X[:5])
    audit, targets = with_degrees(audit, degrees), audit.prediction + np.array([0.3, -1.0])
    for i, found in enumerate(audit.log_prob(targets)):
        shape = audit.total_covariance[i] * (degrees - 2) / degrees
        wanted = stats.multivariate_t(audit.prediction[i], shape, df=degrees).logpdf(targets[i])
        assert found == pytest.approx(wanted, rel=1e-9)


# Inputs unlike the training rows


def test_inputs_like_the_training_rows_are_seldom_called_scarce():
    shares = []
    for seed in range(4):  # each of three ranges is left by one in a hundred
        X, y = table(500, m=1000, seed=seed)
        auditor = rue.CalibratedRUE(damping=NoDamping()).fit(wrap(ridge(X[:500], y[:500])), (X[:500], y[:500]))
        shares.append(auditor.audit(X[500:]).scarce.mean())
    assert np.mean(shares) <= 0.03, shares


def test_inputs_far_away_in_a_gap_or_with_a_new_category_are_scarce():
    X, y = table(300, p=3)
    X[:, 1] = np.where(X[:, 1] > 0, X[:, 1] + 1.5, X[:, 1])  # nothing between 0 and 1.5
    X[:, 2] = np.digitize(X[:, 2], [-0.5, 0.5])  # 0, 1 or 2
    auditor = rue.CalibratedRUE().fit(wrap(ridge(X, y)), (X, y))
    usual = np.array([[0.0, -0.4, 1.0]])
    assert not auditor.audit(usual).scarce.any()
    strange = np.array([[30.0, -0.4, 1.0], [0.0, 0.75, 1.0], [0.0, -0.4, 3.0], [0.0, -0.4, 0.5]])
    assert auditor.audit(strange).scarce.all()


@pytest.mark.parametrize("grouped", [False, True])
def test_beyond_the_leverage_of_training_rows_the_variance_is_at_least_that_of_all_residuals(grouped):
    X, y = table(200, p=2, noise=lambda X: 0.05 + (X[:, 0] > 0))
    data = rue.Data(X, y, group=np.arange(200) // 4) if grouped else (X, y)
    auditor = rue.CalibratedRUE().fit(wrap(ridge(X, y)), data)
    quiet = np.stack([-np.linspace(0.5, 9, 40), np.zeros(40)], axis=1)
    audit, floor = auditor.audit(quiet), auditor.facts["left_out_std"][0]
    beyond = quiet[:, 0] < -4
    assert audit.scarce[beyond].all()
    assert (audit.total_std[beyond] >= floor).all()
    assert audit.total_std[0] < floor / 2
    assert not audit.scarce[0]


def test_between_training_rows_but_unlike_them_the_variance_is_half_way_to_all_residuals():
    X, y = table(300, p=2, noise=lambda X: 0.02 + (X[:, 0] > 0))
    X[:, 1] = np.where(X[:, 1] > 0, X[:, 1] + 0.8, X[:, 1] - 0.8)
    auditor = rue.CalibratedRUE(damping=NoDamping()).fit(wrap(ridge(X, y)), (X, y))
    gap, near = auditor.audit(np.array([[-1.0, 0.0]])), auditor.audit(np.array([[-1.0, 0.81]]))
    assert gap.scarce[0]
    assert not near.scarce[0]
    floor = auditor.facts["left_out_std"][0]
    assert near.total_std[0] < gap.total_std[0] < floor
    guard = gap.total_std[0] ** 2
    plain = guard - float(gap.axes["scarcity"][0] ** 2)  # all but scarcity: below the unguarded total
    assert guard >= np.sqrt(plain) * floor * (1 - 1e-9)


# Intervals


def by_hand(moved, scores, spread, level):
    """Barber et al.: the ⌈level(n + 1)⌉-th smallest of f₋ᵢ + reach, the same from above of f₋ᵢ − reach."""
    position = int(np.ceil(round(level * (len(scores) + 1), 9)))
    return np.sort(moved - scores * spread)[-position], np.sort(moved + scores * spread)[position - 1]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_interval_is_jackknife_plus_with_real_refits_of_a_linear_model(grouped, outputs):
    X, y = table(48, m=6)
    Y = y[:, None] if outputs == 1 else np.stack([y, X[:, 0] * X[:, 1] + y], axis=1)
    unit = np.arange(48) // (3 if grouped else 1)
    data = rue.Data(X[:48], Y[:48], group=unit) if grouped else (X[:48], Y[:48])
    auditor = rue.CalibratedRUE().fit(wrap(ridge(X[:48], Y[:48])), data)
    audit = auditor.audit(X[48:])
    refits = [ridge(X[:48][unit != u], Y[:48][unit != u]) for u in unit]
    without, own = (
        np.stack([oracles.predict_at(refit, oracles.flat(refit), rows) for refit, rows in zip(refits, at, strict=True)])
        for at in ([X[48:]] * 48, X[:48, None])
    )
    scores = np.abs(Y[:48] - own[:, 0]) / auditor.predictive.left_out.spread
    spread = audit.total_std.reshape(6, outputs)
    for level in (0.5, 0.9):
        lower, upper, said = audit.interval(level)
        assert "not guaranteed" in said
        for i in range(6):
            for j in range(outputs):
                wanted = by_hand(without[:, i, j], scores[:, j], spread[i, j], level)
                found = lower.reshape(6, -1)[i, j], upper.reshape(6, -1)[i, j]
                np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


def test_the_full_conformal_interval_ends_where_refits_cease_to_accept():
    X, y = table(30, m=3)
    auditor = rue.CalibratedRUE().fit(wrap(ridge(X[:30], y[:30])), (X[:30], y[:30]))
    audit = auditor.audit(X[30:])
    lower, upper, said = audit.interval(0.8, by="full conformal")
    assert "exact for ridge regression" in said

    def accepted(i, value):
        rows, targets = np.vstack([X[:30], X[30 + i]]), np.r_[y[:30], value]
        D = np.hstack([rows, np.ones((31, 1))])
        left, h = oracles.left_out_slopes(D, D @ _theta(ridge(rows, targets)) - targets, 1.0)
        assert h[-1] > 0
        scores = np.abs(left[:30]) / auditor.predictive.left_out.spread[:, 0]
        return 1 + (scores >= np.abs(left[30]) / audit.total_std[i]).sum() > 0.2 * 31

    for i in range(3):
        small = 1e-6 * (upper[i] - lower[i])
        assert accepted(i, lower[i] + small)
        assert accepted(i, upper[i] - small)
        assert not accepted(i, lower[i] - small)
        assert not accepted(i, upper[i] + small)


def _theta(module):
    return np.r_[module.weight.detach().numpy()[0], module.bias.detach().numpy()]


def test_the_kind_of_interval_can_be_asked_for(audited):
    audit = audited[1]
    default, same = audit.interval(0.9), audit.interval(0.9, by="jackknife+")
    np.testing.assert_array_equal(default.lower, same.lower)
    assert "Student-t" in audit.interval(by="distribution").guarantee or audit.degrees == inf
    with pytest.raises(SettingError, match=r"no interval by 'bootstrap'.*jackknife\+, full conformal, distribution"):
        audit.interval(by="bootstrap")
    with pytest.raises(SettingError, match="'split conformal'"):
        audit.interval(by="split conformal")


def test_full_conformal_is_not_offered_for_groups_weights_or_several_outputs():
    X, y = table(40)
    both = np.stack([y, -y + X[:, 0] ** 2], axis=1)
    cases = [
        (y, rue.Data(X, y, group=np.arange(40) // 2)),
        (y, rue.Data(X, y, weight=np.linspace(0.5, 2, 40))),
        (both, rue.Data(X, both)),
    ]
    for targets, data in cases:
        audit = rue.CalibratedRUE().fit(wrap(ridge(X, targets)), data).audit(X[:4])
        assert np.isfinite(audit.interval().lower).all()
        with pytest.raises(SettingError, match="no interval by 'full conformal'"):
            audit.interval(by="full conformal")


def test_inputs_that_cannot_be_read_again_in_the_same_order_have_no_such_intervals(small, audited):
    X_new = torch.tensor(small[3])
    ordered = audited[0].audit(DataLoader(TensorDataset(X_new), batch_size=7))
    np.testing.assert_allclose(ordered.interval().lower, audited[1].interval().lower, rtol=1e-9)
    shuffled = audited[0].audit(DataLoader(TensorDataset(X_new), batch_size=7, shuffle=True))
    np.testing.assert_allclose(shuffled.interval().lower, audited[1].interval().lower, rtol=1e-9)  # rows in their order
    changing = X_new.clone()
    audit = audited[0].audit(TensorDataset(changing))
    changing.mul_(3)
    with pytest.raises(DataError, match="a loader that does not shuffle"):
        audit.interval()
    assert np.isfinite(audit.interval(by="distribution").lower).all()


# Refusals and warnings


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")  # influence is asked for
def test_too_many_effective_parameters_are_not_left_to_influence():
    X, y, _ = crowd(n=30)
    net = network(X, y, l2=0.05, hidden=12)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RueWarning)  # what is done about it needs no warning
        chosen = rue.CalibratedRUE().fit(wrap(net, 0.05), (X, y))
    asked = rue.CalibratedRUE().fit(wrap(net, 0.05), (X, y), left_out=rue.left_out.Influence())
    assert asked.facts["effective_share"] > 0.3
    assert asked.facts["left_out"] == "influence at rest"
    assert chosen.facts["left_out"] in ("witness", "linearised and witness")
    assert chosen.facts["left_out_why"]
    assert chosen.facts["warnings"] == ()


def test_a_singular_curvature_under_left_out_rows_is_damped_and_said():
    X, y = table(30, p=2)
    X = np.column_stack([X, X[:, 0]])  # one feature twice, and no penalty
    with pytest.warns(RueWarning, match="singular without damping"):
        auditor = rue.CalibratedRUE().fit(wrap(ridge(X, y, 1e-9), 0.0), (X, y), left_out=rue.left_out.Influence())
    assert any("singular without damping" in text for text in auditor.facts["warnings"])


class Told(RegressorMixin, BaseEstimator):
    """Predicts the mean of its targets, and counts how often it was trained."""

    trained = 0

    def fit(self, X, y):
        Told.trained += 1
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_copies_are_trained_where_they_may_be_and_not_where_they_may_not(monkeypatch):
    for name in ("TREES", "FEWEST"):
        monkeypatch.setattr(f"rue.calibrate.left_out.forest.{name}", 10)
    X, y = table(24)
    model = rue.wrap(Told().fit(X, y))
    Told.trained = 0
    assert rue.CalibratedRUE().fit(model, (X, y), refit=False).facts["left_out"] == "witnesses"
    assert Told.trained == 0
    found = rue.CalibratedRUE().fit(model, (X, y), left_out=rue.left_out.Folds(4))
    assert Told.trained == 4
    left = found.assess.evidence.prediction[:, 0].numpy()
    assert len(np.unique(left.round(9))) == 4
    assert np.isin(((y.sum() - 18 * left) / 6).round(9), [y[left == one].mean().round(9) for one in left]).all()
    for refit in (True, 3, Told(), torch.nn.Linear(3, 1)):
        with pytest.raises(SettingError, match="expected a function from row numbers"):
            rue.CalibratedRUE().fit(model, (X, y), refit=refit)
    with pytest.raises(SettingError, match="which refit=False forbids"):
        rue.CalibratedRUE().fit(model, (X, y), refit=False, left_out=rue.left_out.Folds(4))
    seen = []
    asked = rue.CalibratedRUE().fit(model, (X, y), refit=lambda rows: seen.append(rows) or Told().fit(X, y[rows]))
    assert asked.facts["left_out"] == "refits"
    assert len(seen) == asked.facts["trainings"]
    weighted = rue.CalibratedRUE().fit(model, rue.Data(X, y, weight=np.ones(24)))
    assert weighted.facts["left_out"] == "witnesses"  # its training takes no weights


@pytest.mark.parametrize("exact", [[0], [1], [0, 1]])
def test_an_output_that_is_predicted_exactly_also_without_the_row_cannot_be_calibrated(exact):
    X, y = table(20)
    Y = np.column_stack([y, -2 * y])
    Y[:, exact] = 0.0
    with pytest.raises(NumericalError, match="no residuals to calibrate by"):
        rue.CalibratedRUE().fit(wrap(ridge(X, Y)), (X, Y), left_out=rue.left_out.Influence())


def test_a_baseline_of_errors_looks_along_few_directions_where_the_model_is_too_large(small, monkeypatch):
    net, X, y, X_new, _, _ = small
    exact = rue.ErrorForest().fit(wrap(net, 0.1), (X, y))
    monkeypatch.setattr("rue.methods.planning.too_large", lambda *_: True)
    with pytest.warns(RueWarning, match="too many for an exact solve"):
        seen = rue.ErrorForest().fit(wrap(net, 0.1), (X, y))
    assert "projected_to" in seen.facts
    assert stats.spearmanr(seen.audit(X_new).score, exact.audit(X_new).score)[0] > 0.9


def test_another_loss_is_refused_with_advice_and_rue_audit_takes_linear_rue():
    X, y = table(40)

    def absolute(outputs, targets):
        return torch.nn.functional.huber_loss(outputs[:, 0], targets, reduction="none")

    with pytest.raises(ModelError, match="squared_error"):
        rue.CalibratedRUE().fit(rue.wrap(ridge(X, y), loss=absolute, l2=1.0), (X, y))
    found = rue.audit(ridge(X, y), train=(X, y), inputs=X[:3], loss=absolute, l2=1.0)
    assert found.method == "LinearRUE"
    assert rue.audit(ridge(X, y), train=(X, y), inputs=X[:3], loss="squared_error", l2=1.0).method == "CalibratedRUE"


@pytest.mark.slow
def test_intervals_without_held_out_rows_cover_about_as_often_as_they_say():
    inside = {"jackknife+": [], "full conformal": [], "distribution": []}
    for seed in range(40):
        X, y = table(100, m=100, seed=seed, noise=lambda X: 0.3 * np.exp(0.7 * X[:, 0]))
        audit = rue.CalibratedRUE().fit(wrap(ridge(X[:100], y[:100])), (X[:100], y[:100])).audit(X[100:])
        for by, shares in inside.items():
            lower, upper, _ = audit.interval(0.9, by=by)
            shares.append(((lower <= y[100:]) & (y[100:] <= upper)).mean())
    for by, shares in inside.items():
        assert abs(np.mean(shares) - 0.9) < 0.03, (by, np.mean(shares))  # standard error about 0.006


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")  # influence is asked for
def test_std_is_that_of_linear_rue_whatever_damping_is_chosen(monkeypatch):
    def damped(self, fit, known):
        base = known.evidence.rest.inverted
        curvature = self.curvature.at(fit.model, fit.data)
        return self._view(fit, base._replace(inverse=rue.solve.Cholesky().factor(curvature, 1.0)), known, 100)

    monkeypatch.setattr(rue.CalibratedRUE, "_chosen_view", damped)
    case = cases.CASES["softplus"]()
    auditor = rue.CalibratedRUE().fit(case.wrap(), (case.X, case.y), left_out=rue.left_out.Influence())
    plain = rue.LinearRUE().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    assert auditor.assess.damped is not None
    np.testing.assert_allclose(auditor.audit(case.X_new).std, plain.std, rtol=1e-10)


# Doubts


def doubted(y, said, left_out, weight=None, **more):
    """What is said of a model that says one number of every row and misses it by another where it is left out."""
    net = torch.nn.Linear(2, y.shape[1]).double()
    torch.nn.init.zeros_(net.weight)
    with torch.no_grad():
        net.bias.copy_(torch.tensor(said))
    rows, model = training_rows(rue.Data(rows_like(y), y, weight), wrap(net))
    slope = torch.tensor(left_out).expand(len(y), -1).double()
    return doubts(model, SimpleNamespace(rows=rows, slope=slope, source="influence at rest", **more))


def rows_like(y):
    return np.random.default_rng(0).normal(size=(len(y), 2))


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(
    ("fitted", "left_out", "said"),
    [
        (1.0, 1.0, None),
        (9.5, 1.0, None),  # the check of the training fit warns of that
        (1.0, 2.0, "left out, training rows are missed by .*, more than their mean would"),
        (1.0, 9.5, "left out, training rows are missed by .*, more than their mean would"),
        (10.5, 1.0, "refused: the model misses .* not the targets it was trained on"),
        (1.0, 10.5, "refused: left out, training rows are missed .* the penalty is much smaller"),
    ],
)
def test_errors_of_several_times_what_targets_vary_are_doubted_and_of_ten_times_refused(fitted, left_out, said, unit):
    weight = np.array([3.0, 1.0, 1.0, 1.0])
    usual = np.array([3.0, 7.0, 3.0, 7.0])  # of mean 13/3 and variance 32/9 under these weights
    spread = np.sqrt(32 / 9)
    off = 13 / 3 + spread * np.sqrt(fitted**2 - 1)
    y, says = unit * np.stack([usual, usual], axis=1), [unit * 13 / 3, unit * off]  # the second output is off
    missed = [0.0, unit * left_out * spread]
    if said is not None and said.startswith("refused: "):
        with pytest.raises(NumericalError, match=said.removeprefix("refused: ")):
            doubted(y, says, missed, weight)
        return
    found = doubted(y, says, missed, weight)
    assert len(found) == (said is not None)
    assert said is None or re.match(said, found[0])


def test_targets_that_do_not_vary_give_nothing_to_compare_with():
    constant = np.full((4, 1), 1e6)
    assert doubted(constant, [0.0], [1e6]) == []
    assert doubted(constant + 1e-9 * np.arange(4)[:, None], [0.0], [1e6]) == []


@pytest.mark.parametrize(
    ("logits", "beside", "worse"),
    [
        (np.log([0.75, 0.25]), None, False),  # as good as the classes' own shares
        (np.log([0.6, 0.4]), None, False),
        (np.log([0.25, 0.75]), None, True),
        (np.log([0.75, 0.25]), np.log([0.25, 0.75]), True),
        (np.log([0.25, 0.75]), np.log([0.75, 0.25]), False),  # witnesses are heard before copies
    ],
)
def test_left_out_classes_that_are_worse_than_their_shares_are_doubted(logits, beside, worse):
    y, weight = np.array([0, 0, 1, 1]), np.array([2.0, 1.0, 0.5, 0.5])
    net = torch.nn.Linear(2, 2).double()
    rows, model = training_rows(rue.Data(rows_like(y), y, weight), rue.wrap(net, loss="cross_entropy"))
    prediction, beside = (None if said is None else torch.tensor(said).expand(4, 2) for said in (logits, beside))
    found = doubts(model, SimpleNamespace(rows=rows, prediction=prediction, beside=beside, source="refits"))
    assert len(found) == worse
    if worse:  # −¾ log ¼ − ¼ log ¾ and −¾ log ¾ − ¼ log ¼
        assert re.match(r"left out, training rows have a mean loss of 1.11, .* own shares \(0.562\)", found[0])
