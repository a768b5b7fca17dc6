"""Makes a model of a tree ensemble and its boundary; the last step of all readers of tree libraries."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rue.core.arrays import Whole
from rue.core.boundary import Response
from rue.core.concepts import Facts
from rue.core.errors import DataError, ModelError, OpaqueError, RueError
from rue.core.labels import label_codes
from rue.core.model import Model
from rue.core.schema import Schema
from rue.losses import Loss, as_loss
from rue.models.estimator import EstimatorBoundary
from rue.models.links import Exponential, Logistic
from rue.models.tables import described, table
from rue.models.trees.forest import NO_BAG, NO_OBJECTIVE, ForestCore, ForestReading
from rue.models.trees.tree_model import (
    LEAVES,
    BoostedTrees,
    LeafPenalty,
    TreeCore,
    TreeReading,
    through_few_numbers,
    tree_core,
)

# Objectives that order the rows of a query, or the two rows of a pair: lambdarank, rank:ndcg, YetiRank, PairLogit.
RANKS = re.compile(r"(?i)rank|ndcg|^query|^pair|lambdamart")
LARGEST_LOG = 709  # exp of a larger number overflows in float64

LossChoice = str | Loss | Callable[..., Tensor] | None
"""The loss that a user names for an ensemble; None to read it from the ensemble."""


@dataclass(frozen=True)
class TreeSource:
    """Where an ensemble's leaves, predictions and classes come from: a live estimator, a booster, or a file."""

    leaf: Callable[[Any], NDArray[Any]] = field(repr=False)  # from a raw table to leaves (n, T)
    predict: Callable[[Any], NDArray[Any]] | None = field(default=None, repr=False)  # None: computed from the outputs
    classes: NDArray[Any] | None = field(default=None, repr=False)
    facts: Facts = field(default_factory=dict, repr=False)
    schema: Schema | None = field(default=None, repr=False)  # of the columns, where a file keeps it


def tree_estimator(ensemble: BoostedTrees, source: TreeSource, l2: LeafPenalty) -> Model:
    """The model of a boosted ensemble."""
    _check_settings(ensemble)
    core = tree_core(ensemble, l2)
    classes = source.classes
    if classes is None and ensemble.loss.family.decision == "largest":  # the prediction is a label, not a softmax
        classes = np.arange(core.k)
    response = None if classes is not None else _response(ensemble.loss)
    features = partial(_features, source)
    predict = source.predict or partial(_from_outputs, core, features, response, classes)
    encode: Callable[[Any], Any] = np.asarray if classes is None else partial(label_codes, classes=classes)
    boundary = EstimatorBoundary(TreeReading(), features, predict, encode, response, classes)
    return Model(core, boundary, source.facts, quick=through_few_numbers, schema=source.schema)


def forest_estimator(core: ForestCore, source: TreeSource) -> Model:
    """The model of a forest."""
    assert source.predict is not None
    classes = source.classes
    encode: Callable[[Any], Any] = np.asarray if classes is None else partial(label_codes, classes=classes)
    boundary = EstimatorBoundary(ForestReading(), partial(_features, source), source.predict, encode, None, classes)
    blind = None if core.forest.bootstrap else NO_BAG
    return Model(core, boundary, source.facts, no_objective=NO_OBJECTIVE, blind=blind)


def loss_of(objective: str, known: Mapping[str, Callable[[], Loss]], given: LossChoice, library: str) -> Loss:
    """The loss of a library's objective; a loss that the user gives takes precedence."""
    if given is not None:
        return as_loss(given)
    if objective in known:
        return known[objective]()
    if RANKS.search(objective):
        raise ModelError(
            f"{library} grew these trees for {objective!r}, which ranks the rows of a query: its outputs have an order "
            "and no size, so that no target can be compared with them; audit a model that was trained for the grades, "
            f"for one of {', '.join(known)}"
        )
    raise OpaqueError(
        f"{library} grew these trees for {objective!r}, which no loss here stands for (quantiles, absolute errors and "
        f"ranks have no curvature to audit by); train for one of {', '.join(known)}, or say loss= for an objective of "
        "your own that is one of rue.losses"
    )


