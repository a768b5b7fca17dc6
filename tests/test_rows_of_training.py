"""What models kept of their training rows, and what rows tell by themselves: weights, leaks, copies."""

import warnings

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostRegressor
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from xgboost import XGBClassifier, XGBRegressor

import rue
from rue.checks.near_copies import Cloud, near_copies

SOURCE = np.random.default_rng(0)
N = 300
X = SOURCE.normal(size=(N, 4))
Y = X[:, 0] + X[:, 1] ** 2 + SOURCE.normal(size=N)
LABELS = (Y > 1).astype(int)
THREE = np.digitize(Y, [0.3, 1.5])
WEIGHTS = SOURCE.uniform(0.1, 3.0, N)
QUIET = {"n_estimators": 10, "n_jobs": 1}
CAT = {"iterations": 10, "depth": 3, "verbose": False, "thread_count": 1, "allow_writing_files": False}

KEPT = {
    "LightGBM": (lambda: LGBMRegressor(**QUIET, verbose=-1), Y),
    "LightGBM, two classes of other weight": (lambda: LGBMClassifier(**QUIET, verbose=-1, scale_pos_weight=3), LABELS),
    "LightGBM, three classes": (lambda: LGBMClassifier(**QUIET, verbose=-1), THREE),
    "LightGBM, some columns for each tree": (lambda: LGBMRegressor(**QUIET, verbose=-1, colsample_bytree=0.5), Y),
    "XGBoost": (lambda: XGBRegressor(**QUIET), Y),
    "XGBoost, two classes of other weight": (lambda: XGBClassifier(**QUIET, scale_pos_weight=3), LABELS),
    "CatBoost": (lambda: CatBoostRegressor(**CAT), Y),
    "HistGradientBoosting": (lambda: HistGradientBoostingRegressor(max_iter=10), Y),
    "HistGradientBoosting, three classes": (lambda: HistGradientBoostingClassifier(max_iter=10), THREE),
    "GradientBoosting": (lambda: GradientBoostingRegressor(n_estimators=10), Y),
}
UNKNOWN = {
    "LightGBM draws rows": LGBMRegressor(**QUIET, verbose=-1, subsample=0.5, subsample_freq=1),
    "LightGBM draws rows by their gradients": LGBMRegressor(**QUIET, verbose=-1, data_sample_strategy="goss"),
    "LightGBM rounds gradients": LGBMRegressor(**QUIET, verbose=-1, use_quantized_grad=True),
    "XGBoost draws rows": XGBRegressor(**QUIET, subsample=0.5),
    "HistGradientBoosting sets rows aside": HistGradientBoostingRegressor(max_iter=10, early_stopping=True),
    "GradientBoosting draws rows": GradientBoostingRegressor(n_estimators=10, subsample=0.5),
}


