"""Columns have names: tables in another order are right, others are refused by name and first row."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from catboost import CatBoostRegressor
from rue.errors import DataError
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from torch import nn

import rue
from rue.core.schema import Schema, remembered

N = 60
draw = np.random.default_rng(0)
NUMBERS = pd.DataFrame(
    {"age": draw.normal(50, 10, N), "dose mg": draw.normal(0, 1, N), "weight": draw.normal(70, 9, N)},
    index=[f"patient {i}" for i in range(N)],
)
WORDS = NUMBERS.assign(kind=pd.Categorical(draw.choice(["a", "b", "NA"], N)))
y = (0.1 * NUMBERS["age"] + 3 * NUMBERS["dose mg"] + 2 * (WORDS["kind"] == "b")).to_numpy() + draw.normal(0, 0.3, N)


def boosted(folder):
    return lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(WORDS, y)


def lightgbm_file(folder):
    boosted(folder).booster_.save_model(folder / "model.txt")
    return folder / "model.txt"


def xgboost_file(folder):
    xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(NUMBERS, y).save_model(folder / "model.json")
    return folder / "model.json"


def network(folder):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()


MODELS = {
    "linear": lambda _: Ridge().fit(NUMBERS, y),
    "pipeline": lambda _: make_pipeline(StandardScaler(), Ridge()).fit(NUMBERS, y),
    "kernel": lambda _: SVR().fit(NUMBERS, y),
    "forest": lambda _: RandomForestRegressor(10, random_state=0).fit(NUMBERS, y),
    "HistGradientBoosting": lambda _: HistGradientBoostingRegressor(max_iter=5).fit(NUMBERS, y),
    "XGBoost": lambda _: xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(NUMBERS, y),
    "CatBoost": lambda _: CatBoostRegressor(iterations=5, verbose=0, thread_count=1, allow_writing_files=False).fit(
        NUMBERS, y
    ),
    "LightGBM": boosted,
    "a file of LightGBM": lightgbm_file,
    "a file of XGBoost": xgboost_file,
    "network": network,
}


def fitted(name, folder, order=slice(None)):
    frame = WORDS if "LightGBM" in name else NUMBERS
    model = rue.wrap(MODELS[name](folder), loss="squared_error" if name == "network" else None)
    method = rue.ForestRUE() if name == "forest" else rue.LinearRUE() if name == "network" else rue.CalibratedRUE()
    settings = {"refit": False} if isinstance(method, rue.CalibratedRUE) else {}
    return method.fit(model, (frame[frame.columns[order]], y), **settings), frame.iloc[:7]


pytestmark = [pytest.mark.usefixtures("few_trees"), pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")]


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_columns_does_not_matter(name, tmp_path):
    auditor, new = fitted(name, tmp_path)
    audit, other = auditor.audit(new), auditor.audit(new[new.columns[::-1]])
    for part in ("prediction", "score", "std"):
        np.testing.assert_array_equal(getattr(audit, part), getattr(other, part))
    if name != "network":  # a network does not know what its columns are called: training says it
        turned = fitted(name, tmp_path, slice(None, None, -1))[0].audit(new)
        for part in ("prediction", "score", "std"):
            if getattr(audit, part) is not None:
                np.testing.assert_allclose(getattr(audit, part), getattr(turned, part), rtol=1e-12)


WRONG = {
    "missing": (lambda new: new.drop(columns="weight"), "lack 'weight'"),
    "renamed": (lambda new: new.rename(columns={"age": "Age"}), "lack 'age' and have 'Age'"),
    "extra": (lambda new: new.assign(id=range(len(new))), "have 'id', which training had not"),
    "twice": (lambda new: pd.concat([new, new[["age"]]], axis=1), "'age' twice"),
    "text": (lambda new: new.assign(age=[None, "12,5", *["3"] * 5]), "'age' had numbers .* text .* '12,5' at row 1"),
    "times": (lambda new: new.assign(age=pd.Timestamp("2020-01-01")), "'age' had numbers .* times"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ["linear", "kernel", "LightGBM", "a file of XGBoost", "network"])
def test_a_table_that_is_not_that_of_training_is_refused_by_name(name, wrong, tmp_path):
    auditor, new = fitted(name, tmp_path)
    change, says = WRONG[wrong]
    for ask in (auditor.audit, auditor.predict, auditor.check, lambda X: auditor.calibrate(X, y[:7])):
        with pytest.raises(DataError, match=says):
            ask(change(new))


@pytest.mark.parametrize("name", ["LightGBM", "a file of LightGBM"])
def test_categories_are_those_of_training_whatever_their_type_and_order(name, tmp_path):
    auditor, new = fitted(name, tmp_path)
    right, words = auditor.audit(new), new["kind"].astype(str)
    alike = (
        words,
        pd.Categorical(words, categories=["b", "NA", "a"]),
        pd.Categorical(words),
        pd.Categorical(words, categories=["x", "b", "NA", "a"]),
    )
    for kind in alike:
        audit = auditor.audit(new.assign(kind=kind))
        np.testing.assert_array_equal(audit.prediction, right.prediction)
        np.testing.assert_array_equal(audit.score, right.score)
    for unseen in ("z", 1):
        with pytest.raises(DataError, match=f"'kind' has the category '{unseen}' at row 2, and 1 of 7 rows"):
            auditor.audit(new.assign(kind=[*words[:2], unseen, *words[3:]]))


def test_whole_numbers_that_were_categories_are_read_as_these_categories():
    frame = pd.DataFrame({"site": pd.Categorical([3, 1, 2, 3]), "x": [0.0, 1.0, 2.0, 3.0]})
    schema = Schema.of(frame)
    aligned = schema.aligned(pd.DataFrame({"x": [1.0, 2.0, 0.0], "site": [2.0, np.nan, 3.0]}))
    assert list(aligned["site"].cat.categories) == [1, 2, 3]
    assert list(aligned["site"].cat.codes) == [1, -1, 2]
    assert list(aligned.columns) == ["site", "x"]


def test_missing_values_and_other_types_of_numbers_are_no_other_kind():
    schema = Schema.of(pd.DataFrame({"a": [1, 2], "b": [0.5, None], "c": ["u", "v"]}))
    for a in ([1.0, 2.0], [True, False], pd.array([1, None], dtype="Int64"), [np.nan, np.nan], [1, None]):
        table = pd.DataFrame({"a": a, "b": [1, 2], "c": pd.Categorical(["v", "w"])})
        assert list(schema.aligned(table)["c"]) == ["v", "w"]
    with pytest.raises(DataError, match="'c' had text in training and has numbers now, the first '7' at row 0"):
        schema.aligned(pd.DataFrame({"a": [1], "b": [1], "c": [7]}))


def test_a_schema_knows_which_columns_it_takes_with_spaces_or_without():
    schema = remembered(["dose_mg", "body mass"])
    assert [schema.takes(name) for name in ("dose_mg", "dose mg", "body mass", "body_mass", "id")] == [True] * 3 + [
        False
    ] * 2
    table = pd.DataFrame({"body mass": [1.0], "dose mg": [2.0]})
    assert list(schema.aligned(table).columns) == ["dose mg", "body mass"]


def test_names_that_a_library_made_up_are_no_names():
    assert remembered(["f0", "f1"]) is remembered(["Column_0", "Column_1"]) is remembered([]) is None
    assert remembered(["age", "f1"]).names == ("age", "f1")


def test_a_table_keeps_its_index(tmp_path):
    auditor, new = fitted("network", tmp_path)
    assert list(auditor.audit(new).to_frame().index) == list(new.index)
    assert list(auditor.audit(new.to_numpy()).to_frame().index) == list(range(7))


def test_the_users_table_is_not_changed(tmp_path):
    auditor, new = fitted("LightGBM", tmp_path)
    table = new.assign(kind=new["kind"].astype(str))[new.columns[::-1]]
    before = table.copy(deep=True)
    auditor.audit(table)
    pd.testing.assert_frame_equal(table, before)
