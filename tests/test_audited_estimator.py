"""`AuditedEstimator` is a citizen of scikit-learn, and its audit that of the estimator."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._test_common.instance_generator import _get_expected_failed_checks
from sklearn.utils.estimator_checks import check_estimator

import rue

pytestmark = [
    pytest.mark.filterwarnings("ignore::rue.errors.RueWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
X, y = load_diabetes(return_X_y=True)
X, y = X[:120], y[:120]
NOT_CHECKED = {"check_array_api_input"}  # asks for an environment variable that SciPy reads before it is imported


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (Ridge(), rue.LinearRUE()),
        (LogisticRegression(), None),
        (RandomForestClassifier(5, random_state=0), None),
        pytest.param(Ridge(), None, marks=pytest.mark.slow),
        pytest.param(RandomForestRegressor(5, random_state=0), None, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_scikit_learns_own_checks_pass(estimator, method):
    """What fails of the estimator itself, by scikit-learn's own list, may fail of its audit."""
    found = check_estimator(
        rue.AuditedEstimator(estimator, method),
        on_fail=None,
        on_skip=None,
        expected_failed_checks=_get_expected_failed_checks(estimator),
    )
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] not in ("passed", "xfail")}
    assert failed.keys() <= NOT_CHECKED, failed
    assert len(found) > 50


def test_predictions_and_audits_are_those_of_the_estimator():
    audited = rue.AuditedEstimator(Ridge()).fit(X, y)
    alone = Ridge().fit(X, y)
    np.testing.assert_array_equal(audited.predict(X), alone.predict(X))
    assert audited.score(X, y) == alone.score(X, y)
    wanted = rue.audit(alone, train=(X, y), inputs=X[:5])
    np.testing.assert_array_equal(audited.audit(X[:5]).score, wanted.score)
    assert audited.n_features_in_ == 10


def test_it_goes_into_pipelines_searches_and_cross_validation():
    audited = rue.AuditedEstimator(Ridge(), rue.LinearRUE())
    assert is_regressor(audited)
    pipeline = make_pipeline(StandardScaler(), audited).fit(X, y)
    assert pipeline[-1].audit(pipeline[:-1].transform(X[:3])).std.shape == (3,)
    predicted = cross_val_predict(audited, X, y, cv=3)
    np.testing.assert_array_equal(predicted, cross_val_predict(Ridge(), X, y, cv=3))
    search = GridSearchCV(audited, {"estimator__alpha": [0.1, 10.0]}, cv=2).fit(X, y)
    assert search.best_estimator_.audit(X[:3]).score.shape == (3,)
    again = clone(search.best_estimator_)
    assert again.get_params()["estimator__alpha"] == search.best_params_["estimator__alpha"]
    assert not hasattr(again, "auditor_")


def test_classes_frames_and_weights():
    labels = np.where(y > 120, "ill", "well")
    frame = pd.DataFrame(X, columns=[f"column {number}" for number in range(10)])
    weight = np.linspace(0.5, 2.0, len(y))
    audited = rue.AuditedEstimator(LogisticRegression()).fit(frame, labels, sample_weight=weight)
    assert is_classifier(audited)
    assert list(audited.classes_) == ["ill", "well"]
    np.testing.assert_array_equal(
        audited.predict_proba(frame), LogisticRegression().fit(frame, labels, weight).predict_proba(frame)
    )
    assert list(audited.feature_names_in_) == list(frame.columns)
    assert set(audited.audit(frame[:4]).prediction) <= {"ill", "well"}
    assert hasattr(rue.AuditedEstimator(LogisticRegression()), "predict_proba")
    assert not hasattr(rue.AuditedEstimator(Ridge()), "predict_proba")


def test_it_is_pickled_and_asked_too_early():
    audited = rue.AuditedEstimator(HistGradientBoostingRegressor(max_iter=5), rue.CalibratedRUE()).fit(X, y)
    again = pickle.loads(pickle.dumps(audited))
    np.testing.assert_array_equal(again.audit(X[:4]).score, audited.audit(X[:4]).score)
    for ask in ("audit", "predict"):
        with pytest.raises(NotFittedError):
            getattr(rue.AuditedEstimator(Ridge()), ask)(X)
    with pytest.raises(rue.errors.DataError, match="n_samples = 1"):
        rue.AuditedEstimator(Ridge()).fit(X[:1], y[:1])
