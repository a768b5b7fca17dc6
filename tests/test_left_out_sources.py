"""Left-out predictions of networks that are not at rest, against plain NumPy, real refits and laws."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

import oracles
import rue
from rue.calibrate.left_out import Influence, KernelWitness, Linearised, Mixture
from rue.calibrate.left_out.affine import Affine, Diagonal, FeatureRows
from rue.calibrate.left_out.forest import forest_witness
from rue.calibrate.left_out.honest import mixed, share_of_first
from rue.calibrate.left_out.path import best_refit
from rue.calibrate.left_out.rest import DRAWS, Reweighted, distance, is_linear, raw_steps, reweighted
from rue.calibrate.left_out.witness import MIXES, Size, witness
from rue.core.classify import probability
from rue.core.concepts import Batch
from rue.data.opening import training_rows
from rue.data.rows import some_units
from rue.losses.classes import bernoulli
from rue.losses.regression import squared_error
from rue.methods import calibrated_rue

pytestmark = pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rue.calibrate.error_model.TREES", 30)
        yield


def table(n, p=3, outputs=1, seed=0):
    """X (n, p) and Y (n, outputs): a bent mean and noise."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, p))
    mean = np.sin(2 * X[:, :1]) + X[:, 1:2] * np.arange(1, outputs + 1)
    return X, mean + 0.5 * generator.normal(size=(n, outputs))


def network(p=3, hidden=6, outputs=1, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(p, hidden), nn.Tanh(), nn.Linear(hidden, outputs)).double()


def trained(net, X, y, epochs=60, loss=nn.functional.mse_loss, rate=1e-2):
    """By AdamW, over all rows at once: nowhere near rest."""
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate)
    X, y = torch.tensor(X), torch.tensor(y)
    for _ in range(epochs):
        optimiser.zero_grad()
        loss(net(X), y).backward()
        optimiser.step()
    return net


def evidence(rule, net, X, y, loss="squared_error", settings=None, **columns):
    """What a rule gathers, without any method around it."""
    rows, model = training_rows(rue.Data(X, y, **columns), rue.wrap(net, loss=loss, **(settings or {})))
    return rule.gather(model, rows, None, 0)


def tangent(net, X, y, centre=0.0):
    """J (n·k, d), and the targets ỹ (n·k,) of a model that is linear in θ − centre."""
    theta = oracles.flat(net)
    J = oracles.output_jacobian(net, X)
    pseudo = y - oracles.predict_at(net, theta, X) + J @ (theta - centre)
    return J.reshape(-1, J.shape[-1]), pseudo.reshape(-1)


def unitless(J):
    """Gradients as a penalty that is searched for sees them: none is larger than one."""
    return J / np.abs(J).max(0)


def ridge_left_out(K, targets, strength):
    """What kernel ridge regression says of every row without it: y − (y − Hy)/(1 − h)."""
    H = K @ np.linalg.inv(K + strength * np.eye(len(K)))
    return targets - (targets - H @ targets) / (1 - np.diagonal(H))


# The refitted tangent, squared error


@pytest.fixture(scope="module")
def brief():
    """A net that was trained for a short while, its rows, J and ỹ."""
    X, y = table(60)
    net = trained(network(), X, y)
    return net, X, y, *tangent(net, X, y)


