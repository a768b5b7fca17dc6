"""Training an estimator once more: an unfitted copy with the settings it ended with, on some of its rows."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Whole
from rue.core.errors import DataError


@dataclass(frozen=True)
class Copies:
    """Copies of a fitted estimator, trained on rows (their numbers) of the data it was trained on."""

    estimator: Any = field(repr=False)
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    weight: NDArray[np.float64] | None = field(repr=False)
    seed: int

    def __call__(self, rows: Whole) -> Any:
        """A copy, fitted; the estimator itself is not touched."""
        copy = unfitted(self.estimator, self.seed)
        given = _told_at_fit(self.estimator)
        if self.weight is not None:
            given[_weight_name(copy)] = self.weight[rows]
        return copy.fit(some_rows(self.X, rows), some_rows(self.y, rows), **given)


def copies(estimator: Any, X: Any, y: Any, weight: NDArray[np.float64] | None, seed: int) -> Copies | None:
    """None where no copy can be made that would have been trained alike."""
    if not (hasattr(estimator, "get_params") and hasattr(estimator, "fit")) or _frozen(estimator):
        return None
    if weight is not None and _weight_name(estimator) is None:
        return None
    return Copies(estimator, X, y, weight, seed)


def unfitted(estimator: Any, seed: int = 0) -> Any:
    """A clone; of a search what it chose, and of boosting with early stopping as many trees as it kept."""
    from sklearn.base import clone
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, BaseSearchCV):
        return unfitted(estimator.best_estimator_, seed)
    ours = type(estimator).__module__.startswith("catboost")  # whose settings scikit-learn cannot clone
    copy = estimator if ours else clone(estimator)
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        copy.set_params(**{name: unfitted(last, seed)})
    elif isinstance(estimator, TransformedTargetRegressor):
        copy.set_params(regressor=unfitted(estimator.regressor_, seed))
    for package, settle in STOPPED.items():
        if any(kind.__module__.startswith(package) for kind in type(estimator).__mro__):
            copy = settle(estimator, copy)
    loose = [name for name, value in copy.get_params().items() if name.endswith("random_state") and value is None]
    return copy.set_params(**dict.fromkeys(loose, seed)) if loose else copy


def _lightgbm(fitted: Any, copy: Any) -> Any:
    kept = fitted.best_iteration_ or fitted.n_estimators
    stopping = [name for name in copy.get_params() if name.startswith("early_stopping")]
    return copy.set_params(n_estimators=kept, **dict.fromkeys(stopping))


def _xgboost(fitted: Any, copy: Any) -> Any:
    asked = fitted.callbacks or []
    other = [one for one in asked if type(one).__name__ != "EarlyStopping"]
    if fitted.early_stopping_rounds is None and len(other) == len(asked):
        return copy
    kept = fitted.get_booster().best_iteration + 1
    return copy.set_params(n_estimators=kept, early_stopping_rounds=None, callbacks=other or None)


def _catboost(fitted: Any, copy: Any) -> Any:
    """Its rate is chosen by the number of trees and rows: the one that was used stays."""
    stopping = ("early_stopping_rounds", "use_best_model", "iterations", "n_estimators", "num_boost_round", "num_trees")
    kept = {name: value for name, value in copy.get_params().items() if not name.startswith(("od_", *stopping))}
    categories = fitted.get_cat_feature_indices()
    if categories and "cat_features" not in kept:
        kept["cat_features"] = categories
    return type(copy)(**{**kept, "iterations": fitted.tree_count_, "learning_rate": fitted.learning_rate_})


STOPPED: dict[str, Callable[[Any, Any], Any]] = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}


def _told_at_fit(estimator: Any) -> dict[str, Any]:
    """Settings that `fit` was given and clones have not: the categorical columns of LightGBM."""
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, BaseSearchCV):
        return _told_at_fit(estimator.best_estimator_)
    prefix, last = "", estimator
    if isinstance(estimator, Pipeline):
        prefix, last = f"{estimator.steps[-1][0]}__", estimator.steps[-1][1]
    if not any(kind.__module__.startswith("lightgbm") for kind in type(last).__mro__):
        return {}
    found = re.search(r"\[categorical_feature: ([\d,]+)\]", last.booster_.model_to_string())
    return {f"{prefix}categorical_feature": [int(one) for one in found[1].split(",")]} if found else {}


def _frozen(estimator: Any) -> bool:
    """Whether a part of it would not be trained again, and would remember the rows left out."""
    from sklearn.frozen import FrozenEstimator

    if getattr(estimator, "cv", None) == "prefit":
        return True
    parts = [estimator, *getattr(estimator, "get_params", dict)().values()]
    return any(isinstance(part, FrozenEstimator) for part in parts)


def _weight_name(estimator: Any) -> Any:
    """How `fit` calls the weights of rows; None where it takes none."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__sample_weight" if has_fit_parameter(last, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def some_rows(table: Any, rows: Whole) -> Any:
    """Rows of an array, a tensor, a frame or a column."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if hasattr(table, "to_pandas"):  # polars
        return table[rows]
    try:
        return (table if hasattr(table, "shape") else np.asarray(table))[rows]
    except (TypeError, IndexError) as error:
        raise DataError(
            f"rows of a {type(table).__name__} cannot be picked ({error}); give arrays or frames"
        ) from error
