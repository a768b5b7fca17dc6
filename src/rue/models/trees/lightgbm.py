"""LightGBM: boosters, estimators, and text model files read without LightGBM."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Whole
from rue.core.errors import DataError, ModelError, OpaqueError
from rue.core.model import Model
from rue.losses import Loss, bernoulli, cross_entropy, gamma, poisson, squared_error, tweedie
from rue.models.tables import named, numbers, recoded, stored
from rue.models.trees.tree_estimator import Given, Seen, class_weighed, loss_of, refuse, tree_estimator
from rue.models.trees.tree_model import Ensemble, Penalty
from rue.models.trees.tree_walk import walk

ZERO = 1e-35  # what LightGBM takes for zero
NUMBERS = {"threshold": np.float64, "leaf_value": np.float64, "cat_threshold": np.uint32}  # the rest is whole


@dataclass(frozen=True)
class Tree:
    """The arrays of one tree, as its text has them."""

    left: Whole = field(repr=False)  # negative: ~leaf
    right: Whole = field(repr=False)
    feature: Whole = field(repr=False)
    threshold: NDArray[np.float64] = field(repr=False)
    kind: Whole = field(repr=False)  # bits: categorical, default left, and two of the kind of missing value
    values: NDArray[np.float64] = field(repr=False)  # of its leaves
    bounds: Whole = field(repr=False)  # of categorical splits, in `bits`
    bits: NDArray[np.uint32] = field(repr=False)

    def leaf(self, rows: NDArray[np.float64]) -> Whole:
        """The leaf of each row (n, p)."""

        def goes_left(nodes: Whole, at: Whole) -> NDArray[np.bool_]:
            value, kind = rows[at, self.feature[nodes]], self.kind[nodes]
            missing = (kind >> 2) & 3  # 0: none, 1: zero, 2: NaN
            number = np.where(np.isnan(value) & (missing != 2), 0.0, value)
            absent = ((missing == 1) & (np.abs(number) <= ZERO)) | ((missing == 2) & np.isnan(number))
            by_number = np.where(absent, kind & 2 > 0, number <= self.threshold[nodes])
            categorical = kind & 1 > 0
            return np.where(categorical, self._listed(nodes, value, categorical), by_number)

        return walk(self.left, self.right, goes_left, len(rows))

    def _listed(self, nodes: Whole, value: NDArray[np.float64], which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether a category is among those that go left."""
        found = np.zeros(len(nodes), dtype=bool)
        use = np.flatnonzero(which & (np.nan_to_num(value, nan=-1.0) >= 0))
        split, category = self.threshold[nodes[use]].astype(np.int64), value[use].astype(np.int64)
        place = self.bounds[split] + category // 32
        inside = place < self.bounds[split + 1]
        word = self.bits[np.where(inside, place, 0)].astype(np.int64)
        found[use] = inside & ((word >> (category % 32)) & 1 > 0)
        return found


def read(model: Any, loss: Given, l2: Penalty) -> Model:
    """An LGBM estimator, a Booster, or the path of a text model file."""
    if isinstance(model, str | Path):
        return _of_file(Path(model), loss, l2)
    if hasattr(model, "get_params") and not model.__sklearn_is_fitted__():
        raise ModelError(f"{type(model).__name__} is not fitted; call fit before the audit")
    booster = getattr(model, "booster_", model)
    header, trees, settings = _parsed(booster.model_to_string())
    ensemble = _ensemble(header, trees, settings, loss)
    classes = getattr(model, "classes_", None)
    if getattr(model, "class_weight", None) is not None and loss is None:
        raise class_weighed()

    def leaf(raw: Any) -> NDArray[Any]:
        return np.asarray(model.predict(raw, pred_leaf=True)).reshape(raw.shape[0], -1)

    softmax = classes is None and len(ensemble.base) > 1
    own: Callable[[Any], NDArray[Any]] | None = None if softmax else lambda raw: np.asarray(model.predict(raw))
    return tree_estimator(ensemble, Seen(leaf, own, classes, {"library": "LightGBM"}), l2)