def test_left_out_predictions_are_those_of_ridge_regression_on_the_gradients(brief):
    net, X, y, J, pseudo = brief
    found = evidence(Linearised(), net, X, y)
    K = unitless(J) @ unitless(J).T
    wanted = y[:, 0] - pseudo + ridge_left_out(K, pseudo, found.facts["tangent_penalty"])
    assert found.source == "linearised"
    np.testing.assert_allclose(found.prediction[:, 0], wanted, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.slope[:, 0], wanted - y[:, 0], rtol=1e-8, atol=1e-8)
    assert found.loss == pytest.approx(0.5 * ((y[:, 0] - wanted) ** 2).mean(), rel=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_chosen_penalty_has_the_least_left_out_error(seed):
    X, y = table(60, seed=seed)
    net = trained(network(seed=seed), X, y)
    J, pseudo = tangent(net, X, y)
    found = evidence(Linearised(), net, X, y).facts

    K = unitless(J) @ unitless(J).T

    def press(strength):
        return ((pseudo - ridge_left_out(K, pseudo, strength)) ** 2).mean()

    grid = np.trace(K) / 60 * np.logspace(-8, 4, 12 * 40 + 1)
    reached = np.array([press(strength) for strength in grid])
    assert not found["tangent_penalty_at_limit"]
    assert (
        abs(np.log10(found["tangent_penalty"] / grid[reached.argmin()])) <= 0.125 + 1 / 40
    )  # finest step, and the grid's
    assert press(found["tangent_penalty"]) <= reached.min() * 1.005


def test_new_inputs_are_predicted_by_the_refitted_tangent(brief):
    net, X, y, J, pseudo = brief
    found = evidence(Linearised(l2=2.0), net, X, y)
    new = table(5, seed=9)[0]
    u = np.linalg.solve(J.T @ J + 2.0 * np.eye(J.shape[1]), J.T @ pseudo)
    theta, J_new = oracles.flat(net), oracles.output_jacobian(net, new)[:, 0]
    wanted = oracles.predict_at(net, theta, new)[:, 0] + J_new @ (u - theta)
    np.testing.assert_allclose(found.honest(torch.tensor(new))[:, 0], wanted, rtol=1e-8, atol=1e-8)


def refits(J, pseudo, strength, unit, weight, k=1):
    """Solve the ridge problem again without each unit: what it says of ỹ there, (n, k)."""
    wide, targets = J.reshape(len(unit), k, -1), pseudo.reshape(len(unit), k)
    found = np.empty_like(targets)
    for own in np.unique(unit):
        kept, rest = wide[unit != own].reshape(-1, J.shape[1]), targets[unit != own].reshape(-1)
        w = np.repeat(weight[unit != own], k)
        u = np.linalg.solve((w[:, None] * kept).T @ kept + strength * np.eye(J.shape[1]), kept.T @ (w * rest))
        found[unit == own] = wide[unit == own] @ u
    return found


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_squared_error_equals_real_refits(outputs, grouped, weighted):
    X, y = table(40, outputs=outputs)
    net = trained(network(outputs=outputs), X, y)
    J, pseudo = tangent(net, X, y)
    unit = np.arange(40) % 13 if grouped else np.arange(40)
    weight = 1.0 + (np.arange(40) % 3) if weighted else np.ones(40)
    columns = ({"group": unit} if grouped else {}) | ({"weight": weight} if weighted else {})
    found = evidence(Linearised(l2=0.7), net, X, y, **columns)
    missed = pseudo.reshape(40, outputs) - refits(J, pseudo, 0.7, unit, weight, outputs)
    np.testing.assert_allclose(found.prediction, y - missed, rtol=1e-8, atol=1e-8)
    chosen = evidence(Linearised(), net, X, y, **columns)
    missed = pseudo.reshape(40, outputs) - refits(
        unitless(J), pseudo, chosen.facts["tangent_penalty"], unit, weight, outputs
    )
    np.testing.assert_allclose(chosen.prediction, y - missed, rtol=1e-8, atol=1e-8)


def test_a_row_of_weight_two_is_a_pair_of_rows_that_leave_together(brief):
    net, X, y, _, _ = brief
    weight = 1.0 + (np.arange(60) < 10)
    twice = np.concatenate([np.arange(60), np.arange(10)])
    one = evidence(Linearised(l2=0.7), net, X, y, weight=weight)
    other = evidence(Linearised(l2=0.7), net, X[twice], y[twice], group=twice)
    np.testing.assert_allclose(other.prediction[:60], one.prediction, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(other.prediction[60:], one.prediction[:10], rtol=1e-8, atol=1e-8)


@given(st.integers(0, 59), st.floats(-100, 100), st.booleans())
@settings(max_examples=8)
def test_what_is_said_of_a_unit_does_not_depend_on_its_own_targets(brief, row, change, grouped):
    net, X, y, _, _ = brief
    unit = np.arange(60) // (4 if grouped else 1)
    poisoned = y + change * (unit == unit[row])[:, None]
    columns = {"group": unit} if grouped else {}
    one, other = (evidence(Linearised(l2=0.7), net, X, targets, **columns).prediction for targets in (y, poisoned))
    own = unit == unit[row]
    np.testing.assert_allclose(other[own], one[own], rtol=1e-8, atol=1e-8 * (1 + abs(change)))
    if abs(change) > 1:
        assert float((other[~own] - one[~own]).abs().max()) > 1e-6 * abs(change)


def test_a_strong_penalty_leaves_the_tangent_at_its_centre():
    X, y = table(40)
    start = network()
    net = trained(copy.deepcopy(start), X, y)
    centred = evidence(Linearised(l2=1e12), net, X, y, settings={"centre": start})
    J, moved = oracles.output_jacobian(net, X)[:, 0], oracles.flat(net) - oracles.flat(start)
    wanted = oracles.predict_at(net, oracles.flat(net), X)[:, 0] - J @ moved
    np.testing.assert_allclose(centred.prediction[:, 0], wanted, rtol=1e-8, atol=1e-8)
    J, pseudo = tangent(net, X, y, oracles.flat(start))
    found = evidence(Linearised(), net, X, y, settings={"centre": start})
    K = unitless(J) @ unitless(J).T
    wanted = y[:, 0] - pseudo + ridge_left_out(K, pseudo, found.facts["tangent_penalty"])
    np.testing.assert_allclose(found.prediction[:, 0], wanted, rtol=1e-8, atol=1e-8)


# The refitted tangent, logistic loss


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_yes_or_no_is_close_to_real_refits(grouped, settled, monkeypatch):
    X, y = table(50, p=2)
    y = (y[:, 0] > 0).astype(float)
    net = trained(network(p=2), X, y[:, None], loss=nn.functional.binary_cross_entropy_with_logits)
    unit = np.arange(50) // (2 if grouped else 1)
    if settled:  # at rest on all rows: what remains is the one step for each unit
        monkeypatch.setattr("rue.left_out.tangent.SETTLED", 1e-6)
        monkeypatch.setattr("rue.left_out.tangent.STEPS", 50)
    found = evidence(Linearised(l2=1.0), net, X, y, "bernoulli", **({"group": unit} if grouped else {}))
    theta, J = oracles.flat(net), oracles.output_jacobian(net, X)[:, 0]
    offset = oracles.predict_at(net, theta, X)[:, 0] - J @ theta

    def refit(kept):
        def value(u):
            f = offset[kept] + J[kept] @ u
            loss = np.logaddexp(0, f) - y[kept] * f
            slope = J[kept].T @ (1 / (1 + np.exp(-f)) - y[kept])
            return loss.sum() + 0.5 * u @ u, slope + u

        return minimize(value, theta, jac=True, method="BFGS", options={"gtol": 1e-7}).x

    without = np.array([offset[i] + J[i] @ refit(unit != unit[i]) for i in range(50)])
    own, wanted = (1 / (1 + np.exp(-values)) for values in (np.asarray(found.prediction[:, 0]), without))
    with_row = 1 / (1 + np.exp(-(offset + J @ refit(np.ones(50, bool)))))
    off, moved = np.abs(own - wanted), np.abs(with_row - wanted)
    assert off.max() < 2e-2
    assert off.mean() < (1e-3 if settled else 1e-2)
    if settled:
        assert off.mean() < 0.1 * moved.mean()


# Linear models on given features


@pytest.mark.parametrize("kind", ["numbers", "yes or no"])
def test_a_refit_is_that_of_scikit_learn_under_the_penalty_it_states(kind):
    generator = np.random.default_rng(0)
    Z, weight = generator.normal(size=(40, 3)), generator.uniform(0.5, 2, size=40)
    Z = Z @ np.linalg.svd(np.sqrt(weight)[:, None] * Z)[2].T  # coordinates in which Σ w zzᵀ is diagonal
    said = Z @ [1.0, -1.0, 0.5] + generator.logistic(size=40)
    y = said if kind == "numbers" else (said > 0).astype(float)
    loss = squared_error() if kind == "numbers" else bernoulli()
    inputs = {"offset": torch.zeros(40, 1).double(), "features": torch.tensor(Z)[:, None]}
    batch = Batch(inputs, torch.tensor(y)[:, None], torch.tensor(weight), slice(0, 40))
    rows = FeatureRows((batch,), torch.tensor(weight), torch.arange(40), 40)
    found = best_refit(SimpleNamespace(family=loss.family, loss=loss), rows, torch.tensor(weight @ Z**2))

    def fitted(strength, kept):
        if kind == "numbers":
            model = Ridge(strength, fit_intercept=False)
        else:
            model = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-8)
        return model.fit(Z[kept], y[kept], sample_weight=weight[kept]).coef_.ravel()

    def left_out(strength):
        return np.array([Z[i] @ fitted(strength, np.arange(40) != i) for i in range(40)])

    def cost(said):
        each = 0.5 * (said - y) ** 2 if kind == "numbers" else np.logaddexp(0, said) - y * said
        return np.average(each, weights=weight)

    strength, close = found.model.strength, 1e-8 if kind == "numbers" else 5e-3  # one step is exact for numbers only
    np.testing.assert_allclose(found.model.theta, fitted(strength, np.ones(40, bool)), atol=close)
    without = left_out(strength)
    by_step = found.left.prediction[:, 0].numpy()
    assert np.abs(by_step - without).mean() < close
    assert found.loss == pytest.approx(cost(by_step), rel=1e-9)
    assert all(cost(without) <= cost(left_out(times * strength)) for times in (0.3, 3.0))
    assert found.left.residual < 1e-12
    assert not found.limit


@given(
    st.lists(st.integers(1, 6), min_size=3, max_size=12).filter(lambda sizes: sum(sizes) > len(sizes)),
    st.integers(1, 60),
    st.integers(0, 100),
)
def test_some_units_are_whole_and_no_more_rows_than_asked_for_but_two(sizes, most, seed):
    unit = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    data = SimpleNamespace(n=len(unit), unit=torch.tensor(unit), units=len(sizes))
    chosen = some_units(data, most, seed).numpy()
    drawn = set(unit[chosen])
    assert not drawn & set(unit[~chosen])
    assert len(drawn) >= 2
    if len(unit) <= most:
        assert chosen.all()
    else:
        assert chosen.sum() <= most or len(drawn) == 2
        assert chosen.sum() > most - max(sizes) or len(drawn) == 2  # one more unit would be too many


# At rest


@pytest.mark.parametrize("strength", [0.0, 2.0])
def test_the_distance_from_rest_is_plain_arithmetic_where_the_curvature_is_diagonal(strength):
    generator = np.random.default_rng(0)
    theta, whole, drawn, h = (generator.normal(size=shape) for shape in (4, 4, (9, 4), 4))
    theta[1], h = 0, np.exp(h)
    model = Affine(None, torch.tensor(theta), strength)
    gradients, inverse = Reweighted(torch.tensor(whole), torch.tensor(drawn)), Diagonal(torch.tensor(h))
    found = distance(model, gradients, inverse)

    def size(factor):
        return ((whole + factor * theta) ** 2 / h).sum()

    best = minimize_scalar(size, options={"xtol": 1e-12})
    typical = (drawn**2 / h).sum(1).mean()
    assert found.stated == (strength > 0)
    assert found.decrement == pytest.approx(size(strength), rel=1e-9)
    assert found.steps == pytest.approx(np.sqrt(size(strength) / typical), rel=1e-9)
    assert found.factor == pytest.approx(best.x / (strength or 1.0), rel=1e-6)
    assert found.share == pytest.approx(1 - best.fun / size(strength), rel=1e-6)
    pull = torch.tensor(strength * theta)
    wanted = np.linalg.norm(whole + strength * theta) / np.sqrt((drawn**2).sum(1).mean())
    assert raw_steps(gradients, pull) == pytest.approx(wanted, rel=1e-9)

    rigid = Reweighted(torch.tensor(whole), torch.zeros(9, 4).double())  # rows alike: resampling moves nothing
    assert distance(model, rigid, inverse).steps == raw_steps(rigid, pull) == np.inf
    rest = Reweighted(-pull, rigid.drawn)
    assert distance(model, rest, inverse).steps == raw_steps(rest, pull) == 0
    assert distance(model, rest, inverse).share == 0


@pytest.mark.parametrize("grouped", [False, True])
def test_resampled_gradients_are_those_of_whole_units_drawn_with_replacement(grouped):
    net = nn.Linear(6, 1, bias=False).double()
    nn.init.zeros_(net.weight)
    unit = np.array([0, 1, 0, 2, 1, 2]) if grouped else np.arange(6)
    data = rue.Data(np.eye(6), -np.ones(6), group=unit)  # the gradient of row i is the i-th unit vector
    rows, model = training_rows(data, rue.wrap(net, loss="squared_error"))
    found = reweighted(model, rows, 0)
    times = found.drawn.numpy() + 1
    np.testing.assert_array_equal(found.whole, np.ones(6))
    assert times.shape == (DRAWS, 6)
    np.testing.assert_array_equal(times, np.round(times))
    assert (times >= 0).all()
    assert (times.sum(1) == 6).all()
    np.testing.assert_array_equal(times, times[:, [np.flatnonzero(unit == own)[0] for own in unit]])


class Power(nn.Module):
    """Features times a power of the parameters."""

    def __init__(self, power, unit):
        super().__init__()
        self.theta, self.power, self.unit = nn.Parameter(torch.tensor([1.0, 0.0, -2.0])), power, unit

    def forward(self, x):
        return self.unit * x.sin() @ self.theta**self.power


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("power", [1, 2])
def test_whether_a_model_is_linear_in_its_parameters_does_not_depend_on_units(power, unit):
    X, y = table(30)
    X[0] = 0  # an output of zero
    rows, model = training_rows((X.astype("f"), y.astype("f")), rue.wrap(Power(power, unit), loss="squared_error"))
    assert is_linear(model, rows) == (power == 1)


def at_rest(n, hidden=4):
    """A softplus net at the minimum under an l2 of one, and its n rows."""
    X, y = table(n, p=2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, hidden), nn.Softplus(), nn.Linear(hidden, 1)).double()
    inputs, targets = torch.tensor(X), torch.tensor(y)
    optimiser = torch.optim.LBFGS(
        net.parameters(), max_iter=5000, tolerance_grad=1e-13, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        value = 0.5 * (net(inputs) - targets).square().sum()
        value = value + 0.5 * sum(parameter.square().sum() for parameter in net.parameters())
        value.backward()
        return value

    optimiser.step(closure)
    for _ in range(6):  # Newton's method, where the line search has come to its end
        closure()
        g = torch.cat([parameter.grad.flatten() for parameter in net.parameters()]).numpy()
        if np.linalg.norm(g) < 1e-10:
            return net, X, y
        H = oracles.hessian(net, lambda f, t: 0.5 * (f - t).square().sum(-1), X, y, 1.0)
        nn.utils.vector_to_parameters(torch.tensor(oracles.flat(net) - np.linalg.solve(H, g)), net.parameters())
    raise AssertionError("not at rest")


@pytest.fixture(scope="module")
def rested():
    return at_rest(120)


def both(rested, rule):
    net, X, y = rested
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    return rue.CalibratedRUE().fit(model, (X, y), left_out=rule)


def test_at_rest_the_refitted_tangent_is_the_model(rested):
    one, other = both(rested, Influence()), both(rested, Linearised(l2=1.0))
    a, b = (auditor.assess.known.evidence for auditor in (one, other))
    np.testing.assert_allclose(b.prediction, a.prediction, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(b.slope, a.slope, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(b.rest.left.reach[:], a.rest.left.reach[:], rtol=1e-8)
    np.testing.assert_allclose(b.rest.left.fitted, a.rest.left.fitted, rtol=1e-8, atol=1e-8)
    new = 1.5 * table(20, p=2, seed=5)[0]
    np.testing.assert_allclose(other.audit(new).std, one.audit(new).std, rtol=1e-7)


def test_a_model_at_rest_is_audited_by_influence(rested):
    net, X, y = rested
    stated = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (X, y))
    assert stated.facts["left_out"] == "influence at rest"
    asked = both(rested, Influence())
    np.testing.assert_array_equal(stated.audit(X[:9]).total_std, asked.audit(X[:9]).total_std)
    silent = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error"), (X, y))
    assert silent.facts["left_out"] == "influence at rest"
    assert silent.facts["l2_found"] == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(silent.audit(X[:9]).std, asked.audit(X[:9]).std, rtol=1e-3)
    assert stated.audit(X[:9]).interval().guarantee == asked.audit(X[:9]).interval().guarantee


def test_influence_is_never_taken_under_a_wrong_penalty(rested):
    net, X, y = rested
    wrong = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error", l2=30.0), (X, y))
    if wrong.facts["left_out"] == "influence at rest":  # only under the one that the parameters tell of
        assert wrong.facts["l2_found"] == pytest.approx(1.0, abs=1e-3)
        np.testing.assert_allclose(wrong.audit(X[:4]).std, both(rested, Influence()).audit(X[:4]).std, rtol=1e-3)
    else:
        assert wrong.facts["left_out"] in ("witness", "linearised and witness")
        assert "from rest" in wrong.facts["left_out_why"]


def test_left_out_rows_of_another_model_give_no_jackknife(rested):
    audit = both(rested, Mixture()).audit(rested[1][:4])
    with pytest.raises(rue.errors.SettingError, match=r"'jackknife\+'"):
        audit.interval(by="jackknife+")


def test_at_rest_but_crowded_a_model_that_is_not_linear_is_not_left_to_influence():
    net, X, y = at_rest(16, hidden=6)
    asked = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (X, y), left_out=Influence())
    assert 0.2 < asked.facts["effective_share"] < 1
    chosen = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (X, y))
    assert chosen.facts["left_out"] in ("witness", "linearised and witness")
    assert "at rest, but" in chosen.facts["left_out_why"]
    D = np.hstack([X, np.ones((16, 1)), X**2, X**3])  # as crowded, but linear
    linear = nn.Linear(D.shape[1], 1, bias=False).double()
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(np.linalg.solve(D.T @ D + 1e-3 * np.eye(7), D.T @ y).T))
    found = rue.CalibratedRUE().fit(rue.wrap(linear, loss="squared_error", l2=1e-3), (D, y))
    assert found.facts["effective_share"] > 0.2
    assert found.facts["left_out"] == "influence at rest"


