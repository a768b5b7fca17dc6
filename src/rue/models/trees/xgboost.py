"""XGBoost: boosters, estimators, and JSON or UBJSON model files read without XGBoost."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Whole
from rue.core.errors import DataError, ModelError
from rue.core.model import Model
from rue.losses import Loss, bernoulli, cross_entropy, gamma, poisson, squared_error, tweedie
from rue.models.tables import named, numbers, stored
from rue.models.trees.tree_estimator import Given, Seen, loss_of, refuse, tree_estimator
from rue.models.trees.tree_model import Ensemble, Penalty
from rue.models.trees.tree_walk import walk
from rue.models.trees.ubjson import decode

RATE = 0.3  # XGBoost's default learning rate, where a file does not say


@dataclass(frozen=True)
class Tree:
    """The arrays of one tree; XGBoost numbers all nodes alike, so its leaves are counted here."""

    left: Whole = field(repr=False)  # of inner nodes, by number; negative: ~leaf
    right: Whole = field(repr=False)
    feature: Whole = field(repr=False)
    threshold: NDArray[np.float32] = field(repr=False)
    default_left: NDArray[np.bool_] = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)  # of its leaves
    number: Whole = field(repr=False)  # of each node, its place among the leaves

    def leaf(self, rows: NDArray[np.float32]) -> Whole:
        """The leaf of each row (n, p), compared in float32 as XGBoost does."""

        def goes_left(nodes: Whole, at: Whole) -> NDArray[np.bool_]:
            value = rows[at, self.feature[nodes]]
            return np.where(np.isnan(value), self.default_left[nodes], value < self.threshold[nodes])

        return walk(self.left, self.right, goes_left, len(rows))


def read(model: Any, loss: Given, l2: Penalty) -> Model:
    """An XGB estimator, a Booster, or the path of a JSON or UBJSON model file."""
    if isinstance(model, str | Path):
        return _of_file(Path(model), loss, l2)
    estimator = hasattr(model, "get_booster")
    if estimator and not model.__sklearn_is_fitted__():
        raise ModelError(f"{type(model).__name__} is not fitted; call fit before the audit")
    booster = model.get_booster() if estimator else model
    settings = json.loads(booster.save_config())["learner"]["gradient_booster"].get("tree_train_param", {})
    rounds = model._get_iteration_range(None) if estimator else (0, 0)  # early stopping: the best ones
    learner = decode(bytes(booster[rounds[0] : rounds[1]].save_raw("ubj") if rounds[1] else booster.save_raw("ubj")))
    trees = _trees(learner["learner"], categories=True)
    ensemble = _ensemble(learner["learner"], trees, settings, loss)
    classes = getattr(model, "classes_", None)

    def leaf(raw: Any) -> NDArray[Any]:
        found = model.apply(raw) if estimator else booster.predict(_matrix(booster, raw), pred_leaf=True)
        nodes = np.asarray(found).astype(np.int64).reshape(raw.shape[0], -1)
        return np.stack([tree.number[nodes[:, t]] for t, tree in enumerate(trees)], axis=1)

    softmax = classes is None and len(ensemble.base) > 1
    predict = model.predict if estimator else lambda raw: booster.predict(_matrix(booster, raw))
    own: Callable[[Any], NDArray[Any]] | None = None if softmax else lambda raw: np.asarray(predict(raw))
    return tree_estimator(ensemble, Seen(leaf, own, classes, {"library": "XGBoost"}), l2)


def _matrix(booster: Any, raw: Any) -> Any:
    from xgboost import DMatrix

    names = None if hasattr(raw, "columns") else booster.feature_names
    return DMatrix(raw, feature_names=names, enable_categorical=True)


def _of_file(path: Path, loss: Given, l2: Penalty) -> Model:
    try:
        found = decode(stored(path)) if path.suffix == ".ubj" else json.loads(stored(path))
        learner = found["learner"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path.name} is no XGBoost model ({error!r}); save one with booster.save_model") from error
    trees = _trees(learner, categories=False)
    ensemble = _ensemble(learner, trees, {}, loss)
    width = int(learner["learner_model_param"]["num_feature"])

    def leaf(raw: Any) -> NDArray[Any]:
        rows = numbers(named(raw, learner.get("feature_names", []), path.name), np.float32)
        if rows.shape[1] != width:
            raise DataError(f"inputs have {rows.shape[1]} columns of numbers, {path.name} was trained on {width}")
        return np.stack([tree.leaf(rows) for tree in trees], axis=1)

    return tree_estimator(ensemble, Seen(leaf, said={"library": f"XGBoost, from {path.name}"}), l2)


def _ensemble(learner: Mapping[str, Any], trees: list[Tree], settings: Mapping[str, str], given: Given) -> Ensemble:
    objective: str = learner["objective"]["name"]
    shape = learner["learner_model_param"]
    outputs = max(1, int(shape["num_class"]))
    if int(shape.get("num_target", 1)) > 1:
        raise refuse("XGBoost", "several targets", "one estimator for each target")
    loss = loss_of(objective, _losses(learner["objective"]), given, "XGBoost")
    score = np.array(json.loads(shape["base_score"]), dtype=np.float32).astype(np.float64).reshape(-1)
    return Ensemble(
        values=np.concatenate([tree.values for tree in trees]) if trees else np.zeros(0),
        counts=np.array([len(tree.values) for tree in trees], dtype=np.int64),
        output=np.asarray(learner["gradient_booster"]["model"]["tree_info"], dtype=np.int64),
        base=np.broadcast_to(_margin(score, objective), (outputs,)).copy(),
        loss=loss,
        learning_rate=round(float(settings.get("learning_rate", settings.get("eta", RATE))), 7),  # kept in float32
        l2=float(settings["reg_lambda"]) if "reg_lambda" in settings else None,
    )


def _margin(score: NDArray[np.float64], objective: str) -> NDArray[np.float64]:
    """`base_score` is stored as a prediction, except for several classes: undo the link."""
    if objective in ("binary:logistic", "reg:logistic"):
        return np.log(score / (1 - score))
    return np.log(score) if objective in ("count:poisson", "reg:gamma", "reg:tweedie") else score


def _losses(objective: Mapping[str, Any]) -> dict[str, Callable[[], Loss]]:
    positive = float(objective.get("reg_loss_param", {}).get("scale_pos_weight", 1))
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


def _trees(learner: Mapping[str, Any], *, categories: bool) -> list[Tree]:
    booster = learner["gradient_booster"]
    if booster["name"] != "gbtree":
        raise refuse("XGBoost", f"booster={booster['name']!r}", 'booster="gbtree"')
    return [_tree(found, categories) for found in booster["model"]["trees"]]


def _tree(found: Mapping[str, Any], categories: bool) -> Tree:
    if int(found["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise refuse("XGBoost", 'multi_strategy="multi_output_tree"', 'multi_strategy="one_output_per_tree"')
    if not categories and np.any(np.asarray(found.get("split_type", [0]))):
        raise ModelError(
            "the file has categorical splits, which are not read from files; load it with XGBoost and wrap the Booster"
        )
    left, right = (np.asarray(found[name], dtype=np.int64) for name in ("left_children", "right_children"))
    inner = left >= 0
    number = np.where(inner, np.cumsum(inner) - 1, ~(np.cumsum(~inner) - 1))  # inner nodes first, leaves as ~number
    condition = np.asarray(found["split_conditions"], dtype=np.float32)
    return Tree(
        left=number[left[inner]],
        right=number[right[inner]],
        feature=np.asarray(found["split_indices"], dtype=np.int64)[inner],
        threshold=condition[inner],
        default_left=np.asarray(found["default_left"]).astype(bool)[inner],
        values=condition[~inner].astype(np.float64),
        number=np.where(inner, 0, ~number),
    )
