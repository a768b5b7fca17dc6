"""Boosted ensembles: what is read off them is what they predict, and linear in their leaf values."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import rue
from rue.core.concepts import POINTS
from rue.core.errors import DataError, ModelError, SettingError
from rue.core.gradient_sums import weighted_gradients
from rue.data.features import coordinates
from rue.data.opening import training_rows
from rue.models.trees import scikit_learn as scikit_learn_trees
from rue.models.trees.tree_model import LEAVES, BoostedTrees, TreeReading, leaf_penalty, tree_core
from tree_cases import TOLERANCE, Case, cases, table, targets

pytestmark = pytest.mark.usefixtures("few_trees")

pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")
pytest.importorskip("catboost")


read = rue.wrap


def fitted(case: Case):
    X = table(missing=case.missing)
    y = targets(X)[case.target]
    return case.make().fit(X, y), X, y


@pytest.mark.parametrize("case", cases())
def test_what_is_read_predicts_what_the_library_predicts(case):
    model, X, _ = fitted(case)
    wrapped = read(model)
    outputs = wrapped.predict(wrapped.theta, wrapped.read(X)).numpy()
    raw = np.asarray(case.raw(model, X), dtype=np.float64).reshape(outputs.shape)
    np.testing.assert_allclose(outputs, raw, rtol=TOLERANCE, atol=TOLERANCE * np.abs(raw).max())
    np.testing.assert_array_equal(wrapped.answer(X), np.asarray(model.predict(X)).reshape(len(X)))
    if wrapped.response is not None:
        predicted = np.asarray(model.predict(X), dtype=np.float64)
        np.testing.assert_allclose(wrapped.response.value(outputs)[:, 0], predicted, rtol=10 * TOLERANCE)


@pytest.mark.parametrize("case", cases())
def test_an_audit_of_any_ensemble_is_finite_and_keeps_its_predictions(case):
    model, X, y = fitted(case)
    audit = rue.LinearRUE().fit(read(model), (X, y)).audit(X[:30])
    assert np.isfinite(audit.score).all()
    assert (audit.score > 0).any()
    np.testing.assert_array_equal(audit.prediction, np.asarray(model.predict(X[:30])).reshape(30))
    assert audit.facts["structure"] == "exact leaf values"
    assert "learning_rate" in audit.facts["l2_reason"]


@pytest.mark.parametrize("case", cases())
def test_the_jacobian_is_the_difference_a_leaf_value_makes(case):
    model, X, _ = fitted(case)
    wrapped = read(model)
    inputs = wrapped.read(X[:5])
    known = wrapped.jacobian(inputs)
    at = wrapped.predict(wrapped.theta, inputs)
    for leaf in range(0, wrapped.theta.numel(), 7):
        moved = wrapped.theta.clone()
        moved[leaf] += 1.0
        torch.testing.assert_close(wrapped.predict(moved, inputs) - at, known[:, :, leaf])


@pytest.mark.parametrize("case", cases())
def test_the_gradient_of_a_row_is_its_pull_on_the_leaves_it_meets(case):
    model, X, y = fitted(case)
    rows, bound = training_rows((X, y), read(model))
    weights = torch.rand(2, len(X), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradients = weighted_gradients(bound, rows, weights)
    (batch,) = rows.batches()
    theta = bound.theta.clone().requires_grad_()
    for i in range(2):
        objective = (weights[i] * bound.loss(bound.predict(theta, batch.inputs), batch.targets)).sum()
        torch.testing.assert_close(torch.autograd.grad(objective, theta)[0], gradients[i])


def test_a_projection_keeps_predictions_ranking_and_scale():
    import lightgbm

    X = table(400)
    y = targets(X)["number"]
    model = lightgbm.LGBMRegressor(n_estimators=60, num_leaves=8, n_jobs=1, verbose=-1).fit(X, y)
    exact = rue.wrap(model)
    projected = replace(exact, core=tree_core(exact.core.ensemble, size=1024))
    new = table(200, seed=5)
    torch.testing.assert_close(
        projected.predict(projected.theta, projected.read(new)), exact.predict(exact.theta, exact.read(new))
    )
    ours, theirs = (rue.LinearRUE().fit(one, (X, y)).audit(new) for one in (projected, exact))
    assert spearmanr(ours.std, theirs.std)[0] > 0.97
    assert abs(np.median(ours.std / theirs.std) - 1) < 0.15
    assert ours.facts["structure"] == "random projection of 480 leaf values to 1024"


def test_many_leaves_are_projected_by_themselves():
    draw = np.random.default_rng(0)
    counts = np.full(151, 31)
    ensemble = BoostedTrees(
        draw.normal(size=4681), counts, np.zeros(151, dtype=np.int64), np.zeros(1), rue.losses.squared_error(), 0.1, 0.0
    )
    model = tree_core(ensemble)
    inputs = TreeReading().read(model, {LEAVES: draw.integers(0, 31, size=(4, 151)), POINTS: np.zeros((4, 1))})
    assert model.theta.shape == (4096,)
    place = inputs[LEAVES].numpy() + np.arange(0, 4681, 31)
    np.testing.assert_allclose(model.predict(model.theta, inputs)[:, 0], ensemble.values[place].sum(1))
    features = model.jacobian(inputs)[:, 0]
    same = (inputs[LEAVES][:, None] == inputs[LEAVES][None]).sum(2).double()
    torch.testing.assert_close(features @ features.T, same, rtol=0.0, atol=12.0)  # of 151: five deviations


def test_a_calibrated_audit_sees_points_and_not_leaf_numbers():
    from sklearn.ensemble import HistGradientBoostingRegressor

    X = table(200, missing=True)
    y = targets(X)["number"]
    wrapped = read(HistGradientBoostingRegressor(max_iter=10, max_leaf_nodes=5).fit(X, y))
    np.testing.assert_array_equal(coordinates(wrapped.read(X)), X)
    audit = rue.CalibratedRUE().fit(wrapped, (X, y)).audit(X[:20])
    assert np.isfinite(audit.total_std).all()


@pytest.mark.parametrize(
    ("l2", "rate", "given", "wanted"),
    [
        (0.0, 0.1, None, 20.0),
        (1.0, 0.1, None, 20.0),
        (3.0, 0.5, None, 6.0),
        (None, 0.2, None, 10.0),
        (0.0, 0.1, 7, 7.0),
    ],
)
def test_the_penalty_is_l2_over_the_learning_rate_and_at_least_two_over_it(l2, rate, given, wanted):
    ensemble = BoostedTrees(
        np.zeros(1), np.ones(1, dtype=int), np.zeros(1, dtype=int), np.zeros(1), rue.losses.squared_error(), rate, l2
    )
    assert leaf_penalty(ensemble, given)[0] == pytest.approx(wanted)


@pytest.mark.parametrize("given", [0.0, -1.0, {"*": 1.0}, float("nan")])
def test_a_penalty_that_is_none_is_refused(given):
    from sklearn.ensemble import GradientBoostingRegressor

    X = table(60)
    model = GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0])
    with pytest.raises(SettingError, match="one number above 0"):
        scikit_learn_trees.read(model, None, given)


def test_boosters_answer_as_they_do_themselves():
    import lightgbm
    import xgboost

    X = table(200)
    y = targets(X)
    quiet = {"verbose": -1, "num_threads": 1, "num_leaves": 5}
    ours = lightgbm.train({"objective": "binary", **quiet}, lightgbm.Dataset(X, y["two"]), 5)
    audit = rue.LinearRUE().fit(rue.wrap(ours), (X, y["two"])).audit(X[:9])
    np.testing.assert_array_equal(audit.prediction, ours.predict(X[:9]))  # a probability
    three = {"objective": "multi:softprob", "num_class": 3, "max_depth": 2, "nthread": 1}
    theirs = xgboost.train(three, xgboost.DMatrix(X, y["three"]), 5)
    audit = rue.LinearRUE().fit(rue.wrap(theirs), (X, y["three"])).audit(X[:9])
    np.testing.assert_array_equal(audit.prediction, theirs.predict(xgboost.DMatrix(X[:9])).argmax(1))


def test_early_stopping_leaves_the_best_rounds():
    import lightgbm
    import xgboost

    X = table(200)
    y = targets(X)["number"]
    stopped = xgboost.XGBRegressor(n_estimators=60, learning_rate=0.9, early_stopping_rounds=2, n_jobs=1)
    stopped.fit(X[:150], y[:150], eval_set=[(X[150:], y[150:])], verbose=False)
    seen = lightgbm.Dataset(X[:150], y[:150])
    other = lightgbm.train(
        {"learning_rate": 0.9, "num_threads": 1, "verbose": -1},
        seen,
        60,
        valid_sets=[lightgbm.Dataset(X[150:], y[150:], reference=seen)],
        callbacks=[lightgbm.early_stopping(2, verbose=False)],
    )
    for model in (stopped, other):
        wrapped = rue.wrap(model)
        outputs = wrapped.predict(wrapped.theta, wrapped.read(X))[:, 0]
        np.testing.assert_allclose(outputs, model.predict(X), rtol=TOLERANCE, atol=TOLERANCE)
        assert wrapped.describe()["trees"] < 60


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_a_category_is_the_same_whatever_the_other_rows_of_its_table_are():
    import lightgbm
    import pandas as pd

    draw = np.random.default_rng(0)
    city = np.array(["Aarau", "Bern", "Chur", "Davos"])[draw.integers(0, 4, 150)]
    frame = pd.DataFrame({"x": draw.normal(size=150), "city": pd.Categorical(city)})
    y = frame["x"] + (city == "Aarau") + 0.3 * draw.normal(size=150)
    model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(frame[:100], y[:100])
    auditor = rue.CalibratedRUE().fit(rue.wrap(model), (frame[:100], y[:100]))
    some = frame[100:][city[100:] != "Bern"]
    own = some.assign(city=pd.Categorical(some["city"].astype(str)))  # codes without Bern
    np.testing.assert_array_equal(auditor.audit(own).score, auditor.audit(some).score)


def test_categories_of_a_frame_are_read():
    import lightgbm
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingRegressor

    X = table(240)
    colour = np.array(["red", "green", "blue", "grey"])[np.random.default_rng(3).integers(0, 4, len(X))]
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "colour": pd.Categorical(colour)})
    y = X[:, 0] + 2.0 * (colour == "red")
    binned = HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=6, categorical_features="from_dtype")
    for model in (lightgbm.LGBMRegressor(n_estimators=8, num_leaves=6, n_jobs=1, verbose=-1), binned):
        wrapped = read(model.fit(frame, y))
        audit = rue.LinearRUE().fit(wrapped, (frame, y)).audit(frame[:20])
        np.testing.assert_array_equal(audit.prediction, model.predict(frame[:20]))
        assert coordinates(wrapped.read(frame)).shape == (240, 3)


def test_labels_the_classifier_never_saw_are_refused():
    from sklearn.ensemble import GradientBoostingClassifier

    X = table(60)
    wrapped = read(GradientBoostingClassifier(n_estimators=2).fit(X, np.where(X[:, 0] > 0, "a", "b")))
    with pytest.raises(DataError, match=r"the first being 'c', are none of the classes"):
        rue.LinearRUE().fit(wrapped, (X, np.full(60, "c")))


def _unsupported():
    import catboost
    import lightgbm
    import xgboost
    from sklearn import ensemble

    light = {"n_estimators": 2, "n_jobs": 1, "verbose": -1}
    cat = {"iterations": 2, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    return {
        "LightGBM quantile": (lightgbm.LGBMRegressor(objective="quantile", **light), "regression"),
        "LightGBM l1": (lightgbm.LGBMRegressor(objective="l1", **light), "regression"),
        "LightGBM dart": (lightgbm.LGBMRegressor(boosting_type="dart", **light), "gbdt"),
        "LightGBM rf": (
            lightgbm.LGBMRegressor(boosting_type="rf", subsample=0.5, subsample_freq=1, **light),
            "forest of scikit-learn",
        ),
        "LightGBM linear": (lightgbm.LGBMRegressor(linear_tree=True, **light), "constant leaves"),
        "XGBoost absolute": (xgboost.XGBRegressor(n_estimators=2, objective="reg:absoluteerror"), "reg:squarederror"),
        "XGBoost dart": (xgboost.XGBRegressor(n_estimators=2, booster="dart"), "gbtree"),
        "XGBoost linear": (xgboost.XGBRegressor(n_estimators=2, booster="gblinear"), "gbtree"),
        "CatBoost MAE": (catboost.CatBoostRegressor(loss_function="MAE", **cat), "RMSE"),
        "scikit-learn huber": (ensemble.GradientBoostingRegressor(n_estimators=2, loss="huber"), "squared_error"),
        "scikit-learn quantile": (
            ensemble.HistGradientBoostingRegressor(max_iter=2, loss="quantile", quantile=0.5),
            "squared_error",
        ),
    }


@pytest.mark.parametrize("name", _unsupported())
def test_what_is_no_sum_of_leaf_values_is_known_by_its_predictions_and_the_nearest_choice_is_named(name):
    model, advice = _unsupported()[name]
    X = table(80)
    y = X[:, 0] + X[:, 1]
    wrapped = read(model.fit(X, y))
    assert not wrapped.family.gradients
    assert advice in wrapped.describe()["known_of_it"]
    np.testing.assert_array_equal(wrapped.read(X)["said"][:, 0], model.predict(X))
    with pytest.raises(ModelError, match="CalibratedRUE"):
        rue.LinearRUE().fit(wrapped, (X, y))


def test_a_loss_that_is_given_is_believed():
    import lightgbm

    X = table(120)
    y = X[:, 0] + X[:, 1]
    own = lightgbm.train(
        {"objective": lambda f, data: (f - data.get_label(), np.ones_like(f)), "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(X, y),
        5,
    )
    with pytest.raises(ModelError, match="custom"):
        rue.wrap(own)
    audit = rue.LinearRUE().fit(rue.wrap(own, loss="squared_error"), (X, y)).audit(X[:5])
    np.testing.assert_array_equal(audit.prediction, own.predict(X[:5]))
