"""Models that are seen from outside: by their predictions, beside witnesses, refits in folds or held-out rows."""

import pickle
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn import ensemble, neighbors, svm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import rue
from rue.calibrate.array_forest import ArrayForest
from rue.calibrate.left_out import Folds, ForestWitness, Influence, KernelWitness, Linearised, Mixture, Witnesses
from rue.calibrate.shrinkage import best_temperature
from rue.core.derivatives import outputs
from rue.core.errors import ModelError, SettingError
from rue.data.features import Standardiser, coordinates, training_points
from rue.data.opening import training_rows
from rue.methods.crossed import NEAR, _put_together, crossed
from rue.methods.fitting import fitting
from rue.methods.outside_classes import margins_from_outside
from rue.models import best_known
from rue.models.again import copies, unfitted
from rue.models.tables import described


def problem(n=300, m=400, p=4, seed=0):
    """Numbers whose noise is three times as large on one side, and classes."""
    source = np.random.default_rng(seed)
    X, X_new = source.normal(size=(n, p)), source.normal(size=(m, p))

    def targets(X):
        return np.sin(2 * X[:, 0]) + X[:, 1] + source.normal(size=len(X)) * np.where(X[:, 2] > 0, 0.6, 0.2)

    y, y_new = targets(X), targets(X_new)
    return SimpleNamespace(X=X, y=y, X_new=X_new, y_new=y_new, labels=np.where(y > 0, "up", "down"))


class Box:
    """Knows two columns and says a number, nothing else."""

    def __init__(self):
        self.asked = 0

    def predict(self, X):
        self.asked += 1
        X = np.asarray(X)
        return np.sin(2 * X[:, 0]) + 0.9 * X[:, 1]