# The witness


def kernel(a, b, shares, width):
    """1 + a linear, a wide and a narrow radial kernel."""
    apart = ((a[:, None] - b[None]) ** 2).sum(-1)
    linear, wide, narrow = shares
    return 1 + linear * a @ b.T / a.shape[1] + wide * np.exp(-apart / width) + narrow * np.exp(-4 * apart / width)


@pytest.mark.parametrize("seed", range(3))
def test_the_witness_is_kernel_ridge_regression_and_leaves_rows_out(seed):
    X, y = table(70, seed=seed)
    rows, model = training_rows((X, y), rue.wrap(network(), loss="squared_error"))
    found = witness(model, rows, 0)
    points = (X - X.mean(0)) / X.std(0)
    apart = ((points[:, None] - points[None]) ** 2).sum(-1)
    positive = np.sort(apart[apart > 0])
    assert found.says.kernel.width == pytest.approx(positive[(len(positive) - 1) // 2], rel=1e-12)
    K, centred = kernel(points, points, found.says.kernel.shares, found.says.kernel.width), y[:, 0] - y.mean()
    fitted = found.says(torch.tensor(X))[:, 0].numpy()

    def off(log_strength):
        return np.abs(K @ np.linalg.solve(K + np.exp(log_strength) * np.eye(70), centred) + y.mean() - fitted).max()

    start = min(np.linspace(-25, 15, 400), key=off)  # the penalty that was chosen is seen in the fit
    best = minimize_scalar(off, bounds=(start - 0.2, start + 0.2), method="bounded", options={"xatol": 1e-12})
    assert best.fun < 1e-6
    wanted = y.mean() + ridge_left_out(K, centred, np.exp(best.x))
    np.testing.assert_allclose(found.prediction[:, 0], wanted, rtol=1e-5, atol=1e-5)

    def press(strength):
        return ((centred - ridge_left_out(K, centred, strength)) ** 2).mean()

    grid = np.trace(K) / 70 * np.logspace(-8, 4, 241)
    assert press(np.exp(best.x)) <= 1.01 * min(map(press, grid))
    new = table(4, seed=9)[0]
    across = kernel((new - X.mean(0)) / X.std(0), points, found.says.kernel.shares, found.says.kernel.width)
    wanted = y.mean() + across @ np.linalg.solve(K + np.exp(best.x) * np.eye(70), centred)
    np.testing.assert_allclose(found.says(torch.tensor(new))[:, 0], wanted, rtol=1e-5, atol=1e-5)


def test_the_kernel_of_the_witness_is_the_one_with_the_least_left_out_error():
    X, y = table(70)
    rows, model = training_rows((X, y), rue.wrap(network(), loss="squared_error"))
    found = witness(model, rows, 0).says.kernel
    points, centred = (X - X.mean(0)) / X.std(0), y[:, 0] - y.mean()

    def least(shares):
        K = kernel(points, points, shares, found.width)
        grid = np.trace(K) / 70 * 10.0 ** np.arange(-6, 3)
        return min(((centred - ridge_left_out(K, centred, strength)) ** 2).mean() for strength in grid)

    for other in ((1, 0, 0), (0.8, 0.2, 0), (0, 1, 0), (0, 0.5, 0.5), (0, 0, 1)):
        assert least(found.shares) <= least(other) * (1 + 1e-9)


def blend(generator, X):
    """One output that is linear, one that is not, and one that is constant."""
    return np.stack([X[:, 0], np.sin(4 * X[:, 1]), np.ones(len(X))], axis=1) + [[0.2, 0.2, 0]] * generator.normal(
        size=(len(X), 3)
    )


@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), (0.1, 1e-4, 1.0), (1e-4, 0.1, 1.0), (3.0, 900.0, 1.0)])
@pytest.mark.parametrize("origin", [0.0, 1e4])
def test_every_output_has_the_same_say_in_the_kernel_whatever_its_unit_and_its_origin(units, origin):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    Y, weight = (blend(generator, X) + origin) * units, generator.uniform(0.2, 2, size=60)
    rows, model = training_rows(rue.Data(X, Y, weight), rue.wrap(network(p=2, outputs=3), loss="squared_error"))
    found = witness(model, rows, 0).says
    points, root = found.points.numpy(), np.sqrt(weight)
    centred = Y - np.average(Y, axis=0, weights=weight)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=weight))[:2]

    def least(shares):
        K = root[:, None] * kernel(points, points, shares, found.kernel.width) * root
        codes = root[:, None] * centred[:, :2] / spread
        grid = np.trace(K) / 60 * 10.0 ** np.arange(-6, 3)
        return min(
            sum(((code - ridge_left_out(K, code, strength)) ** 2).sum() for code in codes.T) for strength in grid
        )

    assert found.kernel.shares == min(MIXES, key=least)


