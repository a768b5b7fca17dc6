"""Fitted scikit-learn estimators: their own predictions, and an objective that is stationary where they stopped."""

import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from scipy.stats import spearmanr
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC, LinearSVR
from sklearn.utils.class_weight import compute_class_weight

import rue
from rue.core.errors import DataError, ModelError, SettingError
from rue.data.opening import training_rows

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
    l1: float = 0.0  # beside the sum of the losses
    l1_mean: Callable[[Any], float] | None = None  # beside their mean, of the fitted estimator
    weighted: bool = True  # its fit takes sample_weight


CASES = {
    "least squares": Case(lm.LinearRegression(), NUMBERS),
    "least squares, no intercept": Case(lm.LinearRegression(fit_intercept=False), NUMBERS),
    "least squares, two targets": Case(lm.LinearRegression(), PAIRS),
    "least squares, positive": Case(lm.LinearRegression(positive=True), NUMBERS),
    "ridge": Case(lm.Ridge(3.0), NUMBERS),
    "ridge, two targets": Case(lm.Ridge(np.array([1.0, 20.0])), PAIRS),
    "ridge, cross-validated": Case(lm.RidgeCV([1.0, 10.0]), NUMBERS),
    "ridge, cross-validated by target": Case(lm.RidgeCV([1.0, 10.0, 100.0], alpha_per_target=True), PAIRS),
    "bayesian ridge": Case(lm.BayesianRidge(), NUMBERS),
    "relevance determination": Case(lm.ARDRegression(), NUMBERS, weighted=False),
    "lasso": Case(lm.Lasso(0.15, **TIGHT), NUMBERS, l1_mean=lambda _: 0.15),
    "lasso, two targets": Case(lm.Lasso(0.3, **TIGHT), PAIRS, l1_mean=lambda _: 0.3),
    "lasso, cross-validated": Case(lm.LassoCV(**TIGHT), NUMBERS, l1_mean=lambda e: e.alpha_),
    "lasso by angles": Case(lm.LassoLars(0.15), NUMBERS, l1_mean=lambda _: 0.15, weighted=False),
    "lasso by information": Case(lm.LassoLarsIC(), NUMBERS, l1_mean=lambda e: e.alpha_, weighted=False),
    "lasso by angles, cross-validated": Case(lm.LassoLarsCV(), NUMBERS, l1_mean=lambda e: e.alpha_, weighted=False),
    "elastic net": Case(lm.ElasticNet(0.2, l1_ratio=0.4, **TIGHT), NUMBERS, l1_mean=lambda _: 0.08),
    "elastic net, cross-validated": Case(
        lm.ElasticNetCV(l1_ratio=[0.3, 0.6], **TIGHT), NUMBERS, l1_mean=lambda e: e.alpha_ * e.l1_ratio_
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
    "logistic, balanced classes": Case(
        lm.LogisticRegression(C=0.3, class_weight="balanced", **TIGHT), TWO, weighted=False
    ),
    "logistic, absolute values": Case(lm.LogisticRegression(C=0.2, l1_ratio=1, solver="saga", **TIGHT), TWO, l1=5.0),
    "logistic, elastic net": Case(lm.LogisticRegression(C=0.2, l1_ratio=0.4, solver="saga", **TIGHT), TWO, l1=2.0),
    "logistic by liblinear": Case(
        lm.LogisticRegression(
            C=0.3, solver="liblinear", intercept_scaling=2.0, class_weight={"no": 3, "yes": 1}, **TIGHT
        ),
        TWO,
    ),
    "logistic, cross-validated": Case(
        lm.LogisticRegressionCV(Cs=3, l1_ratios=(0.0,), use_legacy_attributes=False, scoring="accuracy", **TIGHT), TWO
    ),
    "softmax, cross-validated": Case(
        lm.LogisticRegressionCV(
            Cs=3, l1_ratios=(0.5,), solver="saga", use_legacy_attributes=True, scoring="accuracy", **TIGHT
        ),
        THREE,
        l1_mean=lambda e: 0.5 / e.C_[0] / 120,
        weighted=False,
    ),
    "softmax": Case(lm.LogisticRegression(C=0.3, **TIGHT), THREE),
    "softmax, weighted classes": Case(
        lm.LogisticRegression(C=0.3, class_weight={"a": 2, "b": 3, "c": 0.5}, **TIGHT), THREE
    ),
    "softmax, elastic net": Case(lm.LogisticRegression(C=0.2, l1_ratio=0.4, solver="saga", **TIGHT), THREE, l1=2.0),
    "ridge classifier": Case(lm.RidgeClassifier(2.0), TWO),
    "ridge classifier, cross-validated": Case(lm.RidgeClassifierCV([1.0, 10.0]), THREE),
    "ridge classifier, three classes": Case(lm.RidgeClassifier(2.0, class_weight="balanced"), THREE),
    "support vector classes": Case(LinearSVC(C=0.2, dual=False, **TIGHT), TWO),
    "support vector classes, three": Case(
        LinearSVC(C=0.2, dual=False, intercept_scaling=3.0, class_weight={"a": 2, "b": 3, "c": 0.5}, **TIGHT), THREE
    ),
    "support vector classes, balanced": Case(
        LinearSVC(C=0.2, dual=False, class_weight="balanced", **TIGHT), THREE, weighted=False
    ),
    "support vector classes, absolute values": Case(
        LinearSVC(C=0.2, penalty="l1", dual=False, **TIGHT), TWO, near=1e-4, l1=5.0
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


@cache
def fitted(name: str, weighted: bool = False) -> Any:
    case = CASES[name]
    estimator = clone(case.estimator)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    with warnings.catch_warnings():  # a fixed number of epochs is what was asked for
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, case.y, **({"sample_weight": WEIGHT} if weighted else {}))


def pull(model: Any, data: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of the summed objective by autodiff (d,), and the sum of the rows' absolute gradients."""
    rows, bound = training_rows(data, model)
    theta = bound.theta.detach().clone().requires_grad_()
    (batch,) = rows.batches()
    losses = batch.weight * bound.loss(bound.predict(theta, batch.inputs), batch.targets)
    each = torch.stack([torch.autograd.grad(one, theta, retain_graph=True)[0] for one in losses])
    (penalty,) = torch.autograd.grad(bound.penalty(theta), theta, allow_unused=True, materialize_grads=True)
    return each.sum(0) + penalty, each.abs().sum()


def off_the_optimum(name: str, weighted: bool = False) -> float:
    """How far the gradient is from what a penalty of absolute values leaves, relative to the rows' own."""
    case, estimator = CASES[name], fitted(name, weighted)
    model = rue.wrap(estimator)
    gradient, size = pull(model, rue.Data(X, case.y, weight=WEIGHT if weighted else None))
    total = WEIGHT.sum() if weighted else len(X)
    l1 = case.l1 if case.l1_mean is None else total * case.l1_mean(estimator)
    left = l1 * torch.sign(model.theta)
    if getattr(estimator, "penalty", None) != "l1":  # only LIBLINEAR penalises the intercept, which comes last
        left[int((np.atleast_2d(getattr(estimator, "coef_", 1.0)) != 0).sum()) :] = 0.0
    return float((gradient + left).abs().sum() / size)


@pytest.mark.parametrize("name", CASES)
def test_the_objective_read_off_an_estimator_is_stationary_where_its_solver_stopped(name):
    assert off_the_optimum(name) < CASES[name].near


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.weighted])
def test_sample_weights_of_the_fit_are_the_weights_of_the_data(name):
    assert off_the_optimum(name, weighted=True) < CASES[name].near


@pytest.mark.parametrize("name", CASES)
def test_outputs_make_the_estimators_own_predictions(name):
    estimator = fitted(name)
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


@pytest.mark.parametrize("name", CASES)
def test_every_estimator_can_be_audited_and_keeps_its_predictions(name):
    estimator = fitted(name)
    audit = rue.LinearRUE().fit(rue.wrap(estimator), (X, CASES[name].y)).audit(X[:7])
    np.testing.assert_array_equal(audit.prediction, estimator.predict(X[:7]))
    assert np.isfinite(audit.score).all()
    assert (audit.score > 0).all()


def table(rows: int) -> pd.DataFrame:
    """Strings, numbers and gaps."""
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=(rows, 2)) * [1.0, 10.0]
    numbers[rng.random((rows, 2)) < 0.1] = np.nan
    frame = pd.DataFrame(numbers, columns=["age", "dose"])
    frame["site"] = rng.choice(["north", "south", "west"], size=rows)
    frame["visits"] = rng.integers(0, 5, size=rows)
    return frame