NUMBERS = {
    "a function": lambda *_: Box(),
    "neighbours": lambda X, y: neighbors.KNeighborsRegressor().fit(X, y),
    "support vectors": lambda X, y: svm.SVR().fit(X, y),
    "voting": lambda X, y: ensemble.VotingRegressor([("a", Ridge()), ("b", svm.SVR())]).fit(X, y),
    "stacking": lambda X, y: ensemble.StackingRegressor([("a", Ridge()), ("b", svm.SVR())]).fit(X, y),
    "boosted trees": lambda X, y: ensemble.HistGradientBoostingRegressor(max_iter=30).fit(X, y),
    "boosted medians": lambda X, y: ensemble.GradientBoostingRegressor(loss="absolute_error").fit(X, y),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("refit", [False, None])
def test_numbers_by_predictions_alone_are_covered_and_their_errors_found(name, refit):
    data = problem()
    model = NUMBERS[name](data.X, data.y)
    audit = rue.audit(model, train=(data.X, data.y), inputs=data.X_new, refit=refit)
    np.testing.assert_array_equal(audit.prediction, model.predict(data.X_new))
    lower, upper, said = audit.interval(0.9)
    assert 0.84 <= ((lower <= data.y_new) & (data.y_new <= upper)).mean() <= 0.97
    assert "not guaranteed" in said
    errors = np.abs(data.y_new - audit.prediction)
    assert 0.8 <= np.sqrt((audit.total_std**2).mean() / (errors**2).mean()) <= 1.45  # better than its witnesses
    noisy = data.X_new[:, 2] > 0
    assert audit.score[noisy].mean() > 1.3 * audit.score[~noisy].mean()
    trained = refit is None and name != "a function"
    assert audit.facts["left_out"] == ("refits" if trained else "witnesses")
    assert ("trainings" in audit.facts) == trained


CLASSES = {
    "neighbours": lambda X, y: neighbors.KNeighborsClassifier().fit(X, y),
    "labels alone": lambda X, y: svm.SVC().fit(X, y),
    "calibrated": lambda X, y: CalibratedClassifierCV(svm.LinearSVC(), cv=3).fit(X, y),
    "saturated trees": lambda X, y: ensemble.HistGradientBoostingClassifier(max_iter=200).fit(X, y),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("refit", [False, None])
def test_the_score_of_classes_by_predictions_alone_is_the_share_of_mistakes(name, refit):
    data = problem(n=400)
    model = CLASSES[name](data.X, data.labels)
    audit = rue.audit(model, train=(data.X, data.labels), inputs=data.X_new, refit=refit)
    np.testing.assert_array_equal(audit.prediction, model.predict(data.X_new))
    wrong = audit.prediction != np.where(data.y_new > 0, "up", "down")
    assert abs(audit.score.mean() - wrong.mean()) < 0.06
    assert audit.score[wrong].mean() > 1.3 * audit.score[~wrong].mean()
    np.testing.assert_allclose(audit.probability.sum(1), 1)


def test_a_classifier_that_knows_its_rows_by_heart_is_as_sure_as_new_rows_allow():
    data = problem(n=400, m=2000, p=8)
    model = neighbors.KNeighborsClassifier().fit(data.X, data.labels)  # every row is among its own neighbours
    found = rue.audit(model, train=(data.X, data.labels), inputs=data.X_new[:5], refit=False).facts["temperature"]
    logits = torch.tensor(np.log(np.clip(model.predict_proba(data.X_new), 1e-6, 1)))
    new = torch.tensor(np.searchsorted(model.classes_, np.where(data.y_new > 0, "up", "down")))
    wanted = best_temperature("largest", logits, new, torch.full((2000,), 1 / 2000, dtype=torch.float64))[0] ** 0.5
    assert 0.5 < found / wanted < 2  # 0.28 at the training rows themselves


def test_a_function_is_asked_once_for_all_training_rows_once_for_the_audited_ones_and_twice_for_a_few():
    data, box = problem(), Box()
    rue.audit(box, train=(data.X, data.y), inputs=data.X_new)
    assert box.asked == 4


def test_witnesses_are_not_those_who_are_audited():
    data = problem()
    good = rue.audit(Box(), train=(data.X, data.y), inputs=data.X_new)
    worse = rue.audit(
        SimpleNamespace(predict=lambda X: Box().predict(X) + 2 * (X[:, 3] > 1)),
        train=(data.X, data.y),
        inputs=data.X_new,
    )
    off = data.X_new[:, 3] > 1.1
    assert (worse.score[off] > 1.5 * good.score[off]).mean() > 0.9
    usual = data.X_new[:, 3] < 0.9
    assert np.median(np.abs(worse.score - good.score)[usual]) < 0.05 * good.score.mean()


def test_left_out_rows_of_a_forest_are_those_of_trees_that_have_not_drawn_them(monkeypatch):
    grown, read = [], ArrayForest.of
    monkeypatch.setattr(ArrayForest, "of", lambda each: grown.append(each) or read(each))
    data = problem(n=80)
    rows, model = training_rows((data.X, data.y), rue.wrap(Box()))
    found = ForestWitness().gather(model, rows, None, 0)
    (forest,) = grown
    order = np.lexsort(np.hstack([Standardiser.of(data.X)(data.X), np.ones((80, 1))]).T)
    points = Standardiser.of(data.X)(data.X)[order].astype(np.float32)
    expected = np.empty(80)
    for i in range(80):
        said = [
            tree.predict(points[i : i + 1])[0]
            for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True)
            if i not in drawn
        ]
        expected[order[i]] = np.mean(said) * data.y.std() + data.y.mean()
    np.testing.assert_allclose(found.prediction[:, 0], expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:a copy has a mean loss")
def test_left_out_rows_of_folds_are_those_of_copies_without_them():
    data = problem(n=90)
    model = Ridge(alpha=3.0).fit(data.X, data.y)
    seen = []

    def refit(rows):
        seen.append(np.asarray(rows))
        return Ridge(alpha=3.0).fit(data.X[rows], data.y[rows])

    auditor = rue.CalibratedRUE().fit(rue.wrap(Box()), (data.X, data.y), refit=refit, left_out=Folds(5))
    left = auditor.assess.evidence.prediction[:, 0].numpy()
    assert len(seen) == 5
    for rows in seen:
        held = np.setdiff1d(np.arange(90), rows)
        np.testing.assert_allclose(left[held], Ridge(alpha=3.0).fit(data.X[rows], data.y[rows]).predict(data.X[held]))
    assert sorted(np.concatenate([np.setdiff1d(np.arange(90), rows) for rows in seen]).tolist()) == list(range(90))
    assert model.coef_.shape == (4,)


@pytest.mark.filterwarnings("ignore:copies")
def test_groups_are_left_out_together_by_witnesses_and_by_folds():
    data = problem(n=60)
    X, y = np.repeat(data.X, 4, axis=0), np.repeat(data.y, 4)  # every row four times: its group knows it
    group = np.repeat(np.arange(60), 4)
    model = neighbors.KNeighborsRegressor(4).fit(X, y)
    for refit in (False, None):
        apart = rue.audit(model, train=rue.Data(X, y, group=group), inputs=data.X_new, refit=refit)
        alone = rue.audit(model, train=(X, y), inputs=data.X_new, refit=refit)
        error = np.sqrt(((data.y_new - apart.prediction) ** 2).mean())
        assert np.sqrt((apart.total_std**2).mean()) > 0.7 * error
        assert np.sqrt((alone.total_std**2).mean()) < 0.8 * np.sqrt((apart.total_std**2).mean())


@pytest.mark.filterwarnings("ignore:copies")
@pytest.mark.parametrize("rule", [ForestWitness(), KernelWitness(), Folds(4)])
def test_no_source_knows_a_row_by_its_group(rule):
    draw = np.random.default_rng(0)
    X, y = np.repeat(draw.normal(size=(60, 3)), 4, axis=0), np.repeat(draw.normal(size=60), 4)  # only copies tell y
    model = neighbors.KNeighborsRegressor(40).fit(X, y)
    train = rue.Data(X, y, group=np.repeat(np.arange(60), 4))
    left_out = rue.CalibratedRUE().fit(rue.wrap(model), train, left_out=rule).assess.evidence.prediction[:, 0].numpy()
    assert ((y - left_out) ** 2).mean() > 0.8 * y.var()


@pytest.mark.parametrize("rule", [Witnesses(), ForestWitness(), KernelWitness(), Folds(4)])
def test_every_source_can_be_asked_for(rule):
    data = problem(n=120)
    model = ensemble.GradientBoostingRegressor(n_estimators=20).fit(data.X, data.y)
    audit = rue.audit(model, train=(data.X, data.y), inputs=data.X_new, left_out=rule)
    assert np.isfinite(audit.total_std).all()
    assert audit.facts["left_out_why"].startswith("as asked")
    assert audit.facts["left_out"] == {Witnesses: "witnesses", Folds: "refits"}.get(type(rule), "witness")


def test_nothing_is_trained_where_that_is_forbidden():
    data = problem(n=100)
    model = neighbors.KNeighborsRegressor().fit(data.X, data.y)
    with pytest.raises(SettingError, match="refit=False"):
        rue.audit(model, train=(data.X, data.y), inputs=data.X, refit=False, left_out=Folds(4))
    forest = ensemble.RandomForestRegressor(20).fit(data.X, data.y)
    assert rue.audit(forest, train=(data.X, data.y), inputs=data.X, refit=False).method == "ForestRUE"


def test_trainings_that_take_long_are_not_made_unasked(monkeypatch):
    monkeypatch.setattr("rue.left_out.sources.UNASKED", 1e-9)
    data = problem(n=100)
    audit = rue.audit(neighbors.KNeighborsRegressor().fit(data.X, data.y), train=(data.X, data.y), inputs=data.X_new)
    assert audit.facts["left_out"] == "witnesses"
    assert "are spent unasked: left_out=rue.left_out.Folds() asks for them" in audit.facts["left_out_why"]


def test_the_estimator_and_the_global_random_state_stay_as_they_were():
    data = problem(n=100)
    model = ensemble.GradientBoostingRegressor(n_estimators=5, subsample=0.5).fit(data.X, data.y)
    before, state = pickle.dumps(model), np.random.get_state()[1].copy()  # noqa: NPY002  what users share
    first = rue.audit(model, train=(data.X, data.y), inputs=data.X_new)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002  as above
    assert pickle.dumps(model) == before
    np.testing.assert_array_equal(first.score, rue.audit(model, train=(data.X, data.y), inputs=data.X_new).score)


def frame(n, seed=0):
    """Numbers with gaps, words, a category and yes or no."""
    source = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": np.where(source.random(n) < 0.2, np.nan, source.normal(50, 10, n)),
            "town": source.choice(["Ulm", "Bonn", "Trier", "Jena"], n),
            "stage": pd.Categorical(source.choice(["I", "II", "III"], n), categories=["I", "II", "III"]),
            "smokes": source.random(n) < 0.3,
        }
    )
    effect = table["town"].map({"Ulm": 0.0, "Bonn": 2.0, "Trier": -2.0, "Jena": 1.0}).to_numpy()
    y = effect + 3.0 * table["age"].isna() + (table["stage"] == "III") + 0.1 * source.normal(size=n)
    return table, y.to_numpy()