def test_the_shares_of_every_kernel_sum_to_one():
    assert [sum(shares) for shares in MIXES] == pytest.approx([1.0] * len(MIXES), rel=1e-12)
    assert len(set(MIXES)) == len(MIXES)


def test_rows_beyond_the_size_of_a_witness_are_held_out_from_it():
    X, y = table(70)

    def told(y):
        rows, model = training_rows((X, y), rue.wrap(network(), loss="squared_error"))
        found = witness(model, rows, 0, Size(rows=30, compared=20, directions=100))
        return found.prediction[:, 0].numpy(), found.says(torch.tensor(X))[:, 0].numpy()

    left_out, fitted = told(y)
    outside = np.isclose(left_out, fitted, rtol=1e-9, atol=1e-9)
    assert outside.sum() == 40
    np.testing.assert_allclose(told(y + 100 * outside[:, None]), [left_out, fitted], rtol=1e-9)


def test_noise_is_not_predicted():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(200, 4)), generator.normal(size=(200, 1))
    rows, model = training_rows((X, y), rue.wrap(network(p=4), loss="squared_error"))
    found = witness(model, rows, 0)
    assert float((found.prediction[:, 0] - torch.tensor(y[:, 0])).square().mean()) > 0.95 * y.var()
    assert float(found.says(torch.tensor(generator.normal(size=(200, 4)))).std()) < 0.3 * y.std()