def checked(model, X, y, weight=None, group=None):
    """The check-up of a plain audit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rue.LinearRUE().fit(rue.wrap(model), rue.Data(X, y, weight=weight, group=group)).check()


@pytest.mark.parametrize("name", KEPT)
def test_trees_know_the_weights_of_their_training_up_to_a_factor(name):
    build, y = KEPT[name]
    plain, weighed = build().fit(X, y), build().fit(X, y, sample_weight=WEIGHTS)
    assert checked(plain, X, y)["weights"].light == "green"
    assert checked(weighed, X, y, 7 * WEIGHTS)["weights"].light == "green"
    assert checked(weighed, X, y)["weights"].light == "amber"
    assert checked(plain, X, y, WEIGHTS)["weights"].light == "amber"


@pytest.mark.parametrize("name", UNKNOWN)
def test_trees_that_saw_a_part_of_the_rows_say_nothing_of_weights(name):
    assert "weights" not in checked(UNKNOWN[name].fit(X, Y), X, Y)


@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_a_stored_model_does_not_say_if_it_drew_rows(ending, tmp_path):
    path = tmp_path / f"model.{ending}"
    XGBRegressor(**QUIET, subsample=0.5).fit(X, Y).save_model(path)
    assert checked(path, X, Y)["weights"].light == "green"
    XGBRegressor(**QUIET).fit(X, Y, sample_weight=WEIGHTS).save_model(path)
    assert checked(path, X, Y)["weights"].light == "amber"


def test_a_row_of_weight_two_is_two_rows_to_trees():
    twice = np.concatenate([np.arange(N), np.arange(0, N, 3)])
    model = LGBMRegressor(**QUIET, verbose=-1).fit(X[twice], Y[twice])
    assert checked(model, X, Y, 1.0 + (np.arange(N) % 3 == 0))["weights"].light == "green"
    assert checked(model, X, Y)["weights"].light == "amber"


def leak(X, y, model=None):
    """The check of a regression, or of the model that is given."""
    return checked((model or Ridge()).fit(X, y), X, y)["leak"]


@pytest.mark.parametrize(
    "column",
    [Y, 100 - 3 * Y, np.float32(Y), np.exp(Y), -np.argsort(np.argsort(Y)), np.where(np.arange(N) % 20, Y, np.nan)],
    ids=["itself", "other units", "single precision", "monotone", "ranks", "with gaps"],
)
def test_a_column_that_is_the_target_is_found(column):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(known=column)
    model = HistGradientBoostingRegressor(max_iter=5) if frame.known.isna().any() else Ridge()
    found = leak(frame, Y, model)
    assert found.light == "red"
    assert "'known'" in found.found


def test_words_that_name_the_classes_are_found():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(word=np.array(["low", "mid", "high"])[THREE])
    codes = ColumnTransformer([("plain", "passthrough", ["a", "b"]), ("codes", OrdinalEncoder(), ["word"])])
    model = make_pipeline(codes, RandomForestClassifier(10, random_state=0)).fit(frame, THREE)
    with pytest.warns(rue.errors.RueWarning, match="leak: column 'word'"):
        rue.ForestRUE().fit(rue.wrap(model), (frame, THREE))


def test_a_column_that_the_model_leaves_out_is_no_leak():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(known=Y)
    used = ColumnTransformer([("used", "passthrough", ["a", "b", "c", "d"])])
    assert leak(frame, Y, make_pipeline(used, Ridge())).light == "green"


def test_one_column_without_noise_is_a_problem_and_no_leak():
    up = checked(LinearRegression().fit(X[:, :1], 3 * X[:, 0]), X[:, :1], 3 * X[:, 0])
    assert "leak" not in up
    assert up["interpolation"].light == "green"


def test_a_series_that_only_grows_is_no_leak_of_its_time():
    time = np.arange(N, dtype=float)
    grown = np.cumsum(np.abs(Y) + 0.1)
    assert leak(np.column_stack([X, time]), grown).light == "green"


def test_facts_of_ten_towns_are_no_leak_of_each_other():
    town = np.arange(N) * 7 % 10
    before, after = np.exp(town / 3), np.exp(town / 3) + town**2
    assert leak(np.column_stack([X, before]), after).light == "green"


def test_a_rare_word_stands_in_a_row_of_a_rare_class_by_chance():
    rare = (np.arange(N) == 17).astype(int)
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=1)
    assert leak(np.column_stack([X, rare, X]), rare, model).light == "green"


def cloud(rows, label=None, unit=None):
    """Points with a class and a unit each."""
    n = len(rows)
    return Cloud(rows, np.zeros(n, dtype=int) if label is None else label, np.arange(n) if unit is None else unit)


def test_first_neighbours_are_ten_times_nearer_as_often_as_geometry_says():
    tables = [np.random.default_rng(seed).normal(size=(400, 3)) for seed in range(40)]
    found = np.concatenate([near_copies(cloud(table)) for table in tables])
    expected = sum(0.1 ** (3 * k) for k in range(1, 11))  # of some neighbour and the next
    assert found.sum() <= 12  # a Poisson number of mean 4 is larger once in 4,000
    assert abs(found.mean() - expected) < 0.002


@pytest.mark.parametrize("times", [2, 5, 10])
def test_moved_copies_are_found_unless_they_are_one_group(times):
    rows = np.tile(X, (times, 1))
    moved = rows + 1e-3 * np.random.default_rng(1).normal(size=rows.shape)
    assert near_copies(cloud(moved)).mean() > 0.95
    assert near_copies(cloud(moved, unit=np.tile(np.arange(N), times))).mean() < 0.05
    assert near_copies(cloud(moved, label=np.repeat(np.arange(times), N))).mean() < 0.05


def test_few_rows_of_a_class_are_no_copies():
    assert not near_copies(cloud(X, label=np.arange(N) // 3)).any()


def test_rows_of_categories_that_differ_in_one_number_are_no_copies():
    rows = np.column_stack([SOURCE.integers(0, 9, size=(N, 5)), X[:, 0]])
    assert near_copies(cloud(rows)).size == 0


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(1e-12), Lasso(1e-6, max_iter=100_000)])
def test_as_many_parameters_as_rows_repeat_them(model):
    wide = np.random.default_rng(2).normal(size=(30, 60))
    found = checked(model.fit(wide, Y[:30]), wide, Y[:30])
    few = int((model.coef_ != 0).sum()) + 1 < 30  # Lasso keeps at most as many as rows
    assert few or found["interpolation"].light == "red"


def test_a_penalty_that_counts_or_fewer_columns_do_not_repeat_rows():
    wide = np.random.default_rng(2).normal(size=(30, 60))
    assert checked(Ridge(10.0).fit(wide, Y[:30]), wide, Y[:30])["interpolation"].light == "green"
    assert checked(LinearRegression().fit(X, X @ [1, 2, 3, 4]), X, X @ [1, 2, 3, 4])["interpolation"].light == "green"
