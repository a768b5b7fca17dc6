"""The adapter for XGBoost: boosters, estimators, and JSON or UBJSON model files, which are read without XGBoost."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array, Whole
from rue.core.errors import ModelError
from rue.core.model import Model
from rue.core.schema import remembered
from rue.losses import Loss, bernoulli, cross_entropy, gamma, poisson, squared_error, tweedie
from rue.models.tables import numbers, stored
from rue.models.trees.noted import Noted, sums_noted
from rue.models.trees.stored_tree import (
    MISSING_LEFT,
    NAN_MISSING,
    StoredTree,
    bounded,
    damage_refused,
    file_named,
    leaves,
    place_named,
)
from rue.models.trees.tree_estimator import (
    LossChoice,
    TreeSource,
    leaves_of_nodes,
    loss_of,
    predicted,
    refuse,
    tree_estimator,
)
from rue.models.trees.tree_model import BoostedTrees, LeafPenalty
from rue.models.trees.ubjson import decode

LEVEL = ("reg:squarederror", "binary:logistic", "reg:logistic")  # the sums of others are in units of their own
RATE = 0.3  # XGBoost's default learning rate, for files without one

JsonObject = Mapping[str, Any]
"""A JSON object in a stored model, such as one tree."""


def read(model: Any, loss: LossChoice, l2: LeafPenalty) -> Model:
    """An XGB estimator, a Booster, or the path of a JSON or UBJSON model file."""
    if isinstance(model, str | Path):
        with file_named(Path(model)):
            return _of_file(Path(model), loss, l2)
    estimator = hasattr(model, "get_booster")
    if estimator and not model.__sklearn_is_fitted__():
        raise ModelError(f"{type(model).__name__} is not fitted; call fit before the audit")
    booster = model.get_booster() if estimator else model
    settings = json.loads(booster.save_config())["learner"]["gradient_booster"].get("tree_train_param", {})
    rounds = model._get_iteration_range(None) if estimator else (0, 0)  # early stopping: the best ones
    learner = decode(bytes((booster[rounds[0] : rounds[1]] if rounds[1] else booster).save_raw("ubj")))["learner"]
    with damage_refused(type(model).__name__, "XGBoost"):
        trees = _trees(learner)
        ensemble = _ensemble(learner, [_leaf_values(tree) for tree in trees], settings, loss)
        ensemble = replace(ensemble, noted=_noted(learner, settings))
    classes = getattr(model, "classes_", None)

    softmax = classes is None and len(ensemble.base) > 1
    predict = partial(predicted, model) if estimator else partial(_predicted, booster, False)
    nodes = model.apply if estimator else partial(_predicted, booster, True)
    leaf = leaves_of_nodes(nodes, [_children(tree)[0] < 0 for tree in trees])
    source = TreeSource(leaf, None if softmax else predict, classes, {"library": "XGBoost"})
    return tree_estimator(ensemble, source, l2)


def _predicted(booster: Any, leaf: bool, raw: Any) -> NDArray[Any]:
    """The predictions of a booster for a raw table, or the node of its leaf in each tree."""
    return np.asarray(booster.predict(_matrix(booster, raw), pred_leaf=leaf))


def _matrix(booster: Any, raw: Any) -> Any:
    from xgboost import DMatrix

    names = None if hasattr(raw, "columns") else booster.feature_names
    return DMatrix(raw, feature_names=names, enable_categorical=True)


def _of_file(path: Path, loss: LossChoice, l2: LeafPenalty) -> Model:
    with damage_refused(path.name, "XGBoost"):
        data = stored(path, b"{")
        learner = (decode(data) if path.suffix.lower() == ".ubj" else json.loads(data, object_pairs_hook=_object))[
            "learner"
        ]
        width, names = _whole(learner["learner_model_param"], "num_feature"), learner.get("feature_names", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("feature_names is no list of names")
        trees = []
        for number, tree in enumerate(_trees(learner)):
            with place_named(f"tree {number}"):
                trees.append(_tree(tree, width))
        ensemble = _ensemble(learner, [tree.values for tree in trees], {}, loss)
        ensemble = replace(ensemble, noted=_noted(learner, {}))

    leaf = partial(_stored_leaves, trees, path.name)
    facts = {"library": f"XGBoost, from {path.name}"}
    return tree_estimator(ensemble, TreeSource(leaf, facts=facts, schema=remembered(names)), l2)


def _stored_leaves(trees: list[StoredTree], name: str, raw: Any) -> NDArray[Any]:
    return leaves(trees, numbers(raw, np.float32), name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return dict(pairs)


def _trees(learner: JsonObject) -> Sequence[JsonObject]:
    booster = learner["gradient_booster"]
    if booster["name"] != "gbtree":
        raise refuse("XGBoost", f"booster={booster['name']!r}", 'booster="gbtree"')
    trees: Sequence[JsonObject] = booster["model"]["trees"]
    announced = _whole(booster["model"]["gbtree_model_param"], "num_trees")
    if announced != len(trees):
        raise ValueError(f"num_trees announces {announced} trees, the file has {len(trees)}")
    rounds = np.asarray(booster["model"].get("iteration_indptr", [0, len(trees)]))
    if [*rounds[:1], *rounds[-1:]] != [0, len(trees)] or (np.diff(rounds) < 0).any():
        raise ValueError("iteration_indptr leaves trees out")
    if any(int(tree["tree_param"].get("size_leaf_vector", 1)) > 1 for tree in trees):
        raise refuse("XGBoost", 'multi_strategy="multi_output_tree"', 'multi_strategy="one_output_per_tree"')
    return trees


def _tree(tree: JsonObject, width: int) -> StoredTree:
    """A tree with splits and leaves numbered separately; XGBoost goes left for values below a float32 threshold."""
    if np.any(_array(tree, "split_type", np.int64) if "split_type" in tree else 0):
        raise ModelError(
            "the file has categorical splits, which are not read from files; load it with XGBoost and wrap the Booster"
        )
    left, right = _children(tree)
    missing_left = _array(tree, "default_left", np.int64)
    if not np.isin(missing_left, (0, 1)).all():
        raise ValueError("default_left has numbers beside 0 and 1")
    if _whole(tree["tree_param"], "num_nodes") != len(left):
        raise ValueError(f"num_nodes announces {tree['tree_param']['num_nodes']} nodes, the tree has {len(left)}")
    split = left >= 0
    number = np.where(split, np.cumsum(split) - 1, ~(np.cumsum(~split) - 1))
    threshold = _array(tree, "split_conditions", np.float32)[split]
    return StoredTree(
        left=number[left[split]],
        right=number[right[split]],
        feature=_array(tree, "split_indices", np.int64)[split],
        threshold=np.nextafter(threshold, np.float32(-np.inf)).astype(np.float64),
        kind=np.where(missing_left[split] == 1, NAN_MISSING | MISSING_LEFT, NAN_MISSING),
        values=_leaf_values(tree),
        width=width,
    )


def _children(tree: JsonObject) -> tuple[Whole, Whole]:
    """The numbers of the nodes to the left and right of each node, -1 for leaves."""
    left, right = (_array(tree, name, np.int64) for name in ("left_children", "right_children"))
    if not np.array_equal(left >= 0, right >= 0) or min(left.min(), right.min()) < -1:
        raise ValueError("a node has one child")
    return left, right


def _leaf_values(tree: JsonObject) -> Array:
    return _array(tree, "split_conditions", np.float32)[_children(tree)[0] < 0].astype(np.float64)


def _whole(parts: JsonObject, name: str) -> int:
    """A count, which the file has as text."""
    if not isinstance(parts[name], str) or re.fullmatch(r"[0-9]{1,9}", parts[name]) is None:
        raise ValueError(f"{name} is {str(parts[name])[:20]!r}, no whole number")
    return int(parts[name])


def _array(tree: JsonObject, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Numbers (nodes,) that `dtype` can hold; a number too large for float32 becomes infinite."""
    array = np.asarray(tree[name])
    if array.shape != (len(tree["left_children"]),):
        raise ValueError(f"{name} has shape {array.shape} in a tree of {len(tree['left_children'])} nodes")
    with np.errstate(over="ignore"):
        return array.astype(dtype, casting="same_kind" if dtype is np.float32 else "safe")