class Table:
    """Takes a frame as it is."""

    def predict(self, table):
        town = table["town"].map({"Ulm": 0.0, "Bonn": 2.0, "Trier": -2.0, "Jena": 1.0}).to_numpy()
        return town + 3.0 * table["age"].isna().to_numpy()


def test_words_categories_and_missing_values_reach_the_witnesses():
    X, y = frame(400)
    X_new, y_new = frame(300, seed=1)
    auditor = rue.CalibratedRUE().fit(rue.wrap(Table()), (X, y))
    left = auditor.assess.evidence.prediction[:, 0].numpy()
    points = training_points(training_rows((X, y), rue.wrap(Table()))[0])[1]
    assert points.shape == (400, 2 + 1 + 4 + 3)  # age and smokes, where age is missing, towns, stages
    assert np.sqrt(((y - left) ** 2).mean()) < 0.3  # of 2.2: towns, gaps and stages all tell
    audit = auditor.audit(X_new)
    late = (X_new["stage"] == "III").to_numpy()
    assert audit.score[late].mean() > 2 * audit.score[~late].mean()  # the model knows nothing of stages
    lower, upper, _ = audit.interval(0.9)
    assert ((lower <= y_new) & (y_new <= upper)).mean() > 0.85


def test_a_category_is_the_same_in_every_table_and_an_unknown_one_is_none_of_them():
    X, _ = frame(50)
    both = described(X)
    again = described(X.iloc[[7]].assign(stage=pd.Categorical(X["stage"].iloc[[7]].astype(str))))
    np.testing.assert_array_equal(again["rue.levels"], both["rue.levels"][[7]])
    values = np.hstack([both["rue.points"], both["rue.levels"]])
    standardise = Standardiser.of(values, named=2)
    strange = values[:1].copy()
    strange[0, -2] = 1.0
    assert standardise(strange).shape == standardise(values[:1]).shape
    towns = slice(3, 7)  # after two numbers and the gaps of one
    assert (standardise.wide(values)[:, towns].sum(1) == 1).all()
    assert standardise.wide(strange)[:, towns].sum() == 0


