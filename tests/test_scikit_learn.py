"""Fitted scikit-learn estimators: their own predictions, and a summed objective that is stationary where they stopped."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC, LinearSVR

import rue
from rue.data import training_rows
from rue.errors import DataError, ModelError, SettingError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
LINE = X @ [1.0, -0.7, 0.4, 0.0, 0.2] + 0.3
NUMBERS = LINE + RNG.standard_t(4, size=120)
PAIRS = np.stack([NUMBERS, X[:, 1] + 0.5 * RNG.normal(size=120)], axis=1)
COUNTS = RNG.poisson(np.exp(0.5 * LINE)).astype(float)
POSITIVE = RNG.gamma(2.0, np.exp(0.5 * LINE) / 2)
TWO = np.where(LINE + RNG.logistic(size=120) > 0, "yes", "no")
THREE = np.array(["c", "a", "b"])[np.digitize(LINE + RNG.logistic(size=120), [-0.7, 0.9])]
WEIGHT = RNG.uniform(0.3, 2.5, size=120)
TIGHT = {"tol": 1e-10, "max_iter": 20_000}
SLOW = {"tol": None, "max_iter": 1500, "learning_rate": "invscaling", "eta0": 0.2, "power_t": 0.6, "average": 20_000}

ADAPTIVE = {"learning_rate": "adaptive", "learning_rate_init": 0.1, "tol": 1e-6, "max_iter": 1500}
EXACT = {"activation": "tanh", "solver": "lbfgs", "alpha": 2.0, "tol": 1e-12, "max_iter": 5000}


@dataclass(frozen=True)
class Case:
    """An estimator, its targets, how near its solver comes to the optimum, and its penalty of absolute values."""

    estimator: Any
    y: np.ndarray
    near: float = 1e-6
    l1: Callable[[Any, float], float] | None = None  # of the fitted estimator and the total weight
    weighted: bool = True  # its fit takes sample_weight


CASES = {
    "least squares": Case(lm.LinearRegression(), NUMBERS),
    "least squares, no intercept": Case(lm.LinearRegression(fit_intercept=False), NUMBERS),
    "least squares, two targets": Case(lm.LinearRegression(), PAIRS),
    "least squares, positive": Case(lm.LinearRegression(positive=True), NUMBERS),
    "ridge": Case(lm.Ridge(3.0), NUMBERS),
    "ridge, two targets": Case(lm.Ridge(np.array([1.0, 20.0])), PAIRS),
    "ridge, cross-validated": Case(lm.RidgeCV([1.0, 10.0]), NUMBERS),
    "bayesian ridge": Case(lm.BayesianRidge(), NUMBERS),
    "relevance determination": Case(lm.ARDRegression(), NUMBERS, weighted=False),
    "lasso": Case(lm.Lasso(0.15, **TIGHT), NUMBERS, l1=lambda e, total: total * 0.15),
    "lasso, two targets": Case(lm.Lasso(0.3, **TIGHT), PAIRS, l1=lambda e, total: total * 0.3),
    "lasso, cross-validated": Case(lm.LassoCV(**TIGHT), NUMBERS, l1=lambda e, total: total * e.alpha_),
    "lasso by angles": Case(lm.LassoLars(0.15), NUMBERS, l1=lambda e, total: total * 0.15, weighted=False),
    "elastic net": Case(lm.ElasticNet(0.2, l1_ratio=0.4, **TIGHT), NUMBERS, l1=lambda e, total: total * 0.08),
    "elastic net, cross-validated": Case(
        lm.ElasticNetCV(l1_ratio=[0.3, 0.6], **TIGHT), NUMBERS, l1=lambda e, total: total * e.alpha_ * e.l1_ratio_
    ),
    "matching pursuit": Case(lm.OrthogonalMatchingPursuit(n_nonzero_coefs=3), NUMBERS, weighted=False),
    "huber": Case(lm.HuberRegressor(alpha=2.0, tol=1e-9, max_iter=2000), NUMBERS, near=1e-5),
    "poisson": Case(lm.PoissonRegressor(alpha=0.1, **TIGHT), COUNTS),
    "gamma": Case(lm.GammaRegressor(alpha=0.1, **TIGHT), POSITIVE),
    "tweedie 1.5": Case(lm.TweedieRegressor(power=1.5, alpha=0.1, **TIGHT), COUNTS),
    "tweedie 1": Case(lm.TweedieRegressor(power=1, alpha=0.1, **TIGHT), COUNTS),
    "tweedie 0": Case(lm.TweedieRegressor(power=0, alpha=0.1, **TIGHT), NUMBERS),
    "support vectors": Case(
        LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.3, C=0.1, dual=False, **TIGHT), NUMBERS
    ),
    "sgd": Case(lm.SGDRegressor(alpha=0.1, **SLOW), NUMBERS, near=1e-3),
    "sgd huber": Case(lm.SGDRegressor(loss="huber", epsilon=0.8, alpha=0.1, **SLOW), NUMBERS, near=1e-3),
    "sgd support vectors": Case(
        lm.SGDRegressor(loss="squared_epsilon_insensitive", epsilon=0.3, alpha=0.1, **{**SLOW, "eta0": 0.05}),
        NUMBERS,
        near=1e-3,
    ),
    "logistic": Case(lm.LogisticRegression(C=0.3, **TIGHT), TWO),
    "logistic, no penalty": Case(lm.LogisticRegression(C=np.inf, **TIGHT), TWO),
    "logistic, weighted classes": Case(lm.LogisticRegression(C=0.3, class_weight={"no": 3, "yes": 0.5}, **TIGHT), TWO),
    "logistic, absolute values": Case(
        lm.LogisticRegression(C=0.2, l1_ratio=1, solver="saga", **TIGHT), TWO, l1=lambda e, total: 5.0
    ),
    "logistic, elastic net": Case(
        lm.LogisticRegression(C=0.2, l1_ratio=0.4, solver="saga", **TIGHT), TWO, l1=lambda e, total: 2.0
    ),
    "logistic by liblinear": Case(
        lm.LogisticRegression(
            C=0.3, solver="liblinear", intercept_scaling=2.0, class_weight={"no": 3, "yes": 1}, **TIGHT
        ),
        TWO,
    ),
    "logistic, cross-validated": Case(
        lm.LogisticRegressionCV(Cs=3, l1_ratios=(0.0,), use_legacy_attributes=False, scoring="accuracy", **TIGHT), TWO
    ),
    "softmax": Case(lm.LogisticRegression(C=0.3, **TIGHT), THREE),
    "softmax, weighted classes": Case(
        lm.LogisticRegression(C=0.3, class_weight={"a": 2, "b": 3, "c": 0.5}, **TIGHT), THREE
    ),
    "softmax, elastic net": Case(
        lm.LogisticRegression(C=0.2, l1_ratio=0.4, solver="saga", **TIGHT), THREE, l1=lambda e, total: 2.0
    ),
    "ridge classifier": Case(lm.RidgeClassifier(2.0), TWO),
    "ridge classifier, three classes": Case(lm.RidgeClassifier(2.0, class_weight="balanced"), THREE),
    "support vector classes": Case(LinearSVC(C=0.2, dual=False, **TIGHT), TWO),
    "support vector classes, three": Case(
        LinearSVC(C=0.2, dual=False, intercept_scaling=3.0, class_weight={"a": 2, "b": 3, "c": 0.5}, **TIGHT), THREE
    ),
    "support vector classes, absolute values": Case(
        LinearSVC(C=0.2, penalty="l1", dual=False, **TIGHT), TWO, near=1e-4, l1=lambda e, total: 5.0
    ),
    "sgd classes": Case(lm.SGDClassifier(loss="log_loss", alpha=0.05, **SLOW), TWO, near=1e-3),
    "sgd classes, three": Case(
        lm.SGDClassifier(loss="log_loss", alpha=0.05, class_weight="balanced", **SLOW), THREE, near=1e-3
    ),
    "sgd squared hinge": Case(
        lm.SGDClassifier(loss="squared_hinge", alpha=0.05, **{**SLOW, "eta0": 0.05}), TWO, near=1e-3
    ),
    "sgd modified huber": Case(
        lm.SGDClassifier(loss="modified_huber", alpha=0.05, **{**SLOW, "eta0": 0.05}), TWO, near=1e-3
    ),
    "perceptron": Case(MLPRegressor(hidden_layer_sizes=[6], **EXACT), NUMBERS, near=1e-3),
    "perceptron of counts": Case(
        MLPRegressor(hidden_layer_sizes=[4], loss="poisson", **{**EXACT, "activation": "logistic"}),
        COUNTS,
        near=1e-3,
    ),
    "perceptron by batches": Case(
        MLPRegressor(hidden_layer_sizes=[4], activation="tanh", solver="sgd", alpha=2.0, batch_size=60, **ADAPTIVE),
        NUMBERS,
        near=3e-3,
        weighted=False,  # of batches with unequal weights it is true on the average only
    ),
    "perceptron of two classes": Case(MLPClassifier(hidden_layer_sizes=[4, 3], **EXACT), TWO, near=1e-3),
    "perceptron of three classes": Case(MLPClassifier(hidden_layer_sizes=[4], **EXACT), THREE, near=1e-3),
}


def fitted(case: Case, **settings: Any) -> Any:
    estimator = clone(case.estimator)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    with warnings.catch_warnings():  # a fixed number of epochs is what was asked for
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, case.y, **settings)


def pull(model: Any, data: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of the summed objective by autodiff (d,), and the sum of the rows' absolute gradients."""
    rows, bound = training_rows(data, model)
    theta = bound.theta.detach().clone().requires_grad_()
    (batch,) = rows.batches()
    losses = batch.weight * bound.loss(bound.predict(theta, batch.inputs), batch.targets)
    each = torch.stack([torch.autograd.grad(one, theta, retain_graph=True)[0] for one in losses])
    (penalty,) = torch.autograd.grad(bound.penalty(theta), theta, allow_unused=True, materialize_grads=True)
    return each.sum(0) + penalty, each.abs().sum()