def _ensemble(
    learner: JsonObject, values: Sequence[Array], settings: Mapping[str, str], given: LossChoice
) -> BoostedTrees:
    objective: str = learner["objective"]["name"]
    shape = learner["learner_model_param"]
    outputs = max(1, _whole(shape, "num_class"))
    if int(shape.get("num_target", 1)) > 1:
        raise refuse("XGBoost", "several targets", "one estimator for each target")
    loss = loss_of(objective, _losses(learner["objective"]), given, "XGBoost")
    output = np.asarray(learner["gradient_booster"]["model"]["tree_info"], dtype=np.int64)
    fits = output.shape == (len(values),) and bool(((output >= 0) & (output < outputs)).all())
    if not fits or outputs > max(len(values), 1):
        raise ValueError(f"{len(values)} trees for {outputs} outputs do not fit tree_info")
    return BoostedTrees(
        values=np.concatenate([*values, np.zeros(0)]),
        counts=np.array([len(tree) for tree in values], dtype=np.int64),
        output=output,
        base=np.broadcast_to(_margin(shape["base_score"], objective), (outputs,)).copy(),
        loss=loss,
        learning_rate=round(bounded(settings.get("learning_rate", settings.get("eta", RATE))), 7),  # kept in float32
        l2=bounded(settings["reg_lambda"]) if "reg_lambda" in settings else None,
    )