def test_gaps_that_training_never_had_are_filled_with_the_mean():
    values = np.random.default_rng(0).normal(size=(40, 3))
    standardise = Standardiser.of(values)
    holed = values[:1].copy()
    holed[0, 1] = np.nan
    np.testing.assert_allclose(standardise(holed)[0, 1], 0, atol=1e-12)


def test_order_of_rows_and_units_of_numbers_do_not_matter():
    data = problem(n=200)
    plain = rue.audit(Box(), train=(data.X, data.y), inputs=data.X_new)
    place = np.random.default_rng(1).permutation(200)
    turned = rue.audit(Box(), train=(data.X[place], data.y[place]), inputs=data.X_new)
    np.testing.assert_allclose(turned.score, plain.score, rtol=0.02)
    for unit in (1e-9, 1e9):
        scaled = rue.audit(
            SimpleNamespace(predict=lambda X, unit=unit: unit * Box().predict(X)),
            train=(data.X, unit * data.y),
            inputs=data.X_new,
        )
        np.testing.assert_allclose(scaled.score, unit * plain.score, rtol=0.02)


def test_weights_reach_copies_and_witnesses():
    data = problem(n=200)
    weight = np.where(data.X[:, 0] > 0, 1.0, 0.0)
    model = Ridge().fit(data.X, data.y, sample_weight=weight)
    made = copies(model, data.X, data.y, weight, 0)(np.arange(150))
    np.testing.assert_allclose(
        made.coef_, Ridge().fit(data.X[:150], data.y[:150], sample_weight=weight[:150]).coef_, rtol=1e-10
    )
    piped = make_pipeline(StandardScaler(), Ridge()).fit(data.X, data.y, ridge__sample_weight=weight)
    assert copies(piped, data.X, data.y, weight, 0)(np.arange(150)).predict(data.X[:2]).shape == (2,)
    assert copies(neighbors.KNeighborsRegressor(), data.X, data.y, weight, 0) is None
    audit = rue.audit(
        svm.SVR().fit(data.X, data.y, weight), train=rue.Data(data.X, data.y, weight=weight), inputs=data.X
    )
    assert np.isfinite(audit.total_std).all()