FRAME = table(120)
SIGNAL = FRAME["age"].fillna(0) + (FRAME["site"] == "west") + 0.3 * FRAME["visits"]
PREPARED = ColumnTransformer(
    [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "dose", "visits"]),
        ("words", OneHotEncoder(), ["site"]),
    ],
    sparse_threshold=1.0,  # the transformer's output is sparse
)


def by_hand(frame: pd.DataFrame, prepared: Any) -> np.ndarray:
    made = prepared.transform(frame)
    return made.toarray() if hasattr(made, "toarray") else made


def test_a_pipeline_is_its_last_step_on_the_features_the_others_make():
    y = np.where(SIGNAL + RNG.logistic(size=120) > 0.7, "ill", "well")
    pipeline = make_pipeline(clone(PREPARED), lm.LogisticRegression(C=0.5)).fit(FRAME, y)
    whole = rue.LinearRUE().fit(rue.wrap(pipeline), (FRAME, y)).audit(FRAME)
    features = by_hand(FRAME, pipeline[0])
    last = rue.LinearRUE().fit(rue.wrap(pipeline[-1]), (features, y)).audit(features)
    np.testing.assert_allclose(whole.covariance, last.covariance, rtol=1e-12)
    np.testing.assert_array_equal(whole.prediction, pipeline.predict(FRAME))
    plain = 1 / (1 + np.exp(-whole.outputs[:, 0]))
    np.testing.assert_allclose(plain, pipeline.predict_proba(FRAME)[:, 1], rtol=1e-12)


