"""The oracles against something else still: finite differences, statsmodels, refits, every resample."""

import copy
import itertools

import numpy as np
import pytest
import statsmodels.api as sm
import torch
from numpy.testing import assert_allclose
from torch import nn

import oracles


def squared_error(outputs, targets):
    return 0.5 * ((outputs - targets) ** 2).sum(dim=1)


def cross_entropy(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def logistic_loss(outputs, targets):
    return nn.functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none")[:, 0]


class Constant(nn.Module):
    """f(x) = θ: its squared-error fit is the sample mean."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.tensor([float(value)], dtype=torch.float64))

    def forward(self, X):
        return self.value.expand(len(X), 1)


class Tied(nn.Module):
    """One square layer used twice, one parameter frozen, one never used."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2).double()
        self.second = self.first
        self.first.bias.requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, X):
        return self.second(torch.tanh(self.first(X)))


def small_network(outputs):
    return nn.Sequential(nn.Linear(2, 3), nn.Softplus(), nn.Linear(3, outputs)).double()


def linear_with(coefficients):
    """A Linear layer whose flat parameters are (p,) slopes, then the intercept."""
    layer = nn.Linear(len(coefficients) - 1, 1).double()
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(coefficients[:-1]).reshape(1, -1))
        layer.bias.fill_(float(coefficients[-1]))
    return layer


def with_intercept(X):
    """The design (n, p + 1) in the order of `linear_with`."""
    return np.column_stack([X, np.ones(len(X))])


def central_difference(function, theta, step=1e-5):
    """Derivative of an array-valued function, the parameters on the last axis."""
    slopes = []
    for j in range(len(theta)):
        shift = np.zeros(len(theta))
        shift[j] = step
        slopes.append((function(theta + shift) - function(theta - shift)) / (2 * step))
    return np.stack(slopes, axis=-1)


def losses_at(module, loss, X, y, theta):
    return loss(torch.as_tensor(oracles.predict_at(module, theta, X)), y).numpy()


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def generator():
    return np.random.default_rng(0)


@pytest.fixture(params=["regression", "two outputs", "classes", "tied"])
def case(request):
    """(module, loss, X, y) away from any optimum."""
    X = torch.randn(6, 2, dtype=torch.float64)
    pairs = torch.randn(6, 2, dtype=torch.float64)
    return {
        "regression": (small_network(1), squared_error, X, pairs[:, :1]),
        "two outputs": (small_network(2), squared_error, X, pairs),
        "classes": (small_network(3), cross_entropy, X, torch.tensor([0, 1, 2, 0, 1, 1])),
        "tied": (Tied(), squared_error, X, pairs),
    }[request.param]


@pytest.fixture
def regression(generator):
    """Heteroscedastic linear data: X (40, 2), y (40,), X_new (5, 2)."""
    X = generator.normal(size=(40, 2))
    y = X @ [1.0, -2.0] + 0.5 + generator.normal(size=40) * (0.5 + np.abs(X[:, 0]))
    return X, y, generator.normal(size=(5, 2))


# Parameters and predictions


def test_predicting_at_the_own_parameters_gives_the_modules_outputs(case):
    module, _, X, _ = case
    assert_allclose(oracles.predict_at(module, oracles.flat(module), X), module(X).detach().numpy())


def test_a_shared_parameter_is_counted_once():
    assert len(oracles.flat(Tied())) == 4 + 2 + 1


def test_the_module_is_left_as_it_was(case):
    module, loss, X, y = case
    module.train()
    before = copy.deepcopy(module.state_dict())
    free = [p.requires_grad for p in module.parameters()]
    oracles.predict_at(module, oracles.flat(module) + 1.0, X)
    oracles.hessian(module, loss, X, y, l2=0.1)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert [p.requires_grad for p in module.parameters()] == free
    assert all(p.grad is None for p in module.parameters())
    assert module.training


