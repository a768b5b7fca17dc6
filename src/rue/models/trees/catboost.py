"""The adapter for CatBoost, which reads leaves, leaf values, scale and bias by CatBoost's own interface."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.errors import ModelError, OpaqueError
from rue.core.model import Model
from rue.losses import Loss, bernoulli, cross_entropy, poisson, squared_error, tweedie
from rue.models.trees.noted import Noted, sums_noted
from rue.models.trees.tree_estimator import LossChoice, TreeSource, loss_of, tree_estimator
from rue.models.trees.tree_model import BoostedTrees, LeafPenalty

LEVEL = ("RMSE", "Logloss", "Poisson")  # losses whose curvature at a constant is the same for all rows of a class


def read(model: Any, loss: LossChoice, l2: LeafPenalty) -> Model:
    """A fitted CatBoost model; for several classes each tree is read as one tree for each class."""
    if not model.is_fitted():
        raise ModelError(f"{type(model).__name__} is not fitted; fit it first")
    settings = model.get_all_params()
    ensemble = _ensemble(model, settings, loss)
    k = len(ensemble.base)
    labels = np.asarray(getattr(model, "classes_", []))
    classes = labels if len(labels) else None
    raw_outputs = classes is None and not hasattr(model, "score")  # CatBoost() predicts outputs, whatever its loss
    predict = None if raw_outputs else partial(_predicted, model)
    source = TreeSource(partial(_leaves, model, k), predict, classes, {"library": "CatBoost"})
    return tree_estimator(ensemble, source, l2)


def _leaves(model: Any, k: int, raw: Any) -> NDArray[Any]:
    return np.repeat(np.asarray(model.calc_leaf_indexes(raw)).reshape(len(raw), -1), k, axis=1)


def _predicted(model: Any, raw: Any) -> NDArray[Any]:
    return np.asarray(model.predict(raw)).reshape(len(raw))


def _ensemble(model: Any, settings: Mapping[str, Any], given: LossChoice) -> BoostedTrees:
    name, _, options = str(settings["loss_function"]).partition(":")
    scale, bias = model.get_scale_and_bias()
    counts = np.asarray(model.get_tree_leaf_counts(), dtype=np.int64)
    base = np.atleast_1d(np.asarray(bias, dtype=np.float64))
    k = len(base)
    # from (tree, leaf, output) to (tree, output, leaf)
    by_tree = np.split(scale * np.asarray(model.get_leaf_values()).reshape(-1, k), np.cumsum(counts)[:-1])
    return BoostedTrees(
        values=np.concatenate([values.T.reshape(-1) for values in by_tree]) if len(counts) else np.zeros(0),
        counts=np.repeat(counts, k),
        output=np.tile(np.arange(k), len(counts)),
        base=base,
        loss=loss_of(name, _losses(options, settings.get("class_weights") or ()), given, "CatBoost"),
        learning_rate=round(float(settings["learning_rate"]), 7),  # kept in float32
        l2=float(settings["l2_leaf_reg"]),
        noted=_noted(model, name, counts),
    )


def _noted(model: Any, objective: str, counts: NDArray[np.int64]) -> Noted | None:
    """The sums of weights in the leaves of the first tree; in training, categories were other numbers than later."""
    encoded = (model.get_cat_feature_indices, model.get_text_feature_indices, model.get_embedding_feature_indices)
    try:
        if objective not in LEVEL or not len(counts) or any(len(places()) for places in encoded):
            return None
        weights = model.get_leaf_weights()
    except Exception:  # several classes, some stored models and older releases have none; the errors are CatBoost's own
        return None
    return sums_noted({"weights": weights}, "weights", slice(0, int(counts[0])))


def _losses(options: str, weights: Any) -> dict[str, Callable[[], Loss]]:
    chosen = dict(part.split("=", 1) for part in options.split(";") if "=" in part)

    def yes_or_no() -> Loss:
        if len(weights) == 2 and weights[0] != 1:
            raise OpaqueError(
                f"class weights {list(weights)} weigh the first class too; scale them so that it has weight 1 "
                '(scale_pos_weight), or say loss="bernoulli" and give them as rue.Data(X, y, weight=...)'
            )
        return bernoulli(float(weights[1]) if len(weights) == 2 else 1.0)

    def one_of_several() -> Loss:
        return cross_entropy(class_weight=[float(weight) for weight in weights] or None)

    return {
        "RMSE": squared_error,
        "Logloss": yes_or_no,
        "CrossEntropy": bernoulli,
        "MultiClass": one_of_several,
        "Poisson": poisson,
        "Tweedie": lambda: tweedie(float(chosen.get("variance_power", 1.5))),
    }