def test_a_transformed_target_scales_the_spread_by_the_slope_of_the_way_back():
    y = np.expm1(np.abs(SIGNAL.to_numpy() + RNG.normal(size=120)))
    inner = make_pipeline(clone(PREPARED), lm.Ridge(2.0))
    regressor = TransformedTargetRegressor(inner, func=np.log1p, inverse_func=np.expm1).fit(FRAME, y)
    audit = rue.LinearRUE().fit(rue.wrap(regressor), (FRAME, y)).audit(FRAME)
    logs = rue.LinearRUE().fit(rue.wrap(regressor.regressor_), (FRAME, np.log1p(y))).audit(FRAME)
    np.testing.assert_array_equal(audit.prediction, regressor.predict(FRAME))
    np.testing.assert_allclose(audit.std, logs.std * (audit.prediction + 1), rtol=1e-8)


def test_a_pipeline_may_end_in_a_transformed_target():
    y = np.expm1(np.abs(SIGNAL.to_numpy() + RNG.normal(size=120)))
    ridge = TransformedTargetRegressor(lm.Ridge(2.0), func=np.log1p, inverse_func=np.expm1)
    outside = make_pipeline(clone(PREPARED), ridge).fit(FRAME, y)
    inside = TransformedTargetRegressor(
        make_pipeline(clone(PREPARED), lm.Ridge(2.0)), func=np.log1p, inverse_func=np.expm1
    ).fit(FRAME, y)
    one, other = (rue.LinearRUE().fit(rue.wrap(e), (FRAME, y)).audit(FRAME) for e in (outside, inside))
    np.testing.assert_allclose(one.std, other.std, rtol=1e-12)