def test_copies_have_the_settings_the_estimator_ended_with():
    lightgbm, xgboost, catboost = (pytest.importorskip(name) for name in ("lightgbm", "xgboost", "catboost"))
    data = problem(n=200)
    held = [(data.X_new, data.y_new)]
    light = lightgbm.LGBMRegressor(n_estimators=500, verbose=-1, n_jobs=1)
    stop = lightgbm.early_stopping(5, verbose=False)
    light.fit(data.X, data.y, eval_X=data.X_new, eval_y=data.y_new, callbacks=[stop])
    assert unfitted(light).n_estimators == light.best_iteration_ < 500
    codes = np.column_stack([data.X[:, 0], np.random.default_rng(0).integers(0, 12, 200)])
    named = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(codes, data.y, categorical_feature=[1])
    made = copies(named, codes, data.y, None, 0)(np.arange(200))
    np.testing.assert_array_equal(made.predict(codes), named.predict(codes))
    piped = make_pipeline("passthrough", lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1))
    piped.fit(codes, data.y, lgbmregressor__categorical_feature=[1])
    made = copies(piped, codes, data.y, None, 0)(np.arange(200))
    np.testing.assert_array_equal(made.predict(codes), named.predict(codes))
    extreme = xgboost.XGBRegressor(n_estimators=500, early_stopping_rounds=5, n_jobs=1)
    extreme.fit(data.X, data.y, eval_set=held, verbose=False)
    again = unfitted(extreme)
    assert (again.n_estimators, again.early_stopping_rounds) == (extreme.best_iteration + 1, None)
    again.fit(data.X, data.y)
    words = pd.DataFrame({"a": data.X[:, 0], "b": np.where(data.X[:, 1] > 0, "x", "y")})
    cat = catboost.CatBoostRegressor(iterations=200, verbose=0, allow_writing_files=False, thread_count=1)
    cat.fit(words, data.y, cat_features=["b"], eval_set=(words, data.y), early_stopping_rounds=5)
    made = unfitted(cat)
    assert made.get_params()["iterations"] == cat.tree_count_
    assert made.get_params()["learning_rate"] == cat.learning_rate_
    made.fit(words, data.y)
    said = catboost.CatBoostRegressor(5, cat_features=["b"], verbose=0, allow_writing_files=False).fit(words, data.y)
    assert unfitted(said).fit(words, data.y).get_cat_feature_indices() == [1]


def test_a_search_is_not_repeated_and_what_is_frozen_is_never_copied():
    data = problem(n=100)
    search = GridSearchCV(make_pipeline(StandardScaler(), svm.SVR()), {"svr__C": [0.1, 10.0]}).fit(data.X, data.y)
    assert search.best_params_["svr__C"] == unfitted(search)["svr"].C
    target = TransformedTargetRegressor(svm.SVR(), transformer=StandardScaler()).fit(data.X, data.y)
    assert isinstance(unfitted(target), TransformedTargetRegressor)
    frozen = CalibratedClassifierCV(FrozenEstimator(LogisticRegression().fit(data.X, data.labels)))
    frozen.fit(data.X, data.labels)
    assert copies(frozen, data.X, data.labels, None, 0) is None
    assert rue.audit(frozen, train=(data.X, data.labels), inputs=data.X).facts["left_out"] == "witnesses"


def test_pipelines_of_frames_are_copied_with_their_columns():
    X, y = frame(200)
    towns = make_column_transformer((OneHotEncoder(), ["town"]), remainder="drop")
    model = make_pipeline(towns, neighbors.KNeighborsRegressor()).fit(X, y)
    audit = rue.audit(model, train=(X, y), inputs=X[:20])
    assert audit.facts["trainings"] == 8
    np.testing.assert_array_equal(audit.prediction, model.predict(X[:20]))


