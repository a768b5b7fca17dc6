"""What an audit makes of estimators: transformed targets, labels of classes, pipelines around other libraries."""

import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import rue
from rue.core.errors import DataError, InputError, ModelError, RueWarning, ShapeError

rng = np.random.default_rng(0)
X, X_new, X_held = rng.normal(size=(120, 3)), rng.normal(size=(40, 3)), rng.normal(size=(60, 3))


def target(inputs):
    return inputs @ [1.0, 0.5, 0.0] + 0.5 * np.random.default_rng(len(inputs)).normal(size=len(inputs))


z, z_new, z_held = target(X), target(X_new), target(X_held)
labels, labels_new, labels_held = (np.where(v > 0, "high", "low") for v in (z, z_new, z_held))


@pytest.mark.parametrize("method", [rue.LinearRUE(), rue.CalibratedRUE()], ids=lambda method: type(method).__name__)
class TestALogarithmOfTheTarget:
    """A model of log y is audited as the same model of z = log y, and carried through exp."""

    def both(self, method):
        outer = TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp).fit(X, np.exp(z))
        inner = Ridge().fit(X, z)
        return (method.fit(rue.wrap(e), (X, y)) for e, y in ((outer, np.exp(z)), (inner, z)))

    def test_predictions_spreads_and_densities_are_turned(self, method):
        outer, inner = (auditor.audit(X_new) for auditor in self.both(method))
        np.testing.assert_allclose(outer.prediction, np.exp(inner.prediction))
        np.testing.assert_allclose(outer.std, inner.std * outer.prediction, rtol=1e-6)
        np.testing.assert_allclose(outer.total_std, inner.total_std * outer.prediction, rtol=1e-5)
        np.testing.assert_allclose(outer.log_prob(np.exp(z_new)), inner.log_prob(z_new) - z_new, rtol=1e-4)
        for by in (None, "distribution"):
            turned, plain = outer.interval(0.9, by=by), inner.interval(0.9, by=by)
            np.testing.assert_allclose(turned.lower, np.exp(plain.lower), rtol=1e-5)
            np.testing.assert_allclose(turned.upper, np.exp(plain.upper), rtol=1e-5)
            assert turned.guarantee == plain.guarantee

    def test_held_out_rows_calibrate_before_the_transform(self, method):
        outer, inner = self.both(method)
        turned = outer.calibrate(X_held, np.exp(z_held)).audit(X_new)
        plain = inner.calibrate(X_held, z_held).audit(X_new)
        for by in (None, "distribution"):
            np.testing.assert_allclose(
                turned.interval(0.8, by=by).lower, np.exp(plain.interval(0.8, by=by).lower), rtol=1e-5
            )
        assert "guaranteed" in turned.interval(0.8).guarantee


def test_a_link_without_known_noise_says_so():
    audit = rue.audit(PoissonRegressor().fit(X, np.exp(z).round()), train=(X, np.exp(z).round()), inputs=X_new)
    with pytest.raises(InputError, match=r"noise is known for squared error only, and the loss is poisson"):
        audit.interval(0.9)


@pytest.mark.parametrize("library", [lightgbm.LGBMRegressor, xgboost.XGBRegressor], ids=lambda kind: kind.__name__)
def test_boosters_at_the_end_of_pipelines_and_behind_target_transforms(library):
    small = {"n_estimators": 10, "n_jobs": 1, **({"verbose": -1} if library is lightgbm.LGBMRegressor else {})}
    pipeline = make_pipeline(StandardScaler(), library(**small)).fit(X, z)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RueWarning)
        audit = rue.audit(pipeline, train=(X, z), inputs=X_new)
        np.testing.assert_array_equal(audit.prediction, pipeline.predict(X_new))
        turned = TransformedTargetRegressor(library(**small), func=np.log, inverse_func=np.exp).fit(X, np.exp(z))
        positive = rue.audit(turned, train=(X, np.exp(z)), inputs=X_new)
    assert (positive.interval(0.9).lower > 0).all()
    with pytest.raises(ModelError, match="is not fitted; call fit"):
        rue.wrap(library())
    with pytest.raises(DataError, match="cannot take these inputs"):
        rue.LinearRUE().fit(rue.wrap(library(**small).fit(X, z)), (X, z)).audit(X_new[:, :2])