@pytest.mark.parametrize("y", [NUMBERS, PAIRS], ids=["one target", "two targets"])
def test_a_standardised_target_changes_nothing_of_an_unpenalised_fit(y):
    regressor = TransformedTargetRegressor(lm.LinearRegression(), transformer=StandardScaler()).fit(X, y)
    audit = rue.LinearRUE().fit(rue.wrap(regressor), (X, y)).audit(X)
    plain = rue.LinearRUE().fit(rue.wrap(lm.LinearRegression().fit(X, y)), (X, y)).audit(X)
    np.testing.assert_allclose(audit.covariance, plain.covariance, rtol=1e-7, atol=1e-12)


def test_the_slope_of_an_affine_way_back_is_exact():
    regressor = TransformedTargetRegressor(lm.LinearRegression(), transformer=StandardScaler()).fit(X, 1e3 * NUMBERS)
    outputs = RNG.normal(size=(9, 1))
    slope = rue.wrap(regressor).response.slope(outputs)
    np.testing.assert_allclose(slope, np.full((9, 1), regressor.transformer_.scale_), rtol=1e-13)


def test_a_log_link_under_a_transformed_target_composes_the_slopes():
    inner = lm.GammaRegressor(alpha=0.1, **TIGHT)
    regressor = TransformedTargetRegressor(inner, func=np.sqrt, inverse_func=np.square).fit(X, POSITIVE)
    response = rue.wrap(regressor).response
    outputs = RNG.normal(size=(9, 1))
    np.testing.assert_allclose(response.value(outputs), np.exp(2 * outputs), rtol=1e-12)
    np.testing.assert_allclose(response.slope(outputs), 2 * np.exp(2 * outputs), rtol=1e-8)


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_a_search_is_the_estimator_it_found(search):
    settings = {"n_iter": 2, "random_state": 0} if search is RandomizedSearchCV else {}
    found = search(lm.Ridge(), {"alpha": [0.1, 30.0]}, cv=3, **settings).fit(X, NUMBERS)
    audit = rue.LinearRUE().fit(rue.wrap(found), (X, NUMBERS)).audit(X)
    best = rue.LinearRUE().fit(rue.wrap(found.best_estimator_), (X, NUMBERS)).audit(X)
    np.testing.assert_array_equal(audit.covariance, best.covariance)


@pytest.mark.parametrize("form", ["frame", "sparse", "tensor", "list", "float32"])
def test_inputs_in_any_form_scikit_learn_takes_are_the_same_audit(form):
    whole = np.round(4 * X)
    forms = {
        "frame": lambda a: pd.DataFrame(a).astype(int).rename(columns=str),
        "sparse": sparse.csr_array,
        "tensor": torch.as_tensor,
        "list": lambda a: a.tolist(),
        "float32": lambda a: a.astype(np.float32),
    }
    shape = forms[form]
    given = pd.DataFrame(whole).rename(columns=str) if form == "frame" else whole
    estimator = lm.Ridge(1.0).fit(given, NUMBERS)
    audit = rue.LinearRUE().fit(rue.wrap(estimator), (shape(whole), NUMBERS)).audit(shape(whole))
    plain = rue.LinearRUE().fit(rue.wrap(lm.Ridge(1.0).fit(whole, NUMBERS)), (whole, NUMBERS)).audit(whole)
    np.testing.assert_allclose(audit.std, plain.std, rtol=1e-9)


def test_a_training_table_in_another_order_than_the_estimators_is_put_in_order():
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = rue.wrap(lm.Ridge().fit(frame, NUMBERS))
    audits = [rue.LinearRUE().fit(model, (table, NUMBERS)).audit(frame) for table in (frame, frame[list("edcba")])]
    np.testing.assert_array_equal(audits[0].std, audits[1].std)
    with pytest.raises(DataError, match="lack 'a' and have 'z'"):
        rue.LinearRUE().fit(model, (frame.rename(columns={"a": "z"}), NUMBERS))


def test_a_label_the_classifier_never_saw_is_refused():
    model = rue.wrap(lm.LogisticRegression().fit(X, TWO))
    with pytest.raises(DataError, match="'maybe'"):
        rue.LinearRUE().fit(model, (X, np.where(LINE > 2, "maybe", TWO)))


