"""The adapter for LightGBM: boosters, estimators, and text model files, which are read without LightGBM."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.core.errors import ModelError, OpaqueError
from rue.core.model import Model
from rue.core.schema import remembered
from rue.losses import Loss, bernoulli, cross_entropy, gamma, poisson, squared_error, tweedie
from rue.models.tables import numbers, recoded, stored
from rue.models.trees.noted import Noted, sums_noted
from rue.models.trees.stored_tree import StoredTree, bounded, damage_refused, file_named, leaves, place_named
from rue.models.trees.tree_estimator import (
    LossChoice,
    TreeSource,
    class_weighed,
    loss_of,
    predicted,
    refuse,
    tree_estimator,
)
from rue.models.trees.tree_model import BoostedTrees, LeafPenalty

SPLITS = ("left_child", "right_child", "split_feature", "threshold", "decision_type")
NUMBERS = {"threshold": np.float64, "leaf_value": np.float64, "cat_threshold": np.uint32}  # others are int64
BESIDE = ("leaf_weight", "leaf_count", "split_gain", "internal_value", "internal_weight", "internal_count")  # not used
PLAIN = re.compile(r"[-+.0-9eEinfa ]*")  # Python would also read 1_0 and digits of other scripts, LightGBM does not
END = re.compile(r"\nend of trees|\nfeature[ _]importances:")  # files before version 3 lack the first
# Settings by which the first tree sees all rows, and objectives whose curvature is the same for all rows of a class.
ALL_ROWS = {
    "boosting": "gbdt",
    "data_sample_strategy": "bagging",
    "pos_bagging_fraction": "1",
    "neg_bagging_fraction": "1",
    "use_quantized_grad": "0",
}
LEVEL = ("regression", "binary", "multiclass", "poisson")

KeyedLines = Mapping[str, str]
"""The values of lines key=value, by key."""


def read(model: Any, loss: LossChoice, l2: LeafPenalty) -> Model:
    """An LGBM estimator, a Booster, or the path of a text model file."""
    if isinstance(model, str | Path):
        with file_named(Path(model)):
            return _of_file(Path(model), loss, l2)
    if hasattr(model, "get_params") and not model.__sklearn_is_fitted__():
        raise ModelError(f"{type(model).__name__} is not fitted; call fit before the audit")
    with damage_refused(type(model).__name__, "LightGBM"):
        header, trees, settings, _ = _parsed(getattr(model, "booster_", model).model_to_string())
        ensemble = _ensemble(header, [_array(tree, "leaf_value") for tree in trees], settings, loss)
        ensemble = replace(ensemble, noted=_noted(header, trees, settings))
    classes = getattr(model, "classes_", None)
    if getattr(model, "class_weight", None) is not None and loss is None:
        raise class_weighed()

    softmax = classes is None and len(ensemble.base) > 1
    predict = None if softmax else partial(predicted, model)
    source = TreeSource(partial(_live_leaves, model), predict, classes, {"library": "LightGBM"})
    return tree_estimator(ensemble, source, l2)


def _live_leaves(model: Any, raw: Any) -> NDArray[Any]:
    return np.asarray(model.predict(raw, pred_leaf=True)).reshape(raw.shape[0], -1)


def _of_file(path: Path, loss: LossChoice, l2: LeafPenalty) -> Model:
    with damage_refused(path.name, "LightGBM"):
        header, blocks, settings, categories = _parsed(stored(path, b"tree").decode().replace("\r\n", "\n"))
        width, names = _whole(header, "max_feature_idx") + 1, header.get("feature_names", "").split()
        for key in ("feature_names", "feature_infos"):
            if key in header and len(header[key].split()) != width:
                raise ValueError(f"{key} names {len(header[key].split())} columns, max_feature_idx {width}")
        trees = []
        for number, block in enumerate(blocks):
            with place_named(f"tree {number}"):
                trees.append(_tree(block, width))
        ensemble = _ensemble(header, [tree.values for tree in trees], settings, loss)
        ensemble = replace(ensemble, noted=_noted(header, blocks, settings))

    leaf = partial(_stored_leaves, trees, categories, path.name)
    facts, schema = {"library": f"LightGBM, from {path.name}"}, remembered(names, _levels(header, categories))
    return tree_estimator(ensemble, TreeSource(leaf, facts=facts, schema=schema), l2)


def _stored_leaves(trees: list[StoredTree], categories: list[list[Any]], name: str, raw: Any) -> NDArray[Any]:
    return leaves(trees, numbers(recoded(raw, categories)), name)


def _levels(header: KeyedLines, categories: list[list[Any]]) -> dict[int, list[Any]]:
    """The categories of columns by their place; none where the file does not say which columns had them."""
    kinds = header.get("feature_infos", "").split()  # [least:largest] of numbers, code:code:... of categories
    places = [place for place, kind in enumerate(kinds) if kind[:1] not in ("[", "n")]
    return dict(zip(places, categories, strict=True)) if len(places) == len(categories) else {}


def _parsed(text: str) -> tuple[KeyedLines, list[KeyedLines], KeyedLines, list[list[Any]]]:
    """The header, the trees, the settings, and the categories of a frame's columns in the order of their codes."""
    end = END.search(text)
    head, *blocks = text[: end.start() if end else 0].split("\nTree=")
    if not head.startswith("tree") or end is None:
        raise ValueError(f"the text begins with {text[:20]!r} and has {'an' if end else 'no'} end of trees")
    if [block.split("\n", 1)[0] for block in blocks] != [str(i) for i in range(len(blocks))]:
        raise ValueError("the trees are not numbered from 0 on")
    header, rest = _lines(head), text[end.end() :]
    _check_sizes(header, blocks)
    after, _, categories = rest.partition("\npandas_categorical:")
    settings = [line.strip()[1:-1].partition(": ") for line in after.partition("\nparameters:")[2].split("\n")]
    columns = json.loads(categories or "null") or []
    if not isinstance(columns, list) or not all(isinstance(column, list) for column in columns):
        raise ValueError("pandas_categorical is no list of lists")
    lines = [_lines(block.partition("\n")[2]) for block in blocks]
    if any(tree.get("is_linear", "0") != "0" for tree in lines):
        raise refuse("LightGBM", "linear_tree=True", "constant leaves")
    return header, lines, {key: value for key, _, value in settings}, columns