def test_rows_of_a_group_leave_the_witness_together():
    X, y = table(60)
    X, y, unit = np.repeat(X, 2, axis=0), np.repeat(y, 2, axis=0), np.repeat(np.arange(60), 2)
    rows, model = training_rows(rue.Data(X, y, group=unit), rue.wrap(network(), loss="squared_error"))
    found = witness(model, rows, 0)
    centred = y[:, 0] - y.mean()
    points = (X - X.mean(0)) / X.std(0)
    K = kernel(points, points, found.says.kernel.shares, found.says.kernel.width)
    fitted = found.says(torch.tensor(X))[:, 0].numpy()

    def off(log_strength):
        return np.abs(K @ np.linalg.solve(K + np.exp(log_strength) * np.eye(120), centred) + y.mean() - fitted).max()

    start = min(np.linspace(-25, 15, 400), key=off)
    strength = np.exp(minimize_scalar(off, bounds=(start - 0.2, start + 0.2), options={"xatol": 1e-12}).x)
    wanted = np.empty(120)
    for own in range(60):
        kept = unit != own
        solved = np.linalg.solve(K[np.ix_(kept, kept)] + strength * np.eye(118), centred[kept])
        wanted[~kept] = y.mean() + K[np.ix_(~kept, kept)] @ solved
    np.testing.assert_allclose(found.prediction[:, 0], wanted, rtol=1e-5, atol=1e-5)


# The mixture


def test_the_mixture_is_the_best_between_both_as_far_as_the_tangent_is_trusted(brief):
    net, X, y, J, _ = brief
    first, second = (evidence(rule, net, X, y) for rule in (Linearised(), KernelWitness()))
    found = evidence(Mixture(), net, X, y)
    a, b = (np.asarray(one.prediction[:, 0]) for one in (first, second))
    values = np.linalg.eigvalsh(unitless(J) @ unitless(J).T)
    crowding = (values / (values + found.facts["tangent_penalty"])).sum() / 60
    shares = np.linspace(0, 1, 2001)
    best = min(shares, key=lambda share: ((share * a + (1 - share) * b - y[:, 0]) ** 2).sum())
    share = min(best, max(0.0, 1 - 3 * crowding))
    assert found.facts["tangent_share"] == pytest.approx(share, abs=1e-3)
    mixed = found.facts["tangent_share"] * a + (1 - found.facts["tangent_share"]) * b
    np.testing.assert_allclose(found.prediction[:, 0], mixed, rtol=1e-9, atol=1e-9)
    new = torch.tensor(table(6, seed=4)[0])
    one, other = (float(found.facts["tangent_share"]) * first.honest(new), second.honest(new))
    wanted = one + (1 - found.facts["tangent_share"]) * other
    np.testing.assert_allclose(found.honest(new), wanted, rtol=1e-9, atol=1e-9)


def test_a_good_tangent_that_is_not_crowded_has_a_share():
    X, y = table(300, p=2)
    y = y + 3 * np.maximum(X[:, :1], 0)
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for parameter in net.parameters():
            nn.init.normal_(parameter)
    found = evidence(Mixture(), trained(net, X, y, epochs=400), X, y)
    assert 0 < found.facts["tangent_share"] <= 1
    crowded = trained(network(p=2, hidden=200), X[:40], y[:40], epochs=300)
    assert evidence(Mixture(), crowded, X[:40], y[:40]).facts["tangent_share"] < 0.5