OPAQUE = {
    "a kernel machine": (SVC(), TWO, "LinearSVC"),
    "neighbours": (KNeighborsRegressor(), NUMBERS, "Ridge"),
    "naive Bayes": (GaussianNB(), TWO, "LogisticRegression"),
    "quantiles": (lm.QuantileRegressor(), NUMBERS, "HuberRegressor"),
    "a hinge": (LinearSVC(loss="hinge"), TWO, "loss=.squared_hinge"),
    "a hinge by sgd": (lm.SGDClassifier(), TWO, "loss=.log_loss"),
    "a tube": (LinearSVR(), NUMBERS, "loss=.squared_epsilon_insensitive"),
    "a perceptron of one layer": (lm.Perceptron(), TWO, "SGDClassifier"),
    "joint sparsity": (lm.MultiTaskLasso(), PAIRS, "Lasso"),
    "crammer and singer": (LinearSVC(multi_class="crammer_singer"), THREE, "ovr"),
    "inverse gaussian": (lm.TweedieRegressor(power=3), POSITIVE, "power"),
}
REFUSED = {
    "a pipeline that predicts nothing": (make_pipeline(StandardScaler()), NUMBERS, "predicts nothing"),
    "a search that kept nothing": (GridSearchCV(lm.Ridge(), {"alpha": [1.0]}, refit=False), NUMBERS, "refit=True"),
    "several labels": (
        MLPClassifier(max_iter=2),
        np.stack([LINE > 0, X[:, 0] > 0], 1).astype(int),
        "one for each label",
    ),
    "nothing left": (lm.Lasso(1e3, fit_intercept=False), NUMBERS, "smaller penalty"),
}