def _noted(learner: JsonObject, settings: Mapping[str, str]) -> Noted | None:
    """The sums of curvatures in the leaves of the first tree; a stored model does not say if it drew rows for it."""
    trees = _trees(learner)
    if not trees or learner["objective"]["name"] not in LEVEL or float(settings.get("subsample", 1)) < 1:
        return None
    return sums_noted(trees[0], "sum_hessian", _children(trees[0])[0] < 0, part=True)


def _margin(base_score: str, objective: str) -> Array:
    """The base score as an output; the file has it as a prediction, except for several classes."""
    parts = np.ravel(json.loads(base_score)).tolist()
    if any(isinstance(part, int) and abs(part) >= 2**63 for part in parts):  # XGBoost's reader wraps it around
        raise ValueError(f"base_score {base_score[:40]} is beyond 64 bits")
    score = np.array([bounded(part) for part in parts], dtype=np.float32).astype(np.float64)
    logistic = objective in ("binary:logistic", "reg:logistic")
    if not logistic and objective not in ("count:poisson", "reg:gamma", "reg:tweedie"):
        return score
    if not np.all((score > 0) & (score < (1 if logistic else np.inf))):
        raise ValueError(f"base_score {base_score} is no mean of {objective}")
    return np.log(score / (1 - score)) if logistic else np.log(score)


def _losses(objective: JsonObject) -> dict[str, Callable[[], Loss]]:
    positive = bounded(objective.get("reg_loss_param", {}).get("scale_pos_weight", 1))
    power = float(objective.get("tweedie_regression_param", {}).get("tweedie_variance_power", 1.5))
    return {
        "reg:squarederror": squared_error,
        "binary:logistic": lambda: bernoulli(positive),
        "reg:logistic": lambda: bernoulli(positive),
        "multi:softprob": cross_entropy,
        "multi:softmax": cross_entropy,
        "count:poisson": poisson,
        "reg:gamma": gamma,
        "reg:tweedie": lambda: tweedie(power),
    }
