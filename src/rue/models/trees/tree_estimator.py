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
from rue.losses import Loss, as_loss
from rue.models.estimator import EstimatorModel
from rue.models.labels import label_codes
from rue.models.links import Exponential, Logistic
from rue.models.tables import described, table
from rue.models.trees.forest import ForestModel
from rue.models.trees.tree_model import LEAVES, Ensemble, Penalty, tree_model

Given = str | Loss | Callable[..., Tensor] | None
Leaf = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True)
class Seen:
    """How an ensemble meets its users."""

    leaf: Leaf = field(repr=False)  # a raw table as leaves (n, T)
    own: Callable[[Any], NDArray[Any]] | None = field(default=None, repr=False)  # its predictions; None: from outputs
    classes: NDArray[Any] | None = field(default=None, repr=False)
    said: Facts = field(default_factory=dict, repr=False)


def tree_estimator(ensemble: Ensemble, seen: Seen, l2: Penalty) -> EstimatorModel:
    """Put an ensemble and its raw tables, targets and predictions together."""
    core = tree_model(ensemble, l2)
    decides = ensemble.loss.family.decision
    classes = seen.classes
    if classes is None and decides == "largest":  # softmax is no response of one output: the answer is the label
        classes = np.arange(core.k)
    response = None if classes is not None else _response(ensemble.loss)

    features = _features(seen)

    def from_outputs(inputs: Any) -> NDArray[Any]:
        outputs = core.predict(core.theta, core.read(features(inputs))).numpy()
        if classes is not None:
            return classes[outputs.argmax(1) if core.k > 1 else (outputs[:, 0] > 0).astype(int)]
        made = outputs if response is None else response.value(outputs)
        return made[:, 0] if core.k == 1 else made

    own = from_outputs if seen.own is None else seen.own
    encode = np.asarray if classes is None else partial(label_codes, classes=classes)
    return EstimatorModel(core, features, own, encode, response, classes, seen.said)


def forest_estimator(core: ForestModel, seen: Seen) -> EstimatorModel:
    """Put a forest and its raw tables, targets and predictions together."""
    assert seen.own is not None
    encode = np.asarray if seen.classes is None else partial(label_codes, classes=seen.classes)
    return EstimatorModel(core, _features(seen), seen.own, encode, None, seen.classes, seen.said)


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
    if loss.family.link == "log":
        return Exponential()
    return Logistic() if loss.family.decision == "signs" else None
