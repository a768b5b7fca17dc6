"""An unpenalised generalised linear model of scikit-learn has statsmodels' robust variances of the linear predictor."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn import linear_model as lm

import rue
from rue.core.solve import NoDamping

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
LINE = 0.5 * (X @ [1.0, -0.7, 0.4] + 0.3)
GROUP = RNG.integers(0, 15, size=150)
NEW = 1.5 * RNG.normal(size=(20, 3))
EXACT = {"tol": 1e-11, "max_iter": 5000, "solver": "newton-cholesky"}

MODELS = {
    "linear": (lm.LinearRegression(), sm.families.Gaussian(), LINE + RNG.normal(size=150) * (0.3 + np.abs(X[:, 0]))),
    "logistic": (
        lm.LogisticRegression(C=np.inf, **EXACT),
        sm.families.Binomial(),
        (LINE + RNG.logistic(size=150) > 0).astype(float),
    ),
    "poisson": (
        lm.PoissonRegressor(alpha=0.0, **EXACT),
        sm.families.Poisson(),
        RNG.negative_binomial(2, 0.5, 150) * 1.0,
    ),
    "gamma": (
        lm.GammaRegressor(alpha=0.0, **EXACT),
        sm.families.Gamma(sm.families.links.Log()),
        RNG.gamma(2.0, np.exp(LINE)),
    ),
}


def oracle_variance(family, y, **covariance) -> np.ndarray:
    """Of the linear predictor, by the observed information, which is what the curvature of the loss is."""
    fit = sm.GLM(y, sm.add_constant(X), family).fit(method="newton", maxiter=200, tol=1e-13, disp=0, **covariance)
    design = sm.add_constant(NEW, has_constant="add")
    return np.einsum("mi,ij,mj->m", design, fit.cov_params(), design)


def linear_variance(estimator, data) -> np.ndarray:
    """Of the linear predictor: the prediction's, brought back through the slope of the response."""
    audit = rue.LinearRUE(damping=NoDamping()).fit(rue.wrap(estimator), data).audit(NEW)
    response = rue.wrap(estimator).response
    slope = 1.0 if response is None else response.slope(audit.outputs)[:, 0]
    return audit.covariance[:, 0, 0] / slope**2


@pytest.mark.parametrize("name", MODELS)
def test_the_variance_equals_statsmodels_hc0(name):
    estimator, family, y = MODELS[name]
    found = linear_variance(estimator.fit(X, y), (X, y))
    np.testing.assert_allclose(found, oracle_variance(family, y, cov_type="HC0"), rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_the_variance_by_group_equals_statsmodels_cluster_robust(name):
    estimator, family, y = MODELS[name]
    found = linear_variance(estimator.fit(X, y), rue.Data(X, y, group=GROUP))
    settings = {"groups": GROUP, "use_correction": False}
    oracle = oracle_variance(family, y, cov_type="cluster", cov_kwds=settings)
    np.testing.assert_allclose(found, oracle, rtol=1e-6)


def test_logit_differences_of_three_classes_equal_statsmodels_mnlogit_hc0():
    y = np.digitize(LINE + RNG.logistic(size=150), [-0.7, 0.9])
    estimator = lm.LogisticRegression(C=np.inf, tol=1e-11, max_iter=5000, solver="newton-cg").fit(X, y)
    audit = rue.LinearRUE().fit(rue.wrap(estimator), (X, y)).audit(NEW)
    fit = sm.MNLogit(y, sm.add_constant(X)).fit(method="newton", tol=1e-13, maxiter=200, disp=0, cov_type="HC0")
    design = sm.add_constant(NEW, has_constant="add")
    for other in (1, 2):  # parameters are of the logits less the first, one class after the other
        part = slice(4 * (other - 1), 4 * other)
        oracle = np.einsum("mi,ij,mj->m", design, np.asarray(fit.cov_params())[part, part], design)
        covariance = audit.covariance
        found = covariance[:, other, other] + covariance[:, 0, 0] - 2 * covariance[:, other, 0]
        np.testing.assert_allclose(found, oracle, rtol=1e-6)
