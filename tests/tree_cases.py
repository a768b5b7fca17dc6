"""Every tree ensemble that is read, small, by task: what the tests of trees go through."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

TOLERANCE = 1e-5  # relative, of raw scores: XGBoost sums its trees in float32


class Case(NamedTuple):
    name: str
    make: Callable[[], Any]
    target: str  # a key of `targets`
    raw: Callable[[Any, Any], Any]  # the library's own raw scores
    missing: bool = False  # whether its inputs may have missing values


def table(n: int = 240, *, missing: bool = False, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n, 4))
    if missing:
        X[draw.random(X.shape) < 0.1] = np.nan
    return X


def targets(X: np.ndarray, seed: int = 1) -> dict[str, np.ndarray]:
    noise = np.random.default_rng(seed).normal(size=len(X))
    y = np.nan_to_num(X)[:, :3] @ [1.0, 0.5, -1.0] + 0.5 * noise
    names = np.array(["low", "middle", "top"])[np.digitize(y, [-0.7, 0.7])]
    return {
        "number": y,
        "yes": np.where(y > 0, "yes", "no"),
        "one of three": names,
        "two": (y > 0).astype(int),
        "three": np.digitize(y, [-0.7, 0.7]),
        "count": np.abs(y).round(),
        "positive": np.abs(y) + 0.1,
    }


def cases() -> list[Any]:
    every = [*_lightgbm(), *_xgboost(), *_catboost(), *_scikit_learn()]
    return [pytest.param(case, id=case.name) for case in every]


def _lightgbm() -> list[Case]:
    import lightgbm

    def regressor(**more: Any) -> Callable[[], Any]:
        return lambda: lightgbm.LGBMRegressor(**small, **more)

    def raw(model: Any, X: Any) -> Any:
        return model.predict(X, raw_score=True)

    small = {"n_estimators": 8, "num_leaves": 6, "n_jobs": 1, "verbose": -1}
    classifier = lambda: lightgbm.LGBMClassifier(**small)  # noqa: E731
    return [
        Case("LGBMRegressor", regressor(), "number", raw, True),
        Case("LGBMRegressor-poisson", regressor(objective="poisson"), "count", raw, True),
        Case("LGBMRegressor-gamma", regressor(objective="gamma"), "positive", raw, True),
        Case("LGBMRegressor-tweedie", regressor(objective="tweedie"), "count", raw, True),
        Case("LGBMRegressor-l2", regressor(reg_lambda=5.0), "number", raw, True),
        Case("LGBMClassifier-2", classifier, "yes", raw, True),
        Case("LGBMClassifier-3", classifier, "one of three", raw, True),
    ]


def _xgboost() -> list[Case]:
    import xgboost

    def made(kind: Any, **more: Any) -> Callable[[], Any]:
        return lambda: kind(n_estimators=8, max_depth=3, n_jobs=1, **more)

    def raw(model: Any, X: Any) -> Any:
        return model.predict(X, output_margin=True)

    numbers, labels = xgboost.XGBRegressor, xgboost.XGBClassifier
    return [
        Case("XGBRegressor", made(numbers), "number", raw, True),
        Case("XGBRegressor-base", made(numbers, base_score=3.0, num_parallel_tree=2), "number", raw, True),
        Case("XGBRegressor-poisson", made(numbers, objective="count:poisson"), "count", raw, True),
        Case("XGBRegressor-gamma", made(numbers, objective="reg:gamma"), "positive", raw, True),
        Case("XGBRegressor-tweedie", made(numbers, objective="reg:tweedie"), "count", raw, True),
        Case("XGBClassifier-2", made(labels), "two", raw, True),
        Case("XGBClassifier-3", made(labels), "three", raw, True),
    ]


def _catboost() -> list[Case]:
    import catboost

    def made(kind: Any, **more: Any) -> Callable[[], Any]:
        quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
        return lambda: kind(iterations=8, depth=3, **quiet, **more)

    def raw(model: Any, X: Any) -> Any:
        return model.predict(X, prediction_type="RawFormulaVal")

    numbers, labels = catboost.CatBoostRegressor, catboost.CatBoostClassifier
    return [
        Case("CatBoostRegressor", made(numbers), "number", raw, True),
        Case("CatBoostRegressor-poisson", made(numbers, loss_function="Poisson"), "count", raw, True),
        Case(
            "CatBoostRegressor-tweedie", made(numbers, loss_function="Tweedie:variance_power=1.5"), "count", raw, True
        ),
        Case("CatBoostRegressor-depthwise", made(numbers, grow_policy="Depthwise"), "number", raw, True),
        Case("CatBoostClassifier-2", made(labels), "yes", raw, True),
        Case("CatBoostClassifier-3", made(labels), "one of three", raw, True),
    ]


def _scikit_learn() -> list[Case]:
    from sklearn import ensemble

    def scores(model: Any, X: Any) -> Any:
        return model.decision_function(X)

    def numbers(model: Any, X: Any) -> Any:
        return model.predict(X)

    def logs(model: Any, X: Any) -> Any:
        return np.log(model.predict(X))

    def boosted(kind: Any, **more: Any) -> Callable[[], Any]:
        return lambda: kind(n_estimators=8, max_depth=3, random_state=0, **more)

    def binned(kind: Any, **more: Any) -> Callable[[], Any]:
        return lambda: kind(max_iter=8, max_leaf_nodes=6, random_state=0, **more)

    deep, hist = ensemble.GradientBoostingRegressor, ensemble.HistGradientBoostingRegressor
    deep_labels, hist_labels = ensemble.GradientBoostingClassifier, ensemble.HistGradientBoostingClassifier
    return [
        Case("GradientBoostingRegressor", boosted(deep, subsample=0.8), "number", numbers),
        Case("GradientBoostingRegressor-zero", boosted(deep, init="zero"), "number", numbers),
        Case("GradientBoostingClassifier-2", boosted(deep_labels), "yes", scores),
        Case("GradientBoostingClassifier-3", boosted(deep_labels), "one of three", scores),
        Case("HistGradientBoostingRegressor", binned(hist), "number", numbers, True),
        Case("HistGradientBoostingRegressor-poisson", binned(hist, loss="poisson"), "count", logs, True),
        Case("HistGradientBoostingRegressor-gamma", binned(hist, loss="gamma"), "positive", logs, True),
        Case("HistGradientBoostingClassifier-2", binned(hist_labels), "yes", scores, True),
        Case("HistGradientBoostingClassifier-3", binned(hist_labels), "one of three", scores, True),
    ]
