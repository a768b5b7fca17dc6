"""A tree ensemble as its users see it: what all readers of tree libraries end with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rue.core.concepts import Facts, Response
from rue.core.errors import DataError, OpaqueError, RueError
from rue.core.model import Model
from rue.losses import Loss, as_loss
from rue.models.estimator import EstimatorBoundary
from rue.models.labels import label_codes
from rue.models.links import Exponential, Logistic
from rue.models.tables import described, table
from rue.models.trees.forest import NO_BAG, NO_OBJECTIVE, ForestCore, ForestReading
from rue.models.trees.tree_model import LEAVES, Ensemble, Penalty, TreeReading, through_few_numbers, tree_core

LOGARITHMS = ("poisson", "gamma", "tweedie")

Given = str | Loss | Callable[..., Tensor] | None
Leaf = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True)
class Seen:
    """How an ensemble meets its users."""

    leaf: Leaf = field(repr=False)  # a raw table as leaves (n, T)
    own: Callable[[Any], NDArray[Any]] | None = field(default=None, repr=False)  # its predictions; None: from outputs
    classes: NDArray[Any] | None = field(default=None, repr=False)
    said: Facts = field(default_factory=dict, repr=False)


def tree_estimator(ensemble: Ensemble, seen: Seen, l2: Penalty) -> Model:
    """Put an ensemble and its raw tables, targets and predictions together."""
    core, reading = tree_core(ensemble, l2), TreeReading()
    decides = ensemble.loss.family.decision
    classes = seen.classes
    if classes is None and decides == "largest":  # softmax is no response of one output: the answer is the label
        classes = np.arange(core.k)
    response = None if classes is not None else _response(ensemble.loss)

    features = _features(seen)

    def from_outputs(inputs: Any) -> NDArray[Any]:
        outputs = core.predict(core.theta, reading.read(core, features(inputs))).numpy()
        if classes is not None:
            return classes[outputs.argmax(1) if core.k > 1 else (outputs[:, 0] > 0).astype(int)]
        made = outputs if response is None else response.value(outputs)
        return made[:, 0] if core.k == 1 else made

    own = from_outputs if seen.own is None else seen.own
    encode: Callable[[Any], Any] = np.asarray if classes is None else partial(label_codes, classes=classes)
    boundary = EstimatorBoundary(reading, features, own, encode, response, classes)
    return Model(core, boundary, seen.said, quick=through_few_numbers)


def forest_estimator(core: ForestCore, seen: Seen) -> Model:
    """Put a forest and its raw tables, targets and predictions together."""
    assert seen.own is not None
    encode: Callable[[Any], Any] = np.asarray if seen.classes is None else partial(label_codes, classes=seen.classes)
    boundary = EstimatorBoundary(ForestReading(), _features(seen), seen.own, encode, None, seen.classes)
    blind = None if core.forest.bootstrap else NO_BAG
    return Model(core, boundary, seen.said, no_objective=NO_OBJECTIVE, blind=blind)


def loss_of(objective: str, known: Mapping[str, Callable[[], Loss]], given: Given, library: str) -> Loss:
    """The loss an objective stands for; one that is given is believed."""
    if given is not None:
        return as_loss(given)
    if objective in known:
        return known[objective]()
    raise OpaqueError(
        f"{library} grew these trees for {objective!r}, which no loss here stands for (quantiles, absolute errors and "
        f"ranks have no curvature to audit by); train for one of {', '.join(known)}, or say loss= for an objective of "
        "your own that is one of rue.losses"
    )


def refuse(library: str, found: str, wanted: str) -> OpaqueError:
    """The error for an ensemble that is not a plain sum of its leaf values."""
    return OpaqueError(f"{library} has {found} here, which is no plain sum of leaf values; use {wanted}")


def class_weighed() -> OpaqueError:
    """The error for classes whose weights only the training knew."""
    return OpaqueError(
        'class_weight weighs rows unknown to the audit; say loss="bernoulli" or "cross_entropy" and give '
        "rue.Data(X, y, weight=sklearn.utils.class_weight.compute_sample_weight(class_weight, y))"
    )


def _features(seen: Seen) -> Callable[[Any], Any]:
    def features(inputs: Any) -> Any:
        raw = table(inputs)
        if not raw.shape[0]:
            raise DataError("there are no rows; give at least one")
        try:
            return {LEAVES: seen.leaf(raw), **described(raw)}
        except RueError:
            raise
        except Exception as error:  # each library has its own
            raise DataError(f"the trees cannot take these inputs: {error}; give them as in training") from error

    return features


def _response(loss: Loss) -> Response | None:
    if loss.name.startswith(LOGARITHMS):
        return Exponential()
    return Logistic() if loss.family.decision == "signs" else None
