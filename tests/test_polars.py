"""Frames of polars give the audit of the same frames of pandas, for every kind of model."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import rue
from rue.core.errors import DataError

pl = pytest.importorskip("polars")
pytestmark = [pytest.mark.filterwarnings("ignore::rue.errors.RueWarning"), pytest.mark.usefixtures("few_trees")]

draw = np.random.default_rng(0)
numbers = {name: draw.normal(size=120) for name in "abc"}
words = draw.choice(["p", "q"], 120)
y = numbers["a"] + 0.5 * draw.normal(size=120)


def pipeline():
    encoded = make_column_transformer((OneHotEncoder(), ["k"]), (StandardScaler(), ["a", "b", "c"]))
    return make_pipeline(encoded, Ridge())


def boosted(library, name, **settings):
    return getattr(pytest.importorskip(library), name)(**settings)


MODELS = {
    "Ridge": Ridge,
    "forest": lambda: RandomForestRegressor(10, random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(max_iter=5),
    "LightGBM": lambda: boosted("lightgbm", "LGBMRegressor", n_estimators=5, verbose=-1, n_jobs=1),
    "XGBoost": lambda: boosted("xgboost", "XGBRegressor", n_estimators=5, n_jobs=1),
    "CatBoost": lambda: boosted("catboost", "CatBoostRegressor", iterations=5, verbose=0, allow_writing_files=False),
    "classifier": LogisticRegression,
    "pipeline": pipeline,
}


@pytest.mark.parametrize("name", MODELS)
def test_an_estimator(name):
    X = pl.DataFrame({**numbers, "k": words} if name == "pipeline" else numbers)
    target = np.where(y > 0, "high", "low") if name == "classifier" else y
    model = MODELS[name]().fit(X, target)
    mine = rue.audit(model, train=(X, pl.Series("y", target)), inputs=X[:9])
    wanted = rue.audit(model, train=(X.to_pandas(), pd.Series(target)), inputs=X[:9].to_pandas())
    np.testing.assert_array_equal(mine.score, wanted.score)
    np.testing.assert_array_equal(mine.prediction, wanted.prediction)
    backwards = rue.audit(model, train=(X, target), inputs=X[:9].select(X.columns[::-1]))
    np.testing.assert_array_equal(backwards.score, wanted.score)


def test_a_network_and_a_column_too_few():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    X = pl.DataFrame(numbers)
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    auditor = rue.LinearRUE().fit(model, (X, pl.Series(y)))
    wanted = rue.LinearRUE().fit(model, (X.to_numpy(), y)).audit(X[:9].to_numpy())
    np.testing.assert_array_equal(auditor.audit(X[:9]).score, wanted.score)
    with pytest.raises(DataError, match="lack 'b'"):
        auditor.audit(X[:9].drop("b"))