def _of_file(path: Path, loss: Given, l2: Penalty) -> Model:
    text = stored(path).decode()
    header, trees, settings = _parsed(text)
    ensemble = _ensemble(header, trees, settings, loss)
    width = int(header["max_feature_idx"]) + 1

    names, categories = header.get("feature_names", "").split(), _categories(text)

    def leaf(raw: Any) -> NDArray[Any]:
        rows = numbers(recoded(named(raw, names, path.name), categories))
        if rows.shape[1] != width:
            raise DataError(f"inputs have {rows.shape[1]} columns of numbers, {path.name} was trained on {width}")
        return np.stack([tree.leaf(rows) for tree in trees], axis=1)

    return tree_estimator(ensemble, Seen(leaf, said={"library": f"LightGBM, from {path.name}"}), l2)


def _categories(text: str) -> list[list[Any]]:
    """The categories of a frame's categorical columns, as they were numbered in training."""
    line = text.rpartition("pandas_categorical:")[2].strip()
    return json.loads(line) or [] if line else []


def _ensemble(header: Mapping[str, str], trees: list[Tree], settings: Mapping[str, str], given: Given) -> Ensemble:
    objective, *extra = header.get("objective", "custom").split()
    boosting = settings.get("boosting", "gbdt")
    if "average_output" in header or boosting in ("rf", "dart"):
        raise refuse("LightGBM", f"boosting={boosting!r}", 'boosting="gbdt", or a forest of scikit-learn')
    if extra and extra[0] == "sqrt":
        raise refuse("LightGBM", "reg_sqrt=True", "the square root of the targets as targets")
    if any(part.startswith("sigmoid:") and float(part[8:]) != 1 for part in extra):
        raise refuse("LightGBM", f"a {extra[0]}", "sigmoid=1")
    outputs = int(header["num_tree_per_iteration"])
    return Ensemble(
        values=np.concatenate([tree.values for tree in trees]) if trees else np.zeros(0),
        counts=np.array([len(tree.values) for tree in trees], dtype=np.int64),
        output=np.arange(len(trees)) % outputs,
        base=np.zeros(outputs),  # LightGBM adds the mean to the leaves of its first tree
        loss=loss_of(objective, _losses(settings), given, "LightGBM"),
        learning_rate=float(settings.get("learning_rate", 0.1)),
        l2=float(settings["lambda_l2"]) if "lambda_l2" in settings else None,
    )


def _losses(settings: Mapping[str, str]) -> dict[str, Callable[[], Loss]]:
    positive = float(settings.get("scale_pos_weight", 1))
    if settings.get("is_unbalance", "0") == "1":
        raise OpaqueError("is_unbalance=True weighs classes by numbers that are not stored; use scale_pos_weight")
    return {
        "regression": squared_error,
        "binary": lambda: bernoulli(positive),
        "cross_entropy": bernoulli,
        "multiclass": cross_entropy,
        "poisson": poisson,
        "gamma": gamma,
        "tweedie": lambda: tweedie(float(settings.get("tweedie_variance_power", 1.5))),
    }


def _parsed(text: str) -> tuple[dict[str, str], list[Tree], dict[str, str]]:
    """The header, the trees and the settings of a text model."""
    head, *blocks = text.partition("end of trees")[0].split("\nTree=")
    if not head.startswith("tree"):
        raise ModelError(f"not a LightGBM text model: it begins with {text[:20]!r}; save one with booster.save_model")
    after = text.partition("parameters:")[2].splitlines()
    settings = dict(line[1:-1].split(": ", 1) for line in after if line.startswith("[") and ": " in line)
    return _pairs(head), [_tree(_pairs(block)) for block in blocks], settings


def _pairs(block: str) -> dict[str, str]:
    """Lines of key=value; a word alone is a key."""
    return {key: value for key, _, value in (line.partition("=") for line in block.splitlines()) if key}


def _tree(found: Mapping[str, str]) -> Tree:
    if found.get("is_linear", "0") == "1":
        raise refuse("LightGBM", "linear_tree=True", "constant leaves")

    def numbers_of(name: str) -> NDArray[Any]:
        return np.array(found.get(name, "").split(), dtype=NUMBERS.get(name, np.int64))

    names = ("left_child", "right_child", "split_feature", "threshold", "decision_type", "leaf_value")
    return Tree(*(numbers_of(name) for name in (*names, "cat_boundaries", "cat_threshold")))