def test_a_network_is_refitted_from_scratch_where_the_user_says_how():
    data = problem(n=200)
    X, y = torch.tensor(data.X), torch.tensor(data.y)

    def train(rows):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        for _ in range(200):
            optimizer.zero_grad()
            (net(X[rows])[:, 0] - y[rows]).square().mean().backward()
            optimizer.step()
        return net

    net = train(np.arange(200))
    audit = rue.audit(net, train=(X, y), inputs=torch.tensor(data.X_new), loss=torch.nn.MSELoss(), refit=train)
    assert audit.facts["left_out"] == "refits"
    assert audit.facts["trainings"] == 8
    lower, upper, _ = audit.interval(0.9)
    assert 0.84 <= ((lower <= data.y_new) & (data.y_new <= upper)).mean() <= 0.96
    assert (audit.std > 0).all()


def test_held_out_rows_guarantee_intervals_and_sets_of_any_model():
    data = problem()
    half = len(data.X_new) // 2
    held, new = slice(0, half), slice(half, None)
    audit = rue.audit(
        Box(), train=(data.X, data.y), inputs=data.X_new[new], validation=(data.X_new[held], data.y_new[held])
    )
    lower, upper, said = audit.interval(0.9)
    assert "split conformal" in said
    assert 0.82 <= ((lower <= data.y_new[new]) & (data.y_new[new] <= upper)).mean() <= 0.97
    labels = np.where(data.y_new > 0, "up", "down")
    model = neighbors.KNeighborsClassifier().fit(data.X, data.labels)
    sets = rue.audit(
        model, train=(data.X, data.labels), inputs=data.X_new[new], validation=(data.X_new[held], labels[held])
    ).prediction_set(0.9)
    inside = sets.members[np.arange(half), np.searchsorted(model.classes_, labels[new])]
    assert inside.mean() > 0.82


def test_several_targets_of_a_black_box():
    data = problem()
    both = np.column_stack([data.y, 100 * data.X[:, 3]])
    audit = rue.audit(LinearBox(data.X, both), train=(data.X, both), inputs=data.X_new, refit=False)
    assert audit.total_std.shape == (400, 2)


class LinearBox:
    """Two numbers for each row."""

    def __init__(self, X, y):
        self.inside = LinearRegression().fit(X, y)

    def predict(self, X):
        return self.inside.predict(X)


def test_inputs_unlike_training_rows_are_marked_and_not_believed():
    data = problem()
    far = data.X_new[:50] + np.array([0, 0, 12.0, 0])
    audit = rue.audit(Box(), train=(data.X, data.y), inputs=np.vstack([data.X_new[:50], far]))
    assert audit.scarce[50:].all()
    assert audit.scarce[:50].mean() < 0.2


def test_the_variance_of_a_strange_input_is_halfway_to_the_overall_one_and_resampling_has_its_weight():
    data = problem()
    far = data.X_new[:20] + np.array([0, 0, 12.0, 0])
    auditor = rue.CalibratedRUE().fit(rue.wrap(Box()), (data.X, data.y), refit=False)
    spread = replace(auditor.assess, overall=100 * auditor.assess.overall)
    found = spread(auditor.model, auditor.model.read(far))
    total, guard = (part[:, 0, 0].numpy() for part in found.calibrated[:2])
    believed, overall = total - guard, float(spread.overall[0])
    np.testing.assert_allclose(total, np.sqrt(believed * np.maximum(believed, overall)))
    assert (guard > 0).any()

    moved = torch.full((20, 1, 1), 3.0, dtype=torch.float64)
    resampled = SimpleNamespace(covariance=lambda _: moved)
    weighed = replace(spread, resampled=resampled, weights=np.append(spread.weights[:3], 2.0))
    near = auditor.model.read(data.X_new[:20])
    plain, more = spread(auditor.model, near), weighed(auditor.model, near)
    usual = plain.calibrated.scarce == 0
    torch.testing.assert_close((more.calibrated.total - plain.calibrated.total)[usual], 2 * moved[usual])