def test_a_single_precision_module_is_read_in_double_precision():
    module = small_network(1).float()
    X = torch.randn(3, 2)
    expected = copy.deepcopy(module).double()(X.double()).detach().numpy()
    assert_allclose(oracles.predict_at(module, oracles.flat(module), X), expected, rtol=1e-14)


def test_dropout_is_off():
    module = nn.Sequential(nn.Linear(2, 50), nn.Dropout(0.5)).double().train()
    X = torch.randn(3, 2, dtype=torch.float64)
    theta = oracles.flat(module)
    assert_allclose(oracles.predict_at(module, theta, X), oracles.predict_at(module, theta, X), rtol=0)


# Derivatives


def test_gradients_are_finite_differences_of_the_weighted_losses(case, generator):
    module, loss, X, y = case
    weight = generator.uniform(0.5, 2.0, size=len(X))
    slopes = central_difference(lambda t: weight * losses_at(module, loss, X, y, t), oracles.flat(module))
    assert_allclose(oracles.gradient_matrix(module, loss, X, y, weight), slopes.T, atol=1e-8)


def test_gradients_without_weights_have_weight_one(case):
    module, loss, X, y = case
    assert_allclose(
        oracles.gradient_matrix(module, loss, X, y),
        oracles.gradient_matrix(module, loss, X, y, np.ones(len(X))),
        rtol=0,
    )


def test_the_jacobian_is_a_finite_difference_of_the_outputs(case):
    module, _, X, _ = case
    slopes = central_difference(lambda t: oracles.predict_at(module, t, X), oracles.flat(module))
    assert_allclose(oracles.output_jacobian(module, X), slopes, atol=1e-8)


def test_the_hessian_is_a_second_difference_of_the_objective(case, generator):
    module, loss, X, y = case
    weight = generator.uniform(0.5, 2.0, size=len(X))

    def objective(theta):
        return weight @ losses_at(module, loss, X, y, theta) + 0.5 * 0.3 * theta @ theta

    def slope(theta):
        return central_difference(objective, theta, step=1e-3)

    curvature = central_difference(slope, oracles.flat(module), step=1e-3)
    assert_allclose(oracles.hessian(module, loss, X, y, 0.3, weight), curvature, atol=1e-4)


def test_the_hessian_of_a_linear_loss_is_the_penalty_alone():
    X, y = torch.randn(3, 2, dtype=torch.float64), torch.zeros(3, 1)
    H = oracles.hessian(nn.Linear(2, 1), lambda outputs, _: outputs[:, 0], X, y, l2=0.7)
    assert_allclose(H, 0.7 * np.eye(3))


def test_the_loss_curvature_of_softmax_is_diag_p_minus_pp():
    module, X, y = small_network(3), torch.randn(4, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 1])
    p = torch.softmax(module(X), dim=1).detach().numpy()
    expected = np.stack([np.diag(row) - np.outer(row, row) for row in p])
    assert_allclose(oracles.loss_output_hessian(module, cross_entropy, X, y), expected, atol=1e-14)


def test_the_loss_curvature_of_squared_error_is_the_identity(case):
    module, _, X, _ = case
    k = module(X).shape[1]
    curvature = oracles.loss_output_hessian(module, squared_error, X, torch.zeros(len(X), k))
    assert_allclose(curvature, np.broadcast_to(np.eye(k), curvature.shape))


def test_gauss_newton_is_the_hessian_of_a_model_linear_in_its_parameters(generator):
    module, X, y = nn.Linear(2, 3), torch.randn(5, 2), torch.tensor([0, 1, 2, 1, 0])
    weight = generator.uniform(0.5, 2.0, size=5)
    arguments = (module, cross_entropy, X, y, 0.3, weight)
    assert_allclose(oracles.gauss_newton(*arguments), oracles.hessian(*arguments), atol=1e-13)