def test_how_far_network_and_honest_model_disagree_is_part_of_the_total(brief):
    net, X, y, _, _ = brief
    new = 2 * table(15, seed=7)[0]
    auditor = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error"), (X, y))
    audit, spread = auditor.audit(new), auditor.assess
    apart = audit.prediction - spread.known.evidence.honest(torch.tensor(new))[:, 0].numpy()
    weights, noise = auditor.facts["weights"], auditor.facts["left_out_std"][0] ** 2
    assert weights["resampling"] == weights["neighbours"] == weights["scarcity"] == 0
    missed = np.abs(y - spread.known.evidence.prediction.numpy()).mean()
    described = np.hstack([(new - X.mean(0)) / X.std(0), audit.prediction[:, None] / missed])
    expected = spread.known.errors.scale[0] * spread.known.errors.forest(described.astype(np.float32))[:, 0] ** 2
    seen = weights["noise"] * noise + weights["error model"] * expected
    overall = max(noise, ((y[:, 0] - net(torch.tensor(X)).detach().numpy()[:, 0]) ** 2).mean())
    # no judge of inputs unlike its rows: above all residuals' size by its logarithm
    tame = overall * (1 + 0.5 * np.log(np.maximum(np.abs(apart) / np.sqrt(overall), 1)))
    counted = np.where(audit.scarce & (apart**2 > overall), tame, apart**2)
    assert (counted < apart**2).any()
    np.testing.assert_allclose(audit.total_std**2, seen + counted + audit.axes["scarcity"] ** 2, rtol=1e-6)
    assert (apart[~audit.scarce] ** 2 > 0.05 * seen[~audit.scarce]).any()
    assert (audit.axes["scarcity"][audit.scarce & (seen + counted > overall)] == 0).all()


def test_the_forest_sees_left_out_predictions(brief):
    net, X, y, _, _ = brief
    seen = []
    real = calibrated_rue.error_model
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            calibrated_rue, "error_model", lambda points, said, *rest: seen.append(said) or real(points, said, *rest)
        )
        auditor = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error"), (X, y))
    known = auditor.assess.known.evidence
    np.testing.assert_array_equal(seen[0], known.prediction)
    assert float((known.prediction - known.rest.left.fitted).abs().max()) > 1e-3


def test_intervals_reach_as_far_as_left_out_rows_were_missed(brief):
    net, X, y, _, _ = brief
    auditor = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error"), (X, y))
    audit = auditor.audit(X[:7])
    lower, upper, said = audit.interval(0.8)
    known, weights = auditor.assess.known, auditor.facts["weights"]
    spread = weights["noise"] * auditor.facts["left_out_std"][0] ** 2
    spread = spread + weights["error model"] * known.errors.out_of_bag[:, 0]
    scores = np.sort(np.abs(y - known.evidence.prediction.numpy())[:, 0] / np.sqrt(spread))
    reach = scores[int(np.ceil(round(0.8 * 61, 9))) - 1] * audit.total_std
    np.testing.assert_allclose(upper, audit.prediction + reach, rtol=1e-9)
    np.testing.assert_allclose(lower, audit.prediction - reach, rtol=1e-9)
    assert "not guaranteed" in said
    same = audit.interval(0.8, by="left-out ranks")
    np.testing.assert_array_equal(same.lower, lower)


# Invariances


def audited(net, X, y, new, rule=None, **columns):
    model, rows = rue.wrap(net, loss="squared_error"), rue.Data(X, y, **columns)
    return rue.CalibratedRUE().fit(model, rows, left_out=rule).audit(new)


@pytest.fixture(scope="module")
def usual():
    X, y = table(100)
    net, new = trained(network(hidden=8), X, y), 1.3 * table(40, seed=3)[0]
    audit = audited(net, X, y, new)
    assert audit.facts["left_out"] in ("witness", "linearised and witness")
    return net, X, y, new, audit


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_a_common_factor_of_all_weights_changes_nothing(usual, factor):
    net, X, y, new, wanted = usual
    found = audited(net, X, y, new, weight=np.full(100, factor))
    np.testing.assert_array_equal(found.scarce, wanted.scarce)
    np.testing.assert_allclose(found.total_std, wanted.total_std, rtol=1e-6)
    np.testing.assert_allclose(found.score, wanted.score, rtol=1e-6)


def scaled(net, inputs=1.0, outputs=1.0):
    """The same function of inputs in other units, its outputs in others."""
    other = copy.deepcopy(net)
    with torch.no_grad():
        other[0].weight /= torch.as_tensor(inputs)
        other[2].weight *= outputs
        other[2].bias *= outputs
    return other


UNITS = [1e-9, 1e-4, 1e4, 1e9]