def leaves_of_nodes(nodes: Callable[[Any], Any], is_leaf: Sequence[NDArray[np.bool_]]) -> Callable[[Any], Whole]:
    """A function from tables to leaves (n, T), counted from zero in each tree; `nodes` gives the library's nodes."""
    return partial(_leaf_numbers, nodes, [np.cumsum(leaf) - 1 for leaf in is_leaf])


def _leaf_numbers(nodes: Callable[[Any], Any], places: Sequence[Whole], raw: Any) -> Whole:
    node = np.asarray(nodes(raw)).astype(np.int64).reshape(raw.shape[0], -1)
    return np.stack([place[node[:, t]] for t, place in enumerate(places)], axis=1)


def predicted(model: Any, raw: Any) -> NDArray[Any]:
    """The predictions of a library's own model for a raw table, as an array."""
    return np.asarray(model.predict(raw))


def refuse(library: str, setting: str, wanted: str) -> OpaqueError:
    """The error for an ensemble that is not a plain sum of its leaf values."""
    return OpaqueError(f"{library} has {setting} here, which is no plain sum of leaf values; use {wanted}")


def class_weighed() -> OpaqueError:
    """The error for class weights that are not stored with the model."""
    return OpaqueError(
        'class_weight weighs rows unknown to the audit; say loss="bernoulli" or "cross_entropy" and give '
        "rue.Data(X, y, weight=sklearn.utils.class_weight.compute_sample_weight(class_weight, y))"
    )


def _check_settings(ensemble: BoostedTrees) -> None:
    rate, l2 = ensemble.learning_rate, ensemble.l2 or 0.0
    if not (rate > 0 and l2 >= 0 and isfinite(max(l2, 1.0) / rate)):
        raise ModelError(f"the trees have learning rate {rate:g} and l2 {l2:g}, expected above 0 and at least 0")
    largest = max(np.abs(part).max(initial=0.0) for part in (ensemble.values, ensemble.base))
    if ensemble.loss.family.link == "log" and largest > LARGEST_LOG:
        raise ModelError(f"the trees have leaf values beyond ±{LARGEST_LOG}, which are logarithms of no mean")
    if ensemble.loss.family.decision == "largest" and len(ensemble.base) < 2:
        raise ModelError(f"the trees have one output, {ensemble.loss.name} wants one for each class")


def _features(source: TreeSource, inputs: Any) -> Any:
    raw = table(inputs)
    if not raw.shape[0]:
        raise DataError("the table has no rows; give at least one row to predict")
    try:
        return {LEAVES: source.leaf(raw), **described(raw)}
    except RueError:
        raise
    except Exception as error:  # each library raises its own errors
        why = str(error).partition("\nStack trace")[0]
        raise DataError(f"the trees cannot take these inputs: {why}; give them as in training") from error


def _from_outputs(
    core: TreeCore,
    features: Callable[[Any], Any],
    response: Response | None,
    classes: NDArray[Any] | None,
    inputs: Any,
) -> NDArray[Any]:
    """Predictions (m,) or (m, k) that are made of the outputs, for ensembles that do not predict by themselves."""
    outputs = core.predict(core.theta, TreeReading().read(core, features(inputs))).numpy()
    if classes is not None:
        return classes[outputs.argmax(1) if core.k > 1 else (outputs[:, 0] > 0).astype(int)]
    prediction = outputs if response is None else response.value(outputs)
    return prediction[:, 0] if core.k == 1 else prediction


def _response(loss: Loss) -> Response | None:
    if loss.family.link == "log":
        return Exponential()
    return Logistic() if loss.family.decision == "signs" else None