def test_checks_and_explanations_of_a_black_box_say_what_cannot_be_known():
    data = problem(n=100)
    auditor = rue.CalibratedRUE().fit(rue.wrap(Box()), (data.X, data.y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checked = auditor.check(data.X_new)
    assert "known by its predictions alone" in checked.left_out["at rest"]
    assert checked["training fit"].light in ("green", "amber", "red")


def test_a_kernel_is_chosen_by_the_same_rows_whatever_their_order():
    data = problem(n=700)
    points = training_points(training_rows((data.X, data.y), rue.wrap(Box()))[0])[1]
    assert points.shape == (700, 4)
    first = rue.CalibratedRUE().fit(rue.wrap(Box()), (data.X, data.y)).facts["witness_kernel"]
    place = np.random.default_rng(0).permutation(700)
    assert rue.CalibratedRUE().fit(rue.wrap(Box()), (data.X[place], data.y[place])).facts["witness_kernel"] == first


def test_a_report_tells_two_black_boxes_apart_by_what_they_say():
    data = problem(n=60)
    found = []
    for shift in (0.0, 0.1):
        box = SimpleNamespace(predict=lambda X, shift=shift: Box().predict(X) + shift)
        auditor = rue.CalibratedRUE().fit(rue.wrap(box), (data.X, data.y))
        report = rue.report(auditor, data.X_new[:20], data.y_new[:20])
        blocks = next(part for part in report.document["sections"] if part["id"] == "identity")["blocks"]
        facts = next(block for block in blocks if block["id"] == "fingerprints")["items"]
        found.append(next(fact for fact in facts if fact["label"] == "Weights"))
    assert found[0]["value"] != found[1]["value"]
    assert "its weights are not known" in found[0]["note"]


def test_copies_that_cannot_be_trained_leave_it_to_witnesses_unless_asked_for():
    data = problem(n=60)
    labels = np.where(np.arange(60) == 0, "rare", data.labels)
    model = neighbors.KNeighborsClassifier().fit(data.X, labels)
    audit = rue.audit(model, train=(data.X, labels), inputs=data.X_new)
    assert audit.facts["left_out"] == "witnesses"
    assert "a class has one row only" in audit.facts["left_out_why"]
    for rule in (Linearised(), Influence(), Mixture()):
        with pytest.raises(ModelError, match="no tangent"):
            rue.audit(Box(), train=(data.X, data.y), inputs=data.X_new, left_out=rule)
    assert np.isfinite(rue.audit(Box(), train=(data.X[:6], data.y[:6]), inputs=data.X_new).total_std).all()


def test_artificial_rows_are_put_together_from_a_row_and_one_of_its_neighbours(monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 6)) * [1, 1, 1, 1, 1, 1000]
    data, model = training_rows((X, X[:, 0]), rue.wrap(Box()))
    Z = (X - X.mean(0)) / X.std(0)
    nearest = np.argsort(((Z[:, None] - Z[None]) ** 2).sum(-1), axis=1)  # the row itself first
    ranks, own = [], []
    for seed in range(30):
        made = coordinates(crossed(model, data, seed))
        of = np.argmax(made[:, None] == X[None], axis=1)  # (n, p), the row that each entry was taken from
        np.testing.assert_array_equal(X[of, np.arange(6)], made)
        for i, row in enumerate(of):
            others = set(row.tolist()) - {i}
            assert len(others) <= 1
            own.append((row == i).mean())
            ranks += [int(np.flatnonzero(nearest[i] == other)[0]) for other in others]
    assert np.mean(own) == pytest.approx(0.5, abs=0.05)
    assert set(ranks) == set(range(1, NEAR + 1))
    assert np.std(np.bincount(ranks)[1:]) < 0.15 * np.mean(np.bincount(ranks)[1:])  # all alike
    monkeypatch.setattr("rue.methods.crossed.ROWS", 25)
    fewer = coordinates(crossed(model, data, 0))
    assert fewer.shape == (25, 6)
    assert len(np.unique(fewer, axis=0)) == 25


def test_columns_of_a_table_are_put_together_entry_by_entry():
    X, _ = frame(9)
    rows = np.random.default_rng(0).integers(0, 9, (5, 4))
    made = _put_together(X, rows)
    assert list(made.columns) == list(X.columns)
    assert list(made.dtypes) == list(X.dtypes)
    for i in range(5):
        for j in range(4):
            one, other = made.iloc[i, j], X.iloc[rows[i, j], j]
            assert one == other or (pd.isna(one) and pd.isna(other))


def test_rows_that_cannot_be_put_together_are_training_rows():
    X = torch.randn(12, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(25, 2))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, torch.arange(12) % 2), batch_size=5)
    data, model = training_rows(loader, rue.wrap(net, loss="cross_entropy", l2=1.0))
    np.testing.assert_array_equal(crossed(model, data, 0), X[:5])


