"""The adapter for scikit-learn's trees: gradient boosting, its histogram form, and forests."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.errors import ModelError, OpaqueError
from rue.core.model import Model
from rue.losses import Loss, bernoulli, cross_entropy, gamma, poisson, squared_error
from rue.models.trees.forest import Forest, forest_core
from rue.models.trees.in_bag import Draws, in_bag
from rue.models.trees.noted import Noted, sums_noted
from rue.models.trees.tree_estimator import (
    LossChoice,
    TreeSource,
    class_weighed,
    forest_estimator,
    leaves_of_nodes,
    loss_of,
    predicted,
    refuse,
    tree_estimator,
)
from rue.models.trees.tree_model import BoostedTrees, LeafPenalty

MEANS = ("squared_error", "friedman_mse", "poisson", "gini", "entropy", "log_loss")  # criteria whose leaves are means


def read(estimator: Any, loss: LossChoice, l2: LeafPenalty) -> Model:
    """GradientBoosting*, HistGradientBoosting*, RandomForest*, ExtraTrees* or a single tree, fitted."""
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )
    from sklearn.ensemble._forest import ForestClassifier, ForestRegressor
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    if isinstance(estimator, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
        return _histogram(estimator, loss, l2)
    if isinstance(estimator, GradientBoostingClassifier | GradientBoostingRegressor):
        return _gradient_boosting(estimator, loss, l2)
    if isinstance(estimator, ForestClassifier | ForestRegressor | DecisionTreeClassifier | DecisionTreeRegressor):
        return _forest(estimator, loss, l2)
    raise OpaqueError(
        f"{type(estimator).__name__} is neither gradient boosting nor a forest; of ensembles, use "
        "HistGradientBoosting* or RandomForest*, or wrap one of its members"
    )


def _gradient_boosting(estimator: Any, loss: LossChoice, l2: LeafPenalty) -> Model:
    if "Dummy" not in type(estimator.init_).__name__ and not isinstance(estimator.init_, str):
        raise refuse("scikit-learn", f"init={type(estimator.init_).__name__}", "init=None, or boost its residuals")
    trees = [tree.tree_ for tree in estimator.estimators_.ravel()]
    outputs = estimator.estimators_.shape[1]
    ensemble = BoostedTrees(
        values=estimator.learning_rate * np.concatenate([_leaf_values(tree)[:, 0] for tree in trees]),
        counts=np.array([tree.n_leaves for tree in trees], dtype=np.int64),
        output=np.arange(len(trees)) % outputs,
        base=np.asarray(estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_))), float).reshape(outputs),
        loss=loss_of(str(estimator.loss), _losses(outputs), loss, "scikit-learn"),
        learning_rate=float(estimator.learning_rate),
        l2=0.0,
        noted=_noted(estimator, trees[0]),
    )
    return tree_estimator(
        ensemble, _source(estimator, leaves_of_nodes(estimator.apply, [tree.children_left == -1 for tree in trees])), l2
    )


def _noted(estimator: Any, tree: Any) -> Noted | None:
    """The sums of weights in the leaves of the first tree; None where it has seen a part of the rows."""
    if estimator.subsample < 1 or estimator.n_iter_no_change is not None:
        return None
    return sums_noted({"weights": tree.weighted_n_node_samples}, "weights", tree.children_left == -1)


def _histogram(estimator: Any, loss: LossChoice, l2: LeafPenalty) -> Model:
    if getattr(estimator, "class_weight", None) is not None and loss is None:
        raise class_weighed()
    predictors = [predictor for round_ in estimator._predictors for predictor in round_]
    leaves = [predictor.nodes["is_leaf"].astype(bool) for predictor in predictors]
    outputs = estimator.n_trees_per_iteration_
    ensemble = BoostedTrees(
        values=np.concatenate([p.nodes["value"][leaf] for p, leaf in zip(predictors, leaves, strict=True)]),
        counts=np.array([leaf.sum() for leaf in leaves], dtype=np.int64),
        output=np.arange(len(predictors)) % outputs,
        base=np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(outputs),
        loss=loss_of(str(estimator.loss), _losses(outputs), loss, "scikit-learn"),
        learning_rate=float(estimator.learning_rate),
        l2=float(estimator.l2_regularization),
        noted=None if estimator.do_early_stopping_ else Noted(centred=True),  # stopping sets rows aside
    )
    numbered = [_numbered(predictor, leaf) for predictor, leaf in zip(predictors, leaves, strict=True)]
    return tree_estimator(ensemble, _source(estimator, partial(_binned_leaves, estimator, numbered)), l2)


def _binned_leaves(estimator: Any, numbered: Sequence[Any], raw: Any) -> NDArray[Any]:
    rows = estimator._preprocess_X(raw, reset=False)
    categories, where = estimator._bin_mapper.make_known_categories_bitsets()
    return np.stack([tree.predict(rows, categories, where, 1) for tree in numbered], axis=1)


def _numbered(predictor: Any, leaf: NDArray[np.bool_]) -> Any:
    """A copy of the tree that predicts the number of the leaf; scikit-learn has no method for that."""
    twin = copy(predictor)
    twin.nodes = predictor.nodes.copy()
    twin.nodes["value"] = np.cumsum(leaf) - 1
    return twin


def _forest(estimator: Any, loss: LossChoice, l2: LeafPenalty) -> Model:
    if loss is not None or l2 is not None:
        raise ModelError("a forest averages leaf means and has neither loss nor penalty; leave loss and l2 out")
    if estimator.criterion not in MEANS:
        raise refuse("scikit-learn", f"criterion={estimator.criterion!r}", 'criterion="squared_error"')
    if getattr(estimator, "class_weight", None) is not None:
        raise refuse(
            "scikit-learn", "class_weight", "sample_weight, and the same numbers as rue.Data(X, y, weight=...)"
        )
    classes = getattr(estimator, "classes_", None)
    if isinstance(classes, list):
        raise refuse("scikit-learn", "a forest of several labels", "one forest for each label")
    trees = [tree.tree_ for tree in getattr(estimator, "estimators_", [estimator])]  # one tree is a forest too
    core = forest_core(
        Forest(
            values=np.concatenate([_leaf_values(tree) for tree in trees]),
            counts=np.array([tree.n_leaves for tree in trees], dtype=np.int64),
            labels=classes is not None,
            bootstrap=bool(getattr(estimator, "bootstrap", False)),
            in_bag=partial(in_bag, Draws.of(estimator)),
        )
    )
    return forest_estimator(
        core, _source(estimator, leaves_of_nodes(estimator.apply, [tree.children_left == -1 for tree in trees]))
    )


def _source(estimator: Any, leaf: Callable[[Any], NDArray[Any]]) -> TreeSource:
    facts = {"library": "scikit-learn", "estimator": type(estimator).__name__}
    return TreeSource(leaf, partial(predicted, estimator), getattr(estimator, "classes_", None), facts)


def _leaf_values(tree: Any) -> NDArray[np.float64]:
    """Values (leaves, k): means of k targets, or shares of k classes."""
    values = tree.value[tree.children_left == -1]
    return np.asarray(values.reshape(len(values), -1), dtype=np.float64)


def _losses(outputs: int) -> dict[str, Callable[[], Loss]]:
    several = bernoulli if outputs == 1 else cross_entropy
    return {"squared_error": squared_error, "log_loss": several, "poisson": poisson, "gamma": gamma}