def test_a_stored_model_knows_its_columns_and_categories_by_name(tmp_path):
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=pd.Categorical(rng.choice(list("xyz"), 120)))
    data = lightgbm.Dataset(frame, z + frame["kind"].cat.codes)
    booster = lightgbm.train({"verbose": -1, "num_threads": 1}, data, 15)
    path = tmp_path / "model.txt"
    booster.save_model(path)
    some = frame[frame["kind"] != "x"].copy()
    wanted = booster.predict(some)
    some["kind"] = some["kind"].cat.remove_unused_categories()  # other codes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RueWarning)
        auditor = rue.LinearRUE().fit(rue.wrap(path), (frame, z + frame["kind"].cat.codes))
    np.testing.assert_allclose(auditor.audit(some[["kind", "c", "a", "b"]]).prediction, wanted)
    with pytest.raises(DataError, match="lack 'b'"):
        auditor.audit(some.drop(columns="b"))
    with pytest.raises(ModelError, match="cannot be read"):
        rue.wrap(tmp_path / "nothing.txt")


# Classes


@pytest.fixture
def classifier():
    fitted = LogisticRegression().fit(X, labels)
    return rue.ClassifierRUE().fit(rue.wrap(fitted), (X, labels))


def test_labels_of_a_classifier_are_never_broadcast(classifier):
    with pytest.raises(ShapeError, match="1 labels for 40 rows"):
        classifier.audit(X_new).log_prob(["high"])
    with pytest.raises(ShapeError, match="1 labels for 60 rows"):
        classifier.calibrate(X_held, labels_held[:1])
    by_group = classifier.calibrate(X_held, labels_held, group=np.arange(60) % 2)
    with pytest.raises(ShapeError, match=r"group has shape \(1,\) for 40 audited rows"):
        by_group.audit(X_new).prediction_set(0.9, group=[0])
    with pytest.raises(DataError, match="not loaders"):
        classifier.audit(torch.utils.data.TensorDataset(torch.tensor(X_new)))


def test_columns_of_a_frame_are_called_after_the_classes(classifier):
    frame = classifier.audit(X_new).to_frame()
    assert {"prediction", "probability_high", "probability_low", "flip_probability"} <= set(frame)
    assert set(frame["prediction"]) == {"high", "low"}


def test_a_policy_decides_on_labels(classifier):
    policy = rue.Policy.by_risk(classifier.audit(X_held), labels_held, rue.policy.Wrong(), risk=0.3)
    decision = policy.decide(classifier.audit(X_new))
    accepted = decision.tier == "accept"
    assert accepted.any()
    assert (labels_new != decision.prediction)[accepted].mean() <= 0.3
    with pytest.raises(DataError, match=r"use rue.policy.Wrong\(\)"):
        rue.Policy.by_risk(classifier.audit(X_held), labels_held, rue.policy.Exceeds(0.5), risk=0.3)


def test_scores_that_are_no_logits_get_a_temperature_of_their_own():
    fitted = RidgeClassifier().fit(X, labels)
    audit = rue.audit(fitted, train=(X, labels), inputs=X_new)
    logistic = rue.audit(LogisticRegression().fit(X, labels), train=(X, labels), inputs=X_new)
    assert audit.facts["temperature"] < 0.5
    assert -audit.log_prob(labels_new).mean() < -logistic.log_prob(labels_new).mean() + 0.05


def test_probabilities_where_logits_are_wanted_are_refused():
    net = nn.Sequential(nn.Linear(3, 2), nn.Softmax(-1)).double()
    with pytest.raises(ModelError):
        rue.LinearRUE().fit(rue.wrap(net, loss="cross_entropy", l2=1.0), (X, (z > 0).astype(int)))


def test_the_calibration_error_takes_columns_for_labels():
    with pytest.raises(InputError, match="whole numbers 0 to 1"):
        rue.evaluate.expected_calibration_error([[0.2, 0.8]], ["a"])


# Forests


def test_a_forest_without_a_bag_says_that_resampling_changes_nothing():
    forest = ExtraTreesClassifier(10, random_state=0).fit(X, labels)
    with pytest.warns(RueWarning, match="grow the forest with bootstrap=True"):
        rue.ForestRUE().fit(rue.wrap(forest), (X, labels))


@pytest.mark.parametrize("method", [rue.Laplace(), rue.RUE(members=5), rue.LinearRUE(), rue.BootstrapSGD()])
def test_methods_that_need_one_objective_refuse_forests(method):
    forest = RandomForestRegressor(5, random_state=0).fit(X, z)
    with pytest.raises(ModelError, match="ForestRUE"):
        method.fit(rue.wrap(forest), (X, z))


def test_a_class_no_tree_votes_for_has_a_finite_log_probability():
    forest = RandomForestClassifier(5, random_state=0).fit(X, labels)
    audit = rue.audit(forest, train=(X, labels), inputs=X_new)
    assert np.isfinite(audit.log_prob(np.where(audit.prediction == "high", "low", "high"))).all()