def _check_sizes(header: KeyedLines, blocks: Sequence[str]) -> None:
    """The header has the bytes of each tree: a file that lost trees, or parts of one, is refused."""
    if "tree_sizes" not in header:
        return
    announced = header["tree_sizes"].split()
    if len(announced) != len(blocks):
        raise ValueError(f"tree_sizes announces {len(announced)} trees, the file has {len(blocks)}")
    for number, (size, block) in enumerate(zip(announced, blocks, strict=True)):
        found = len(f"Tree={block}\n".encode())
        if size != str(found):
            raise ValueError(f"tree {number} has {found} bytes, tree_sizes announces {size[:20]}")


def _lines(block: str) -> KeyedLines:
    """Lines of key=value as a mapping; a line without = is a key alone."""
    pairs = [(key, value) for key, _, value in (line.partition("=") for line in block.split("\n")) if key]
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice in the header, or in one tree")
    return dict(pairs)


def _array(lines: KeyedLines, name: str) -> NDArray[Any]:
    if PLAIN.fullmatch(lines[name]) is None:
        raise ValueError(f"{name} holds something else than numbers")
    return np.array(lines[name].split(), dtype=NUMBERS.get(name, np.int64))


def _whole(lines: KeyedLines, name: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", lines[name]) is None:
        raise ValueError(f"{name} is {lines[name][:20]!r}, no whole number")
    return int(lines[name])


def _tree(lines: KeyedLines, width: int) -> StoredTree:
    for key, value in lines.items():  # also of lines that are not used: LightGBM may lose its way there
        if re.fullmatch(r"[a-z_]+", key) is None or PLAIN.fullmatch(value) is None:
            raise ValueError(f"the line {key[:20]!r} is no name and numbers")
        expected = _whole(lines, "num_leaves") - (0 if key.startswith("leaf_") else 1)
        if expected > 1 and key in BESIDE and len(value.split()) != expected:
            raise ValueError(f"{key} has {len(value.split())} numbers, expected {expected}")
    categorical = _whole(lines, "num_cat") if "num_cat" in lines else 0
    sets = [_array(lines, name) for name in ("cat_boundaries", "cat_threshold") if categorical]
    if sets and len(sets[0]) != categorical + 1:
        raise ValueError(f"num_cat announces {categorical} sets of categories, cat_boundaries {len(sets[0]) - 1}")
    tree = StoredTree(*(_array(lines, name) for name in (*SPLITS, "leaf_value")), *sets, width=width)
    if not _whole(lines, "num_leaves") == len(tree.values) == len(tree.left) + 1:
        raise ValueError(f"a tree of {lines['num_leaves']} leaves has {len(tree.values)} values")
    return tree


def _ensemble(header: KeyedLines, values: Sequence[Array], settings: KeyedLines, given: LossChoice) -> BoostedTrees:
    objective, *extra = header.get("objective", "custom").split() or ["custom"]
    boosting = settings.get("boosting", "gbdt")
    if "average_output" in header or boosting in ("rf", "dart"):
        raise refuse("LightGBM", f"boosting={boosting!r}", 'boosting="gbdt", or a forest of scikit-learn')
    if extra and extra[0] == "sqrt":
        raise refuse("LightGBM", "reg_sqrt=True", "the square root of the targets as targets")
    if any(part.startswith("sigmoid:") and float(part[8:]) != 1 for part in extra):
        raise refuse("LightGBM", f"a {extra[0]}", "sigmoid=1")
    outputs, trees = _whole(header, "num_tree_per_iteration"), len(values)
    if "num_class" in header and _whole(header, "num_class") != outputs:
        raise ValueError(f"num_class is {header['num_class']}, num_tree_per_iteration {outputs}")
    if not 0 < outputs <= max(trees, 1) or trees % outputs:
        raise ValueError(f"{trees} trees for {outputs} outputs")
    return BoostedTrees(
        values=np.concatenate([*values, np.zeros(0)]),
        counts=np.array([len(tree) for tree in values], dtype=np.int64),
        output=np.arange(trees) % outputs,
        base=np.zeros(outputs),  # LightGBM adds the mean to the leaves of its first tree
        loss=loss_of(objective, _losses(settings), given, "LightGBM"),
        learning_rate=bounded(settings.get("learning_rate", 0.1)),
        l2=bounded(settings["lambda_l2"]) if "lambda_l2" in settings else None,
    )


def _noted(header: KeyedLines, trees: Sequence[KeyedLines], settings: KeyedLines) -> Noted | None:
    """The sums of curvatures in the leaves of the first tree; None where it may have seen a part of the rows."""
    some = settings.get("bagging_fraction") != "1" and settings.get("bagging_freq") != "0"
    known = all(settings.get(name) == value for name, value in ALL_ROWS.items())
    if some or not known or not trees or header.get("objective", "").split(" ")[0] not in LEVEL:
        return None
    return sums_noted({"leaf_weight": trees[0].get("leaf_weight", "").split()}, "leaf_weight")


def _losses(settings: KeyedLines) -> dict[str, Callable[[], Loss]]:
    positive = bounded(settings.get("scale_pos_weight", 1))
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