def test_gauss_newton_is_the_hessian_of_a_network_without_residuals(generator):
    module, X = small_network(2), torch.randn(5, 2, dtype=torch.float64)
    weight = generator.uniform(0.5, 2.0, size=5)
    arguments = (module, squared_error, X, module(X).detach(), 0.3, weight)
    assert_allclose(oracles.gauss_newton(*arguments), oracles.hessian(*arguments), atol=1e-13)


# Ensembles


def test_algorithm_1_on_the_sample_mean_is_exactly_the_bootstrap(generator):
    y = generator.exponential(size=9)
    weights = generator.multinomial(9, np.full(9, 1 / 9), size=30)
    bootstrap_means = np.array([np.repeat(y, w).mean() for w in weights])
    column, X_new = torch.as_tensor(y[:, None]), torch.zeros(2, 1)
    Yhat = oracles.algorithm_1(Constant(y.mean()), squared_error, column, column, 0.0, 0.0, weights, X_new)
    assert Yhat.shape == (30, 2, 1)
    assert_allclose(Yhat, np.broadcast_to(bootstrap_means[:, None, None], Yhat.shape), rtol=1e-12)
    assert_allclose(oracles.column_variance(Yhat), bootstrap_means.var(ddof=1), rtol=1e-12)


def test_algorithm_1_adds_the_damping_to_the_penalised_curvature(generator):
    y = generator.normal(size=(5, 1))
    weights = generator.multinomial(5, np.full(5, 1 / 5), size=7)
    Yhat = oracles.algorithm_1(Constant(0.4), squared_error, y, y, 2.0, 3.0, weights, torch.zeros(1, 1))
    expected = 0.4 - (weights - 1) @ (0.4 - y[:, 0]) / (5 + 2.0 + 3.0)
    assert_allclose(Yhat[:, 0, 0], expected, rtol=1e-12)


def test_algorithm_1_takes_a_given_curvature_as_it_stands(generator):
    y = generator.normal(size=(5, 1))
    weights = generator.multinomial(5, np.full(5, 1 / 5), size=7)
    arguments = (Constant(0.4), squared_error, y, y, 2.0, 3.0, weights, torch.zeros(1, 1))
    Yhat = oracles.algorithm_1(*arguments, curvature=np.array([[10.0]]))
    assert_allclose(Yhat[:, 0, 0], 0.4 - (weights - 1) @ (0.4 - y[:, 0]) / 13.0, rtol=1e-12)


def test_algorithm_1_with_all_weights_one_predicts_the_fitted_model(case):
    module, loss, X, y = case
    d = len(oracles.flat(module))
    Yhat = oracles.algorithm_1(module, loss, X, y, 0.0, 0.0, np.ones((2, len(X))), X[:3], np.eye(d))
    assert_allclose(Yhat, np.stack([module(X[:3]).detach().numpy()] * 2))


def test_all_possible_resamples_of_a_linear_model_have_the_closed_form_covariance():
    module, X, y = nn.Linear(1, 2).double(), torch.randn(4, 1).double(), torch.randn(4, 2).double()
    weights = np.array([np.bincount(rows, minlength=4) for rows in itertools.product(range(4), repeat=4)])
    X_new = torch.randn(2, 1).double()
    H = oracles.gauss_newton(module, squared_error, X, y, 0.5)
    Yhat = oracles.algorithm_1(module, squared_error, X, y, 0.5, 0.2, weights, X_new, H)
    exact = oracles.member_covariance(Yhat) * (len(Yhat) - 1) / len(Yhat)
    L = oracles.gradient_matrix(module, squared_error, X, y)
    J = oracles.output_jacobian(module, X_new)
    assert_allclose(exact, oracles.closed_form(J, H + 0.2 * np.eye(4), L), atol=1e-13)