@pytest.fixture
def small_witnesses(monkeypatch):
    for name in ("TREES", "FEWEST"):
        monkeypatch.setattr(f"rue.calibrate.left_out.forest.{name}", 20)


def mean_loss(logits, wanted):
    """Of probabilities (c, classes) under a softmax of logits."""
    return -(wanted * log_softmax(logits, axis=1)).sum(1).mean()


@pytest.mark.usefixtures("small_witnesses")
@pytest.mark.parametrize("neighbours", [3, 15])
def test_a_classifier_is_made_as_sure_as_its_witnesses_and_believed_as_far_as_it_agrees(neighbours):
    data = problem(n=90)
    model = rue.wrap(neighbors.KNeighborsClassifier(neighbours).fit(data.X, data.labels))
    with fitting(rue.ClassifierRUE(), best_known(model), (data.X, data.labels)) as fit:
        evidence = fit.evidence(Witnesses(), False)
        spread = margins_from_outside(fit, "largest", evidence, None, 0)
        inputs = crossed(fit.model, fit.data, 0)
        own, theirs = outputs(fit.model, inputs).double().numpy(), evidence.honest(inputs).numpy()
    codes = (data.labels == "up").astype(int)
    temperatures = np.geomspace(0.05, 20, 4001)
    honest = min(temperatures, key=lambda t: mean_loss(evidence.prediction.numpy() / t, np.eye(2)[codes]))
    assert spread.second.unit == pytest.approx(honest**2, rel=0.01)
    usual = np.bincount(codes) / 90
    wanted = (90 * softmax(theirs / spread.second.unit**0.5, axis=1) + usual) / 91
    best = min(temperatures, key=lambda t: mean_loss(own / t, wanted))
    assert spread.shrinkage.unit == pytest.approx(best**2, rel=0.01)
    assert spread.shrinkage.nll == pytest.approx(mean_loss(own / best, wanted), abs=1e-5)
    apart = mean_loss(own / best, wanted) - mean_loss(np.log(wanted), wanted)
    assert spread.second.share == pytest.approx(1 - 0.5 * np.exp(-apart / 0.05), abs=1e-3)
    assert 0.5 < spread.second.share < 1
    assert (spread.shrinkage.resampling, spread.shrinkage.scarcity) == (0, 0)


@pytest.mark.usefixtures("small_witnesses")
def test_copies_that_left_a_row_out_set_temperature_and_share_by_its_label():
    data = problem(n=90)
    model = rue.wrap(neighbors.KNeighborsClassifier(15).fit(data.X, data.labels))
    with fitting(rue.ClassifierRUE(), best_known(model), (data.X, data.labels)) as fit:
        evidence = fit.evidence(Folds(4))
        spread = margins_from_outside(fit, "largest", evidence, None, 0)
    codes = (data.labels == "up").astype(int)
    own, theirs = evidence.prediction.numpy(), evidence.beside.numpy()
    temperatures = np.geomspace(0.05, 20, 4001)
    best, honest = (
        min(temperatures, key=lambda t, logits=logits: mean_loss(logits / t, np.eye(2)[codes]))
        for logits in (own, theirs)
    )
    assert spread.shrinkage.unit == pytest.approx(best**2, rel=0.01)
    assert spread.second.unit == pytest.approx(honest**2, rel=0.01)
    assert spread.shrinkage.nll == pytest.approx(mean_loss(own / best, np.eye(2)[codes]), abs=1e-5)
    assert (spread.shrinkage.resampling, spread.shrinkage.scarcity) == (0, 0)
    second = (90 * softmax(theirs / honest, axis=1) + np.bincount(codes) / 90) / 91

    def likelihood(share):
        return np.log(((1 - share) * softmax(own / best, axis=1) + share * second)[np.arange(90), codes]).mean()

    shares = np.linspace(0, 1, 2001)
    assert spread.second.share == pytest.approx(max(shares, key=likelihood), abs=0.03)
