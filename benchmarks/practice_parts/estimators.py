"""Estimators as people fit them: default settings, one thread, nothing tuned."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from practice_parts.trained_model import Trained

LEAST = 1e-6  # of a probability, before its logarithm is taken


@dataclass(frozen=True)
class Estimator:
    """By its name here; networks are stored, estimators fitted again, which gives the same."""

    name: str

    def train(self, X: Tensor, y: Tensor, classes: int | None, seed: int) -> Trained:
        numbers, labels = MAKERS[self.name]
        made = (numbers if classes is None else labels)(seed)
        return Trained(made.fit(X.numpy(), y.numpy()), np.arange(len(y)), np.arange(0), {})


def said(estimator: Any, X: Tensor, classes: int | None) -> Tensor:
    """Predictions (n, 1), or logarithms of the probabilities of all classes (n, k), in float64."""
    if classes is None:
        return torch.from_numpy(np.asarray(estimator.predict(X.numpy()), dtype=np.float64)[:, None])
    found = np.full((len(X), classes), LEAST)
    found[:, estimator.classes_.astype(int)] = np.clip(estimator.predict_proba(X.numpy()), LEAST, None)
    return torch.from_numpy(np.log(found))


def _lightgbm(kind: str) -> Callable[[int], Any]:
    def made(seed: int) -> Any:
        import lightgbm

        return getattr(lightgbm, f"LGBM{kind}")(random_state=seed, n_jobs=1, verbose=-1)

    return made


def _xgboost(kind: str) -> Callable[[int], Any]:
    def made(seed: int) -> Any:
        import xgboost

        return getattr(xgboost, f"XGB{kind}")(random_state=seed, n_jobs=1)

    return made


def _catboost(kind: str) -> Callable[[int], Any]:
    def made(seed: int) -> Any:
        import catboost

        return getattr(catboost, f"CatBoost{kind}")(
            random_seed=seed, thread_count=1, verbose=0, allow_writing_files=False
        )

    return made


def _sklearn(module: str, name: str, seeded: bool = True, **settings: Any) -> Callable[[int], Any]:
    def made(seed: int) -> Any:
        from importlib import import_module

        own = {"random_state": seed} if seeded else {}
        return getattr(import_module(f"sklearn.{module}"), name)(**own, **settings)

    return made


def _stacking(kind: str) -> Callable[[int], Any]:
    def made(seed: int) -> Any:
        from sklearn import ensemble, linear_model

        linear = linear_model.RidgeCV() if kind == "Regressor" else linear_model.LogisticRegression()
        boosted = getattr(ensemble, f"GradientBoosting{kind}")(random_state=seed)
        return getattr(ensemble, f"Stacking{kind}")([("linear", linear), ("boosted", boosted)])

    return made


Makers = tuple[Callable[[int], Any], Callable[[int], Any]]
MAKERS: dict[str, Makers] = {  # of numbers, of classes
    "LightGBM": (_lightgbm("Regressor"), _lightgbm("Classifier")),
    "XGBoost": (_xgboost("Regressor"), _xgboost("Classifier")),
    "CatBoost": (_catboost("Regressor"), _catboost("Classifier")),
    "HistGradientBoosting": (
        _sklearn("ensemble", "HistGradientBoostingRegressor"),
        _sklearn("ensemble", "HistGradientBoostingClassifier"),
    ),
    "random forest": (
        _sklearn("ensemble", "RandomForestRegressor"),
        _sklearn("ensemble", "RandomForestClassifier"),
    ),
    "linear": (
        _sklearn("linear_model", "Ridge"),
        _sklearn("linear_model", "LogisticRegression", max_iter=1000),
    ),
    "neighbours": (
        _sklearn("neighbors", "KNeighborsRegressor", seeded=False),
        _sklearn("neighbors", "KNeighborsClassifier", seeded=False),
    ),
    "support vectors": (
        _sklearn("svm", "SVR", seeded=False),
        _sklearn("svm", "SVC", probability=True),
    ),
    "stacking": (_stacking("Regressor"), _stacking("Classifier")),
}