def off_the_optimum(case: Case, estimator: Any, data: Any) -> float:
    """How far the gradient is from what a penalty of absolute values leaves, relative to the rows' own."""
    model = rue.wrap(estimator)
    gradient, size = pull(model, data)
    if case.l1 is not None:
        total = len(case.y) if data.weight is None else float(np.sum(data.weight))
        left = torch.zeros_like(gradient)
        free = int((np.atleast_2d(estimator.coef_) != 0).sum())
        left[:free] = case.l1(estimator, total) * torch.sign(model.theta[:free])
        if getattr(estimator, "penalty", None) == "l1":  # LIBLINEAR's intercept too
            left[free:] = case.l1(estimator, total) * torch.sign(model.theta[free:])
        gradient = gradient + left
    return float(gradient.abs().sum() / size)


@pytest.mark.parametrize("name", CASES)
def test_the_objective_read_off_an_estimator_is_stationary_where_its_solver_stopped(name):
    case = CASES[name]
    assert off_the_optimum(case, fitted(case), rue.Data(X, case.y)) < case.near


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.weighted])
def test_sample_weights_of_the_fit_are_the_weights_of_the_data(name):
    case = CASES[name]
    estimator = fitted(case, sample_weight=WEIGHT)
    assert off_the_optimum(case, estimator, rue.Data(X, case.y, weight=WEIGHT)) < case.near


@pytest.mark.parametrize("name", CASES)
def test_outputs_make_the_estimators_own_predictions(name):
    estimator = fitted(CASES[name])
    model = rue.wrap(estimator)
    outputs = model.predict(model.theta, model.read(X)).detach().numpy()
    answers = estimator.predict(X)
    np.testing.assert_array_equal(model.answer(X), answers)
    if model.classes is None:
        made = outputs if model.response is None else model.response.value(outputs)
        np.testing.assert_allclose(made.reshape(answers.shape), answers, rtol=1e-9, atol=1e-12)
    elif model.family.decision == "signs":
        np.testing.assert_array_equal(model.classes[(outputs[:, 0] > 0).astype(int)], answers)
    else:
        np.testing.assert_array_equal(model.classes[outputs.argmax(1)], answers)