def test_bootstrap_sgd_is_one_step_of_gradient_descent_on_the_resample(case, generator):
    module, loss, X, y = case
    weights = generator.multinomial(6, np.full(6, 1 / 6), size=3)
    expected = []
    for w in weights:
        stepped = copy.deepcopy(module).requires_grad_(True)
        optimiser = torch.optim.SGD(stepped.parameters(), lr=0.01)
        repeats = torch.as_tensor(w)
        resample, targets = X.repeat_interleave(repeats, dim=0), y.repeat_interleave(repeats, dim=0)
        loss(stepped(resample), targets).sum().backward()
        optimiser.step()
        expected.append(stepped(X[:2]).detach().numpy())
    assert_allclose(oracles.bootstrap_sgd(module, loss, X, y, weights, 0.01, X[:2]), np.stack(expected))


def test_member_moments_are_numpys_with_one_degree_of_freedom_less(generator):
    Yhat = generator.normal(size=(8, 3, 2))
    assert_allclose(oracles.column_variance(Yhat), Yhat.var(axis=0, ddof=1))
    expected = np.stack([np.cov(Yhat[:, j], rowvar=False) for j in range(3)])
    assert_allclose(oracles.member_covariance(Yhat), expected)


# Formulas


@pytest.mark.parametrize(
    ("eigenvalues", "expected"),
    [((-3.0, 0.5, 7.0), 4.0), ((0.25, 2.0, 3.0), 0.75), ((1.0, 1.0, 1.0), 0.0), ((2.0, 3.0, 9.0), 0.0)],
)
def test_the_papers_damping_lifts_the_smallest_eigenvalue_to_one(eigenvalues, expected, generator):
    Q = np.linalg.qr(generator.normal(size=(3, 3)))[0]
    assert oracles.paper_damping(Q @ np.diag(eigenvalues) @ Q.T) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("centred", [True, False])
def test_the_closed_form_of_least_squares_is_the_hc0_prediction_variance(regression, centred):
    X, y, X_new = regression
    fit = sm.OLS(y, with_intercept(X)).fit(cov_type="HC0")
    module = linear_with(fit.params)
    H = oracles.hessian(module, squared_error, X, y[:, None], l2=0.0)
    L = oracles.gradient_matrix(module, squared_error, X, y[:, None])
    variance = oracles.closed_form(oracles.output_jacobian(module, X_new), H, L, centred)
    expected = fit.get_prediction(with_intercept(X_new)).se_mean ** 2
    assert_allclose(variance[:, 0, 0], expected, rtol=1e-10)


def test_the_closed_form_of_logistic_regression_is_the_hc0_variance_of_the_logit(regression):
    X, score, X_new = regression
    y = (score > 0).astype(float)
    # the flipped labels keep the two classes overlapping, so that the maximum exists
    y[::5] = 1 - y[::5]
    fit = sm.Logit(y, with_intercept(X)).fit(cov_type="HC0", disp=False, tol=1e-12)
    module = linear_with(fit.params)
    H = oracles.gauss_newton(module, logistic_loss, X, y[:, None], l2=0.0)
    L = oracles.gradient_matrix(module, logistic_loss, X, y[:, None])
    variance = oracles.closed_form(oracles.output_jacobian(module, X_new), H, L)
    design = with_intercept(X_new)
    assert_allclose(variance[:, 0, 0], np.diag(design @ fit.cov_params() @ design.T), rtol=1e-8)


def test_the_uncentred_closed_form_of_hc3_gradients_is_the_hc3_prediction_variance(regression):
    X, y, X_new = regression
    design = with_intercept(X)
    fit = sm.OLS(y, design).fit(cov_type="HC3")
    J = with_intercept(X_new)[:, None, :]
    L = oracles.hc3_gradients(design, y)
    variance = oracles.closed_form(J, design.T @ design, L, centred=False)
    assert_allclose(variance[:, 0, 0], fit.get_prediction(J[:, 0]).se_mean ** 2, rtol=1e-10)
    assert not np.allclose(variance, oracles.closed_form(J, design.T @ design, L), rtol=1e-6, atol=0)


