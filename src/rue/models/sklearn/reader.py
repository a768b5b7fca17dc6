"""The adapter for scikit-learn: finds the estimator inside pipelines, searches and target transforms, and reads it."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from rue.core.errors import DataError, ModelError, OpaqueError, SettingError
from rue.core.model import Model
from rue.models.estimator import EstimatorBoundary
from rue.models.sklearn.linear import LINEAR, read_linear
from rue.models.sklearn.mlp import read_mlp
from rue.models.sklearn.refused import NEAREST
from rue.models.sklearn.response import TransformedBack, brought_back, target_values
from rue.models.sklearn.supervised import supervised

TREES = ("sklearn.ensemble", "sklearn.tree")
SAME = ("sklearn.", "sklearnex", "daal4py")  # modules whose predict is that of scikit-learn, perhaps faster

Inside = Callable[[Any], Model]
"""A function that reads the estimator inside another."""


def read(estimator: Any, loss: Any, l2: Any) -> Model:
    """A fitted estimator as a model; `loss` and `l2` are for trees only, others have theirs."""
    from rue.models.wrapping import adapter  # here, because that module imports the adapters

    other = adapter(estimator)
    if other != "sklearn.reader":  # an estimator of another library at the end of a pipeline
        reader: Any = import_module(f"rue.models.{other}")
        model: Model = reader.read(estimator, loss, l2)
        return model
    for kind in type(estimator).__mro__:  # the nearest class decides: a child may be refused where its parent is not
        if kind in WRAPPERS or kind in LINEAR or kind in NETWORKS:
            _check_fitted(estimator)
            if kind in WRAPPERS:
                return WRAPPERS[kind](estimator, lambda inner: read(inner, loss, l2))
            if loss is not None or l2 is not None:
                raise SettingError(
                    f"{type(estimator).__name__} knows the loss and penalty it was trained with; leave loss and l2 out"
                )
            _refuse_own_predict(estimator, kind)
            return read_linear(estimator, LINEAR[kind]) if kind in LINEAR else read_mlp(estimator)
        if kind.__module__.startswith(TREES):
            _check_fitted(estimator)
            trees: Any = import_module("rue.models.trees.scikit_learn")
            ensemble: Model = trees.read(estimator, loss, l2)
            return ensemble
        if kind.__name__ in NEAREST:
            _check_fitted(estimator)
            raise OpaqueError(
                f"{type(estimator).__name__} has no parameters that could be read; the nearest that has is "
                f"{NEAREST[kind.__name__]}"
            )
    _check_fitted(estimator)
    raise OpaqueError(
        f"{type(estimator).__name__} has no parameters that could be read; known of scikit-learn are trees and their "
        "ensembles, "
        f"MLPRegressor, MLPClassifier, {', '.join(sorted(kind.__name__ for kind in LINEAR))}, and pipelines, searches "
        "and TransformedTargetRegressor around them"
    )


def _pipeline(pipeline: Any, inside: Inside) -> Model:
    """The last step, with features made by the steps before it."""
    final = pipeline[-1]
    if not hasattr(final, "predict"):
        raise ModelError(
            f"the pipeline ends in {final if isinstance(final, str) else type(final).__name__}, which predicts "
            "nothing; wrap one that ends in a fitted regressor or classifier"
        )
    model = inside(final)
    if type(final).__module__.startswith("skorch"):  # its predict changes the mode of the module
        pipeline = copy.deepcopy(pipeline)
    if len(pipeline) == 1:
        return _with_boundary(model, own=pipeline.predict)
    before, inner = pipeline[:-1], _boundary(model).features
    steps = (*supervised(before), *model.supervised)
    read = _with_boundary(model, features=partial(_after_steps, before, inner), own=pipeline.predict)
    return replace(read, supervised=steps)


def _after_steps(before: Any, inner: Callable[[Any], Any], inputs: Any) -> Any:
    return inner(_transformed(before, inputs))


def _transformed(before: Any, inputs: Any) -> Any:
    """Inputs transformed by the steps before the last; a sparse result is made dense by the reader of the last step."""
    try:
        return before.transform(inputs)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise DataError(f"the pipeline cannot transform these inputs: {error}; give them as in training") from error


def _search(search: Any, inside: Inside) -> Model:
    if not hasattr(search, "best_estimator_"):
        raise ModelError(
            f"{type(search).__name__}(refit=False) kept no estimator; use refit=True, or wrap the one you trained"
        )
    return _with_boundary(inside(search.best_estimator_), own=search.predict)


def _transformed_target(regressor: Any, inside: Inside) -> Model:
    """The regressor inside, with targets transformed before training and predictions transformed back."""
    model = inside(regressor.regressor_)
    transformer = regressor.transformer_
    encode = partial(_transformed_first, transformer, _boundary(model).encode)
    response = TransformedBack(transformer.inverse_transform, model.response)
    read = _with_boundary(model, encode=encode, response=response, own=regressor.predict)
    return replace(read, admit_targets=partial(brought_back, transformer))


def _transformed_first(transformer: Any, inner: Callable[[Any], Any], targets: Any) -> Any:
    values = target_values(targets)
    transformed = transformer.transform(values.reshape(len(values), -1))
    return inner(np.asarray(transformed, np.float64).reshape(values.shape))


def _boundary(model: Model) -> EstimatorBoundary:
    return cast(EstimatorBoundary, model.boundary)  # estimators inside others always have this one


def _with_boundary(model: Model, **parts: Any) -> Model:
    """The same model with some parts of its boundary replaced."""
    return replace(model, boundary=replace(_boundary(model), **parts))


def _refuse_own_predict(estimator: Any, kind: Any) -> None:
    """Refuse to read a regressor whose class makes its predictions in a way of its own, as by clipping them."""
    own: Any = type(estimator).predict
    if own is not kind.predict and not hasattr(estimator, "classes_") and not own.__module__.startswith(SAME):
        raise OpaqueError(
            f"{type(estimator).__name__} has a predict of its own, which the parameters of {kind.__name__} do not show"
        )


def _check_fitted(estimator: BaseEstimator) -> None:
    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise ModelError(f"{type(estimator).__name__} is not fitted; call fit before the audit") from error


NETWORKS = (MLPClassifier, MLPRegressor)
WRAPPERS: dict[type, Callable[[Any, Inside], Model]] = {
    Pipeline: _pipeline,
    BaseSearchCV: _search,
    TransformedTargetRegressor: _transformed_target,
    FrozenEstimator: lambda frozen, inside: inside(frozen.estimator),
}
