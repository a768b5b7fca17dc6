"""For linear models RUE is the sandwich estimator: statsmodels is the oracle."""

import numpy as np
import pytest
import torch

import rue
from rue.core.resample import Poisson
from rue.core.solve import NoDamping

sm = pytest.importorskip("statsmodels.api")


@pytest.fixture(scope="module")
def regression():
    """Heteroscedastic rows in groups, and the least-squares fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3 + rng.normal(size=80) * (0.2 + np.abs(X[:, 0]))
    group = rng.integers(0, 12, size=80)
    X_new = rng.normal(size=(15, 3)) * 2
    fitted = sm.OLS(y, sm.add_constant(X)).fit()
    net = torch.nn.Linear(3, 1).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor(fitted.params[1:])[None])
        net.bias.copy_(torch.tensor(fitted.params[:1]))
    return net, X, y, group, X_new


def prediction_variance(fitted, X_new) -> np.ndarray:
    design = sm.add_constant(X_new, has_constant="add")
    return np.einsum("mi,ij,mj->m", design, fitted.cov_params(), design)


def test_linear_rue_without_damping_equals_statsmodels_hc0(regression):
    net, X, y, _, X_new = regression
    audit = rue.LinearRUE(damping=NoDamping()).fit(rue.wrap(net, loss="squared_error"), (X, y)).audit(X_new)
    oracle = sm.OLS(y, sm.add_constant(X)).fit(cov_type="HC0")
    np.testing.assert_allclose(audit.std**2, prediction_variance(oracle, X_new), rtol=1e-8)


def test_hc3_with_independent_weights_equals_statsmodels_hc3(regression):
    net, X, y, _, X_new = regression
    method = rue.LinearRUE(damping=NoDamping(), meat="HC3", resampler=Poisson())
    audit = method.fit(rue.wrap(net, loss="squared_error"), (X, y)).audit(X_new)
    oracle = sm.OLS(y, sm.add_constant(X)).fit(cov_type="HC3")
    np.testing.assert_allclose(audit.std**2, prediction_variance(oracle, X_new), rtol=1e-8)


def test_groups_equal_statsmodels_cluster_robust_covariance(regression):
    net, X, y, group, X_new = regression
    data = rue.Data(X, y, group=group)
    audit = rue.LinearRUE(damping=NoDamping()).fit(rue.wrap(net, loss="squared_error"), data).audit(X_new)
    settings = {"groups": group, "use_correction": False}
    oracle = sm.OLS(y, sm.add_constant(X)).fit(cov_type="cluster", cov_kwds=settings)
    np.testing.assert_allclose(audit.std**2, prediction_variance(oracle, X_new), rtol=1e-8)
    assert audit.facts["units"] == len(np.unique(group))


def test_groups_named_by_words_are_the_same_groups(regression):
    net, X, y, group, X_new = regression
    model = rue.wrap(net, loss="squared_error")
    numbers = rue.LinearRUE().fit(model, rue.Data(X, y, group=group)).audit(X_new)
    words = rue.LinearRUE().fit(model, rue.Data(X, y, group=[f"site {g}" for g in group])).audit(X_new)
    np.testing.assert_allclose(numbers.std, words.std, rtol=1e-12)


def test_weighted_least_squares_equals_statsmodels_hc0(regression):
    _, X, y, _, X_new = regression
    weight = np.random.default_rng(1).uniform(0.2, 3.0, size=len(y))
    oracle = sm.WLS(y, sm.add_constant(X), weights=weight).fit(cov_type="HC0")
    net = torch.nn.Linear(3, 1).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor(oracle.params[1:])[None])
        net.bias.copy_(torch.tensor(oracle.params[:1]))
    model = rue.wrap(net, loss="squared_error")
    audit = rue.LinearRUE(damping=NoDamping()).fit(model, rue.Data(X, y, weight=weight)).audit(X_new)
    np.testing.assert_allclose(audit.std**2, prediction_variance(oracle, X_new), rtol=1e-8)


def test_a_logistic_regression_equals_statsmodels_glm_hc0(regression):
    _, X, y, _, X_new = regression
    label = (y > 0).astype(float)
    oracle = sm.GLM(label, sm.add_constant(X), family=sm.families.Binomial()).fit(cov_type="HC0", tol=1e-13)
    net = torch.nn.Linear(3, 1).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor(oracle.params[1:])[None])
        net.bias.copy_(torch.tensor(oracle.params[:1]))

    def log_loss(outputs, targets):
        return torch.nn.functional.softplus(outputs[:, 0]) - targets * outputs[:, 0]

    audit = rue.LinearRUE(damping=NoDamping()).fit(rue.wrap(net, loss=log_loss), (X, label)).audit(X_new)
    np.testing.assert_allclose(audit.std**2, prediction_variance(oracle, X_new), rtol=1e-7)