def test_the_closed_form_of_grouped_gradients_is_the_cluster_prediction_variance(regression, generator):
    X, y, X_new = regression
    group = generator.permutation(np.arange(40) % 8) * 10
    options = {"groups": group, "use_correction": False}
    fit = sm.OLS(y, with_intercept(X)).fit(cov_type="cluster", cov_kwds=options)
    module = linear_with(fit.params)
    H = oracles.hessian(module, squared_error, X, y[:, None], l2=0.0)
    L = oracles.grouped(oracles.gradient_matrix(module, squared_error, X, y[:, None]), group)
    assert L.shape == (3, 8)
    variance = oracles.closed_form(oracles.output_jacobian(module, X_new), H, L)
    expected = fit.get_prediction(with_intercept(X_new)).se_mean ** 2
    assert_allclose(variance[:, 0, 0], expected, rtol=1e-10)


def test_grouped_columns_stand_in_the_order_of_their_labels():
    L = np.array([[1.0, 2.0, 4.0, 8.0]])
    assert_allclose(oracles.grouped(L, [100, 3, 100, 64]), [[2.0, 8.0, 5.0]])


@pytest.mark.parametrize("l2", [0.0, 5.0])
def test_hc3_residuals_are_those_of_refits_without_the_row(regression, l2):
    X, y, _ = regression
    design = with_intercept(X)
    expected = []
    for i in range(len(y)):
        kept, targets = np.delete(design, i, axis=0), np.delete(y, i)
        beta = np.linalg.solve(kept.T @ kept + l2 * np.eye(3), kept.T @ targets)
        expected.append(design[i] * (design[i] @ beta - y[i]))
    assert_allclose(oracles.hc3_gradients(design, y, l2), np.stack(expected, axis=1), atol=1e-12)


def test_the_laplace_variance_of_least_squares_is_the_classical_one_at_unit_noise(regression):
    X, y, X_new = regression
    fit = sm.OLS(y, with_intercept(X)).fit(cov_type="fixed scale", cov_kwds={"scale": 1.0})
    module = linear_with(fit.params)
    H = oracles.gauss_newton(module, squared_error, X, y[:, None], l2=0.0)
    variance = oracles.laplace_functional_variance(oracles.output_jacobian(module, X_new), H)
    expected = fit.get_prediction(with_intercept(X_new)).se_mean ** 2
    assert_allclose(variance[:, 0, 0], expected, rtol=1e-10)


def test_the_laplace_covariance_of_several_outputs_is_block_by_output():
    module, X = nn.Linear(2, 3).double(), torch.randn(6, 2).double()
    H = oracles.gauss_newton(module, squared_error, X, torch.zeros(6, 3), l2=0.1)
    covariance = oracles.laplace_functional_variance(oracles.output_jacobian(module, X[:2]), H)
    design = with_intercept(X.numpy())
    inverse = np.linalg.inv(design.T @ design + 0.1 * np.eye(3))
    expected = np.stack([x @ inverse @ x * np.eye(3) for x in design[:2]])
    assert_allclose(covariance, expected, atol=1e-13)


def test_the_jackknife_variance_of_the_mean_is_the_squared_standard_error(generator):
    y = generator.exponential(size=12)
    variance = oracles.jackknife_variance_of(lambda w: w @ y / 12, 12)
    assert variance == pytest.approx(y.var(ddof=1) / 12, rel=1e-12)


def test_the_jackknife_variance_of_a_curved_statistic_is_the_one_of_refits(generator):
    y = generator.exponential(size=12)
    deleted = np.array([np.delete(y, i).var() for i in range(12)])
    variance = oracles.jackknife_variance_of(lambda w: w @ y**2 / 12 - (w @ y / 12) ** 2, 12)
    assert variance == pytest.approx(11 * deleted.var(), rel=1e-10)