@pytest.mark.parametrize("name", OPAQUE)
def test_what_has_no_parameters_to_read_is_known_by_its_predictions(name):
    estimator, y, advice = OPAQUE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = clone(estimator).fit(X, y)
    wrapped = rue.wrap(estimator)
    assert not wrapped.family.gradients
    assert re.search(advice, wrapped.describe()["known_of_it"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_audited_names_the_nearest_that_can(name):
    estimator, y, advice = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = clone(estimator).fit(X, y)
    with pytest.raises(ModelError, match=advice):
        rue.wrap(estimator)


def test_an_estimator_that_is_not_fitted_is_refused():
    for estimator in (lm.Ridge(), make_pipeline(StandardScaler(), lm.Ridge()), MLPRegressor()):
        with pytest.raises(ModelError, match="not fitted"):
            rue.wrap(estimator)


@pytest.mark.parametrize("said", [{"loss": "squared_error"}, {"l2": 1.0}], ids=str)
def test_an_estimator_knows_its_loss_and_penalty(said):
    with pytest.raises(SettingError, match="leave loss and l2 out"):
        rue.wrap(lm.Ridge().fit(X, NUMBERS), **said)


def test_labels_of_another_type_are_refused():
    model = rue.wrap(lm.LogisticRegression().fit(X, TWO))
    with pytest.raises(DataError, match="120 of 120 labels"):
        rue.LinearRUE().fit(model, (X, (TWO == "yes").astype(int)))


def test_a_target_transformer_that_falls_is_refused():
    regressor = TransformedTargetRegressor(lm.Ridge(), func=np.negative, inverse_func=np.negative).fit(X, NUMBERS)
    auditor = rue.LinearRUE().fit(rue.wrap(regressor), (X, NUMBERS))
    with pytest.raises(ModelError, match="use one that rises"):
        auditor.audit(X)


def test_a_target_transformer_that_mixes_targets_is_refused():
    regressor = TransformedTargetRegressor(lm.LinearRegression(), transformer=PCA(2)).fit(X, PAIRS)
    auditor = rue.LinearRUE().fit(rue.wrap(regressor), (X, PAIRS))
    with pytest.raises(ModelError, match="mixes the targets"):
        auditor.audit(X)


REFITS = {
    "linear": lm.LinearRegression(),
    "ridge": lm.Ridge(5.0),
    "lasso": lm.Lasso(0.01),
    "poisson": lm.PoissonRegressor(alpha=0.01),
    "gamma": lm.GammaRegressor(alpha=0.01),
    "logistic": lm.LogisticRegression(C=1.0),
}


def drawn(name: str, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Targets of one kind, their noise growing with the first feature where they are numbers."""
    line = rows @ [0.5, -0.4, 0.2, 0.0, 0.1, 0.3] + 0.2
    if name == "poisson":
        return rng.poisson(np.exp(line)).astype(float)
    if name == "gamma":
        return rng.gamma(2.0, np.exp(line) / 2)
    if name == "logistic":
        return np.where(2 * line + rng.logistic(size=len(rows)) > 0, "yes", "no")
    return line + rng.normal(size=len(rows)) * (0.3 + np.abs(rows[:, 0]))


@pytest.mark.parametrize("name", REFITS)
def test_the_spread_ranks_sixty_rows_as_fifty_real_refits_do(name):
    estimator, rng = REFITS[name], np.random.default_rng(2)
    rows, new = rng.normal(size=(300, 6)), 1.5 * rng.normal(size=(60, 6))
    y = drawn(name, rows, rng)
    audit = rue.LinearRUE().fit(rue.wrap(estimator.fit(rows, y)), (rows, y)).audit(new)
    members = []
    for _ in range(50):
        again = rng.integers(0, 300, size=300)
        refit = clone(estimator).fit(rows[again], y[again])
        members.append(refit.decision_function(new) if audit.decision else refit.predict(new))
    refits = np.std(members, axis=0)
    assert spearmanr(audit.std, refits).statistic >= 0.9
    assert 0.8 < np.median(audit.std) / np.median(refits) < 1.25


def test_targets_that_are_tensors_are_transformed_like_arrays():
    regressor = TransformedTargetRegressor(lm.Ridge(), func=np.log, inverse_func=np.exp).fit(X, POSITIVE)
    arrays = rue.LinearRUE().fit(rue.wrap(regressor), (X, POSITIVE)).audit(X)
    tensors = rue.LinearRUE().fit(rue.wrap(regressor), (X, torch.as_tensor(POSITIVE))).audit(X)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.as_tensor(X), torch.as_tensor(POSITIVE)), batch_size=50
    )
    loaded = rue.LinearRUE().fit(rue.wrap(regressor), loader).audit(X)
    np.testing.assert_array_equal(tensors.std, arrays.std)
    np.testing.assert_allclose(loaded.std, arrays.std, rtol=1e-9)


def test_labels_that_are_tensors_are_encoded_like_arrays():
    y = np.where(TWO == "yes", 7, 3)
    classifier = lm.LogisticRegression(class_weight={3: 2.0, 7: 1.0}).fit(X, y)
    arrays = rue.LinearRUE().fit(rue.wrap(classifier), (X, y)).audit(X)
    tensors = rue.LinearRUE().fit(rue.wrap(classifier), (X, torch.as_tensor(y))).audit(X)
    np.testing.assert_array_equal(tensors.std, arrays.std)


def test_balanced_classes_need_all_labels_at_once():
    classifier = lm.LogisticRegression(class_weight="balanced").fit(X, (TWO == "yes").astype(int))
    loader = torch.utils.data.TensorDataset(torch.as_tensor(X), torch.as_tensor(TWO == "yes").long())
    with pytest.raises(DataError, match="all training rows at once"):
        rue.LinearRUE().fit(rue.wrap(classifier), loader)


@pytest.mark.parametrize("kind", [lm.LogisticRegression(), LinearSVC(dual=False)], ids=str)
def test_classes_balanced_by_sample_weights_are_refused_and_the_same_weights_as_numbers_are_not(kind):
    balanced = clone(kind).set_params(class_weight="balanced").fit(X, TWO, sample_weight=WEIGHT)
    with pytest.raises(DataError, match=r"class_weight=\{label"):
        rue.LinearRUE().fit(rue.wrap(balanced), rue.Data(X, TWO, weight=WEIGHT))
    numbers = compute_class_weight("balanced", classes=np.array(["no", "yes"]), y=TWO, sample_weight=WEIGHT)
    given = clone(kind).set_params(class_weight=dict(zip(["no", "yes"], numbers, strict=True)))
    given.fit(X, TWO, sample_weight=WEIGHT)
    np.testing.assert_allclose(given.coef_, balanced.coef_, rtol=1e-9)
    rue.LinearRUE().fit(rue.wrap(given), rue.Data(X, TWO, weight=WEIGHT))


CLASSIFIERS = [name for name, case in CASES.items() if case.y is TWO or case.y is THREE]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_is_audited_with_probabilities_of_its_own_labels(name):
    auditor = rue.ClassifierRUE().fit(rue.wrap(fitted(name)), (X, CASES[name].y))
    audit = auditor.audit(X)
    np.testing.assert_array_equal(audit.label, fitted(name).predict(X))
    np.testing.assert_allclose(audit.probability.sum(1), 1.0, rtol=1e-12)
    assert np.isfinite(audit.log_prob(CASES[name].y)).all()


@pytest.mark.parametrize("name", ["ridge", "least squares, two targets"])
def test_a_regressor_is_audited_in_one_call(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rue.errors.RueWarning)  # few rows for a perceptron
        audit = rue.audit(fitted(name), train=(X, CASES[name].y), inputs=X[:9])
    np.testing.assert_array_equal(audit.prediction, fitted(name).predict(X[:9]))
    assert (audit.total_std > audit.std).all()


def test_sgd_by_partial_fits_is_the_same_objective():
    regressor = lm.SGDRegressor(
        alpha=0.1, learning_rate="invscaling", eta0=0.2, power_t=0.6, average=20_000, random_state=0
    )
    for _ in range(800):
        regressor.partial_fit(X, NUMBERS)
    gradient, size = pull(rue.wrap(regressor), (X, NUMBERS))
    assert float(gradient.abs().sum() / size) < 1e-3


def test_an_audit_leaves_the_estimator_as_it_was():
    pipeline = make_pipeline(StandardScaler(), lm.LogisticRegression(class_weight="balanced")).fit(X, TWO)
    before = pickle.dumps(pipeline)
    rue.LinearRUE().fit(rue.wrap(pipeline), (X, TWO)).audit(X)
    assert pickle.dumps(pipeline) == before


def test_a_subclass_is_read_like_its_parent():
    class Mine(lm.Ridge):
        pass

    audit = rue.LinearRUE().fit(rue.wrap(Mine(2.0).fit(X, NUMBERS)), (X, NUMBERS)).audit(X)
    parent = rue.LinearRUE().fit(rue.wrap(lm.Ridge(2.0).fit(X, NUMBERS)), (X, NUMBERS)).audit(X)
    np.testing.assert_array_equal(audit.std, parent.std)


def test_importing_rue_does_not_import_scikit_learns_models():
    code = "import sys, rue; print([name for name in sys.modules if name.startswith('sklearn.linear_model')])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_a_classifier_with_weighted_classes_has_its_own_confidence_as_a_baseline():
    name = "softmax, weighted classes"
    audit = rue.Confidence().fit(rue.wrap(fitted(name)), (X, THREE)).audit(X)
    np.testing.assert_allclose(audit.score, 1 - fitted(name).predict_proba(X).max(1), rtol=1e-9)


@pytest.mark.parametrize(("moved", "refused"), [(0.7e-4, False), (1.4e-4, True)])
def test_an_estimator_that_answers_otherwise_than_what_was_read_off_it_is_refused(moved, refused):
    """It may differ by 1e-4 of one and its largest answer."""
    ridge = lm.Ridge().fit(X, NUMBERS)
    auditor = rue.LinearRUE().fit(rue.wrap(ridge), (X, NUMBERS))
    ridge.intercept_ += moved * (1 + np.abs(ridge.predict(X)).max())
    if refused:
        with pytest.raises(ModelError, match="e-04"):
            auditor.audit(X)
    else:
        np.testing.assert_array_equal(auditor.audit(X).prediction, ridge.predict(X))