@pytest.mark.parametrize("factor", UNITS)
@pytest.mark.parametrize("rule", [None, Linearised(), KernelWitness()])
def test_targets_in_another_unit_scale_everything(usual, factor, rule):
    net, X, y, new, _ = usual
    wanted, found = (audited(scaled(net, outputs=c), X, c * y, new, rule) for c in (1.0, factor))
    np.testing.assert_array_equal(found.scarce, wanted.scarce)
    for name in ("prediction", "std", "total_std", "score"):
        np.testing.assert_allclose(getattr(found, name), factor * getattr(wanted, name), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("factor", UNITS)
@pytest.mark.parametrize("rule", [None, Linearised(), KernelWitness()])
def test_inputs_in_other_units_change_nothing(usual, factor, rule):
    net, X, y, new, _ = usual
    factors = np.array([factor, 1.0, 1 / factor])
    wanted, found = (audited(scaled(net, c), X * c, y, new * c, rule) for c in (np.ones(3), factors))
    np.testing.assert_array_equal(found.scarce, wanted.scarce)
    for name in ("prediction", "std", "total_std", "score"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-5, err_msg=name)


def test_all_units_of_parameters_changed_together_change_nothing(usual):
    """A net with parameters c times as small, and inputs of every layer multiplied by c, has gradients c times."""
    net, X, y, _, _ = usual

    class Times(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.c, self.inner = c, copy.deepcopy(net)
            with torch.no_grad():
                for parameter in self.inner.parameters():
                    parameter /= c

        def forward(self, x):
            first, bend, last = self.inner
            return self.c * last(bend(self.c * first(x)))

    one, other = evidence(Mixture(), net, X, y), evidence(Mixture(), Times(1e3), X, y)
    np.testing.assert_allclose(other.prediction, one.prediction, rtol=1e-8, atol=1e-8)
    assert other.facts["tangent_penalty"] == pytest.approx(one.facts["tangent_penalty"], rel=1e-6)


def test_the_order_of_rows_changes_no_more_than_the_forests_randomness(usual):
    net, X, y, new, wanted = usual
    order = np.random.default_rng(0).permutation(100)
    turned, plain = evidence(Mixture(), net, X[order], y[order]), evidence(Mixture(), net, X, y)
    np.testing.assert_allclose(turned.prediction, plain.prediction[order], rtol=1e-2, atol=1e-3)  # the width, as above
    one, other = evidence(Linearised(), net, X[order], y[order]), evidence(Linearised(), net, X, y)
    np.testing.assert_allclose(one.prediction, other.prediction[order], rtol=1e-8, atol=1e-8)
    ratio = audited(net, X[order], y[order], new).total_std / wanted.total_std
    assert np.median(ratio) == pytest.approx(1, abs=0.05)  # trees draw rows by their place: another forest


def test_the_same_seed_gives_the_same_bits(usual):
    net, X, y, new, wanted = usual
    again = audited(net, X, y, new)
    for name in ("prediction", "std", "total_std", "score"):
        np.testing.assert_array_equal(getattr(again, name), getattr(wanted, name))
    one, other = wanted.interval(0.9), again.interval(0.9)
    np.testing.assert_array_equal(one.lower, other.lower)


@pytest.mark.parametrize("rule", [None, Linearised(), KernelWitness(), Mixture(), Influence()])
def test_the_module_is_left_as_it_was(usual, rule):
    net, X, y, _, _ = usual
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.random.get_rng_state()
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    rue.CalibratedRUE().fit(model, (X, y), left_out=rule).audit(X[:3])
    with pytest.raises(rue.errors.RueError):
        rue.CalibratedRUE().fit(model, (X, np.where(np.arange(100)[:, None] == 3, np.nan, y)), left_out=rule)
    with pytest.raises(rue.errors.RueError):
        rue.ClassifierRUE().fit(model, (X, y), left_out=rule)
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.requires_grad and parameter.grad is not None for parameter in net.parameters())
    assert net.training
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_module_is_left_as_it_was_where_the_evidence_fails(usual):
    net, X, y, _, _ = usual
    before = copy.deepcopy(net.state_dict())

    class Failing:
        def gather(self, model, data, own, seed, training=None):
            Mixture().gather(model, data, own, seed, training)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error"), (X, y), left_out=Failing())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


# Classes


@pytest.fixture(scope="module")
def saturated():
    """A net that has learnt noisy labels by heart, its audit, and fresh rows."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1150, 4))
    clean = (X[:, 0] + X[:, 1] ** 2 > 0.7).astype(int) + (X[:, 0] > 1)
    y = np.where(generator.random(1150) < 0.2, generator.integers(0, 3, 1150), clean)
    net = trained(network(p=4, hidden=24, outputs=3), X[:150], y[:150], 300, nn.functional.cross_entropy, 2e-2)
    auditor = rue.ClassifierRUE().fit(rue.wrap(net, loss="cross_entropy"), (X[:150], y[:150]))
    return net, X[:150], y[:150], auditor, auditor.audit(X[150:]), X[150:], y[150:]


def test_averaged_probabilities_are_better_than_those_of_a_saturated_net(saturated):
    net, X, y, auditor, audit, new, fresh = saturated
    with torch.no_grad():
        outputs = net(torch.tensor(new))
        assert (net(torch.tensor(X)).argmax(1).numpy() == y).mean() > 0.95
    assert auditor.facts["left_out"] in ("witness", "linearised and witness")
    np.testing.assert_allclose(audit.own_probability, outputs.softmax(1), rtol=1e-9, atol=1e-12)
    own = -np.log(audit.own_probability[np.arange(1000), fresh]).mean()
    assert -audit.log_prob(fresh).mean() < own - 0.2
    np.testing.assert_array_equal(audit.label, outputs.argmax(1).numpy())
    np.testing.assert_allclose(audit.score, 1 - audit.probability[np.arange(1000), audit.label], rtol=1e-9)
    np.testing.assert_allclose(audit.probability.sum(1), 1, rtol=1e-9)
    assert audit.score.mean() == pytest.approx((audit.label != fresh).mean(), abs=0.1)


def test_the_same_seed_gives_the_same_classes(saturated):
    net, X, y, _, audit, new, _ = saturated
    again = rue.ClassifierRUE().fit(rue.wrap(net, loss="cross_entropy"), (X, y)).audit(new)
    np.testing.assert_array_equal(again.probability, audit.probability)
    np.testing.assert_array_equal(again.score, audit.score)


def test_classes_have_real_left_out_predictions(saturated):
    """Labels of rows that are left out cannot be known to a model without them: their loss is that of fresh rows."""
    _, X, y, auditor, _, new, fresh = saturated
    found = auditor.facts
    rows, model = training_rows((X, y), auditor.model)
    seen = Mixture().gather(model, rows, None, 0)
    assert seen.loss == pytest.approx(found["left_out_loss"], rel=1e-9)
    with torch.no_grad():
        outside = nn.functional.cross_entropy(seen.honest(torch.tensor(new)), torch.tensor(fresh))
    assert seen.loss == pytest.approx(float(outside), abs=0.15)


def test_classes_are_mixed_by_their_probabilities(saturated):
    _, X, y, auditor, _, new, _ = saturated
    rows, model = training_rows((X[:60], y[:60]), auditor.model)  # fewer are faster, and any will do
    first, second, found = (rule.gather(model, rows, None, 0) for rule in (Linearised(), KernelWitness(), Mixture()))
    share = found.facts["tangent_share"]
    at = torch.tensor(new[:20])
    for seen in (lambda one: one.prediction, lambda one: one.honest(at)):
        a, b, both = (seen(one).softmax(1).numpy() for one in (first, second, found))
        np.testing.assert_allclose(both, share * a + (1 - share) * b, rtol=1e-8, atol=1e-10)


def test_a_tangent_that_is_better_has_the_larger_share_of_classes():
    """Labels that are the net's own, of inputs whose axes say little: its tangent knows, the witness does not."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(160, 3))
    logit = 4 * np.sin(3 * X[:, 0] * X[:, 1] + X[:, 2])
    y = (generator.random(160) < 1 / (1 + np.exp(-logit))).astype(int)

    class Few(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([0.0, 3.0], dtype=torch.float64))

        def forward(self, x):
            wave = torch.sin(3 * x[:, :1] * x[:, 1:2] + x[:, 2:])
            return torch.cat([0 * wave, self.weight[0] + self.weight[1].square() / 2 * wave], dim=1)

    found = evidence(Mixture(), Few(), X, y, "cross_entropy")
    assert found.facts["tangent_share"] > 0.8
    first, second = (evidence(rule, Few(), X, y, "cross_entropy").loss for rule in (Linearised(), KernelWitness()))
    assert first < second - 0.1
    assert found.loss < second - 0.1


# What an independent trial found


def test_hubers_loss_in_single_precision_needs_no_penalty():
    X, y = table(60)
    net = trained(network(), X, y).float()
    X, y = X.astype(np.float32), y[:, 0].astype(np.float32)
    audit = rue.audit(net, train=(X, y), inputs=X[:5], loss=nn.HuberLoss())
    assert np.isfinite(audit.std).all()


def test_the_order_of_rows_changes_nothing_that_is_seen(usual):
    net, X, y, new, wanted = usual
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_allclose(audited(net, X[order], y[order], new).total_std, wanted.total_std, rtol=0.01)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_kernel_of_the_witness_does_not_know_the_units_of_outputs(unit):
    X, y = table(80, outputs=2)
    net = trained(network(outputs=2), X, y)
    units = np.array([unit, 1.0])
    with torch.no_grad():
        other = copy.deepcopy(net)
        other[2].weight *= torch.tensor(units)[:, None]
        other[2].bias *= torch.tensor(units)
    one, another = (evidence(Mixture(), *case).facts for case in ((net, X, y), (other, X, y * units)))
    assert one["witness_kernel"] == another["witness_kernel"]


def test_one_output_that_is_off_does_not_hide_behind_another_of_larger_units():
    X, y = table(80, outputs=2)
    net = trained(network(outputs=2), X, y)
    units = np.array([1e6, 1.0])
    with torch.no_grad():
        net[2].weight *= torch.tensor(units)[:, None]
        net[2].bias *= torch.tensor(units)
        net[2].bias[1] += 50
    with pytest.raises(rue.errors.RueError, match="not the targets it was trained on"):
        audited(net, X, y * units, X[:5])


class Ids(nn.Module):
    """Two ids through an embedding: numbers to a kernel, which cannot learn from them."""

    def __init__(self):
        super().__init__()
        self.code, self.last = nn.Embedding(20, 8), nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.last(self.code(x).flatten(1))


def test_a_witness_that_learns_nothing_leaves_it_to_the_tangent_with_a_warning():
    generator = np.random.default_rng(2)
    ids, (a, b) = generator.integers(0, 20, (900, 2)), generator.normal(size=(2, 20))
    y = (a[ids[:, 0]] + b[ids[:, 1]] + 0.3 * generator.normal(size=900))[:, None]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = trained(Ids().double(), ids[:400], y[:400], epochs=200)
    model = rue.wrap(net, loss="squared_error")
    with pytest.warns(rue.errors.RueWarning, match="expected errors rest on the tangent"):
        audit = rue.CalibratedRUE().fit(model, (ids[:400], y[:400])).audit(ids[400:])
    assert audit.facts["tangent_share"] > 0.5
    assert (
        0.7 < np.sqrt((audit.total_std**2).mean() / ((audit.prediction - y[400:, 0]) ** 2).mean()) < 2
    )  # by the witness alone 4


@pytest.mark.parametrize("rule", [Mixture, "witness", object()])
def test_a_rule_that_is_none_is_refused(usual, rule):
    net, X, y, new, _ = usual
    with pytest.raises(rue.errors.RueError, match=r"such as left_out=rue.left_out.Mixture\(\)"):
        audited(net, X, y, new, rule)


def test_validation_rows_in_other_units_are_warned_of(usual):
    net, X, y, _, _ = usual
    model, (A, b) = rue.wrap(net, loss="squared_error"), table(50, seed=8)
    with pytest.warns(rue.errors.RueWarning, match="times what the training rows led to expect"):
        found = rue.CalibratedRUE().fit(model, (X, y), validation=(A, 77 * b + 152))
    assert any("led to expect" in text for text in found.facts["warnings"])
    for bad, said in (((A[:1], b[:1]), "validation has 1 rows"), (A, "expected a pair")):
        with pytest.raises(rue.errors.RueError, match=said):
            rue.CalibratedRUE().fit(model, (X, y), validation=bad)


@pytest.mark.parametrize("decision", ["largest", "signs"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_probabilities_of_a_mixture_are_the_mixture_of_probabilities(decision, share):
    first, second = (
        torch.randn(6, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in (0, 1)
    )
    shares = [probability(decision, part) for part in (mixed(decision, first, second, share), first, second)]
    torch.testing.assert_close(shares[0], share * shares[1] + (1 - share) * shares[2])


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_share_of_a_model_is_that_of_least_squares_in_units_of_each_output(unit):
    """By the normal equation, with each output divided by the second model's weighted sum of squares."""
    draw = np.random.default_rng(0)
    targets, first, second = (draw.normal(size=(30, 2)) for _ in range(3))
    first, second = targets + 0.8 * first, targets + second
    weight = draw.uniform(0.5, 2, 30)
    size = np.sqrt(weight @ (targets - second) ** 2)
    apart, missed = (first - second) / size, (targets - second) / size
    best = np.average(apart * missed, axis=0, weights=weight).sum() / np.average(apart**2, axis=0, weights=weight).sum()
    scale = torch.tensor([unit, 1.0], dtype=torch.float64)
    parts = [torch.tensor(part) * scale for part in (first, second, targets)]
    assert share_of_first(None, *parts, torch.tensor(weight)) == pytest.approx(best)
    assert 0 < best < 1


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_raw_steps_have_no_units(unit):
    """The root of a squared length over the mean of others, whatever the loss is measured in."""
    draw = np.random.default_rng(0)
    drawn, whole, pull = draw.normal(size=(7, 5)), draw.normal(size=5), draw.normal(size=5)
    wanted = np.sqrt(((whole + pull) ** 2).sum() / (drawn**2).sum(1).mean())
    gradients = Reweighted(torch.tensor(unit * whole), torch.tensor(unit * drawn))
    assert raw_steps(gradients, torch.tensor(unit * pull)) == pytest.approx(wanted)


def test_rows_without_weight_teach_a_forest_nothing():
    """Twice the weight for all others: their targets are what counts, also where no weight is one."""
    draw = np.random.default_rng(0)
    rows_in, targets = draw.normal(size=(80, 2)), draw.normal(size=80)
    weight = np.where(np.arange(80) % 4 == 0, 0.0, 2.0)
    says = []
    for spoilt in (targets, np.where(weight == 0, 1e3, targets)):
        model = rue.wrap(nn.Linear(2, 1).double(), loss="squared_error")
        rows, bound = training_rows(rue.Data(rows_in, spoilt, weight=weight), model)
        batch = next(rows.batches())
        grown = forest_witness(bound, rows, 0).says
        says.append(grown(batch.inputs).numpy()[weight > 0])
    assert np.abs(says[1]).max() < 10
    assert np.corrcoef(says[0][:, 0], targets[weight > 0])[0, 1] > 0.7
