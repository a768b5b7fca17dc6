"""Training an estimator again: an unfitted copy with the settings the fit ended with, trained on some of its rows."""

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
    """Makes copies of a fitted estimator, each trained on some rows of the data the estimator was trained on."""

    estimator: Any = field(repr=False)
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    weight: NDArray[np.float64] | None = field(repr=False)
    seed: int

    def __call__(self, rows: Whole) -> Any:
        """A copy, fitted on the rows with these numbers; the estimator itself does not change."""
        copy = unfitted(self.estimator, self.seed)
        given = _fit_arguments(self.estimator)
        if self.weight is not None:
            given[_weight_name(copy)] = self.weight[rows]
        return copy.fit(some_rows(self.X, rows), some_rows(self.y, rows), **given)


def copies(estimator: Any, X: Any, y: Any, weight: NDArray[np.float64] | None, seed: int) -> Copies | None:
    """A maker of copies; None where a copy would not be trained as the estimator was."""
    if not (hasattr(estimator, "get_params") and hasattr(estimator, "fit")) or _frozen(estimator):
        return None
    if weight is not None and _weight_name(estimator) is None:
        return None
    return Copies(estimator, X, y, weight, seed)


def unfitted(estimator: Any, seed: int = 0) -> Any:
    """A clone: of a search, of the estimator it chose; of boosting with early stopping, with the trees it kept."""
    from sklearn.base import clone
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, BaseSearchCV):
        return unfitted(estimator.best_estimator_, seed)
    catboost = type(estimator).__module__.startswith("catboost")  # scikit-learn cannot clone its settings
    copy = estimator if catboost else clone(estimator)
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
    callbacks = fitted.callbacks or []
    other = [callback for callback in callbacks if type(callback).__name__ != "EarlyStopping"]
    if fitted.early_stopping_rounds is None and len(other) == len(callbacks):
        return copy
    kept = fitted.get_booster().best_iteration + 1
    return copy.set_params(n_estimators=kept, early_stopping_rounds=None, callbacks=other or None)


def _catboost(fitted: Any, copy: Any) -> Any:
    """CatBoost derives its learning rate from the numbers of trees and rows: keep the one that was used."""
    stopping = ("early_stopping_rounds", "use_best_model", "iterations", "n_estimators", "num_boost_round", "num_trees")
    kept = {name: value for name, value in copy.get_params().items() if not name.startswith(("od_", *stopping))}
    categories = fitted.get_cat_feature_indices()
    if categories and "cat_features" not in kept:
        kept["cat_features"] = categories
    return type(copy)(**{**kept, "iterations": fitted.tree_count_, "learning_rate": fitted.learning_rate_})


STOPPED: dict[str, Callable[[Any, Any], Any]] = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}


def _fit_arguments(estimator: Any) -> dict[str, Any]:
    """Arguments of `fit` that a clone does not have: the categorical columns of LightGBM."""
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, BaseSearchCV):
        return _fit_arguments(estimator.best_estimator_)
    prefix, last = "", estimator
    if isinstance(estimator, Pipeline):
        prefix, last = f"{estimator.steps[-1][0]}__", estimator.steps[-1][1]
    if not any(kind.__module__.startswith("lightgbm") for kind in type(last).__mro__):
        return {}
    columns = re.search(r"\[categorical_feature: ([\d,]+)\]", last.booster_.model_to_string())
    return {f"{prefix}categorical_feature": [int(column) for column in columns[1].split(",")]} if columns else {}


def _frozen(estimator: Any) -> bool:
    """Whether a part of it would not be trained again, so that it would still depend on left-out rows."""
    from sklearn.frozen import FrozenEstimator

    if getattr(estimator, "cv", None) == "prefit":
        return True
    parts = [estimator, *getattr(estimator, "get_params", dict)().values()]
    return any(isinstance(part, FrozenEstimator) for part in parts)


def _weight_name(estimator: Any) -> Any:
    """The name of `fit`'s argument for the weights of rows; None where it has none."""
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
