"""The adapter for any object with `predict`: nothing is used but its predictions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rue.core.arrays import Array
from rue.core.concepts import Facts, Family, Inputs
from rue.core.errors import DataError, ModelError, RueError, SettingError, ShapeError
from rue.core.labels import label_codes
from rue.core.model import Model
from rue.core.stored import storable
from rue.losses import Loss, as_loss, cross_entropy, squared_error
from rue.models.reading import read_leaf
from rue.models.tables import as_points, described, table

SAID = "said"  # the key of the model's predictions among the inputs
LEAST = 1e-6  # smaller probabilities are raised to this before the logarithm is taken
OFF = 1e-3  # probabilities may be negative by so much, and their sum may differ from one by so much
SURE = 0.9  # the probability given to the label of a classifier that predicts labels only


@storable
@dataclass(frozen=True)
class BlackBoxCore:
    """Outputs are the predictions made when the inputs were read: numbers, or logarithms of probabilities."""

    name: str
    loss: Loss  # squared error, or cross entropy
    why: str | None = None  # the reason why only its predictions are used

    @property
    def theta(self) -> Tensor:
        """No parameters are known."""
        return torch.zeros(0, dtype=torch.float64)

    @property
    def family(self) -> Family:
        """The family of the loss, without gradients."""
        return replace(self.loss.family, gradients=False, stationary=False)

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002  there are no parameters
        """The predictions made when the inputs were read (m, k)."""
        outputs: Tensor = inputs[SAID]
        return outputs

    def describe(self) -> Facts:
        """The entries for an audit's facts."""
        return {
            "loss": self.loss.name,
            "l2": None,
            "estimator": self.name,
            "known_of_it": "its predictions alone" + (f": {self.why}" if self.why else ""),
            "dtype": "float64",
            "device": "cpu",
        }

    def contents(self) -> Iterator[str | Tensor]:
        """No parameters: two black boxes can only be told apart by their predictions."""
        yield ""
        yield self.theta


@dataclass(frozen=True)
class BlackBoxBoundary:
    """Calls the model when inputs are read, and keeps its predictions beside the points of the table."""

    name: str
    says: Callable[[Any], Array] = field(repr=False)  # from raw inputs (m, ...) to outputs (m, k)
    labels: Callable[[Any], NDArray[Any]] | None = field(default=None, repr=False)  # from raw inputs to labels
    classes: NDArray[Any] | None = field(default=None, repr=False)
    response: ClassVar[None] = None

    @property
    def answer(self) -> Callable[[Any], NDArray[Any]] | None:
        """The labels of a classifier; None for numbers, where the outputs are the predictions."""
        return None if self.labels is None else self._decided

    def read(self, core: BlackBoxCore, inputs: Any) -> Inputs:  # noqa: ARG002  the signature of all boundaries
        """Predict, and keep the predictions beside the points and levels of the table."""
        if isinstance(inputs, Dataset | DataLoader):
            raise DataError(f"{self.name} predicts tables, not loaders; give an array or a data frame")
        raw = table(inputs)
        if not raw.shape[0]:
            raise DataError("the table has no rows; give at least one row to predict")
        outputs = _asked(self.says, raw, self.name)
        if outputs.ndim != 2 or len(outputs) != raw.shape[0]:
            raise ShapeError(
                f"{self.name} returned predictions of shape {outputs.shape} for {raw.shape[0]} rows, expected one row "
                "of numbers for each: one number, or one for each target or class; make predict return that"
            )
        return {SAID: torch.from_numpy(outputs), **as_points(described(raw))}

    def read_targets(self, core: BlackBoxCore, targets: Any) -> Any:
        """Numbers (n, k), or the places of labels among the classes (n,)."""
        if self.classes is not None:
            return torch.from_numpy(label_codes(targets, self.classes))
        read = read_leaf(targets, core.theta, whole_numbers_in_frames=True).double()
        return read[:, None] if read.dim() == 1 else read

    def _decided(self, inputs: Any) -> NDArray[Any]:
        assert self.labels is not None
        return _asked(self.labels, table(inputs), self.name)


def _model(core: BlackBoxCore, boundary: BlackBoxBoundary, estimator: Any) -> Model:
    closed = (
        f"{core.name} is known by its predictions alone, so that it has no gradients and no curvature; use rue.audit, "
        "CalibratedRUE() for numbers or ClassifierRUE() for classes"
    )
    return Model(core, boundary, estimator=estimator, no_objective=closed)


def read(model: Any, loss: Any, l2: Any, why: str | None = None) -> Model:
    """Wrap an object with `predict`; with `predict_proba`, `classes_` or a loss of classes it is a classifier."""
    name = type(model).__name__
    if l2 is not None:
        raise SettingError(f"{name} is known by its predictions alone, so that no penalty can be stated; leave l2 out")
    given = None if loss is None else as_loss(loss)
    if given is not None and given.name not in ("squared_error", "cross_entropy"):
        raise SettingError(
            f'{name} is known by its predictions alone; say loss="squared_error" where these are numbers, '
            f'"cross_entropy" where they are classes, or nothing, got {given.name!r}'
        )
    numbers = given is not None and given.family.gaussian
    if not numbers and (given is not None or _classifies(model)):
        return _classifier(model, name, why)
    boundary = BlackBoxBoundary(name, partial(_numbers, model))
    return _model(BlackBoxCore(name, squared_error(), why), boundary, model)


def _classifier(model: Any, name: str, why: str | None) -> Model:
    classes = getattr(model, "classes_", None)
    if isinstance(classes, list) and classes and not np.isscalar(classes[0]):
        raise ModelError(f"{name} decides several labels of a row; wrap one classifier for each")
    if classes is None:
        raise ModelError(
            f"{name} does not say which classes it knows; give it the attribute classes_, its labels in the order of "
            "the columns of predict_proba"
        )
    labels = np.asarray(classes)
    says = partial(_probabilities if hasattr(model, "predict_proba") else _sure, model, labels)
    decides = partial(_decided, model, says, labels)
    return _model(BlackBoxCore(name, cross_entropy(), why), BlackBoxBoundary(name, says, decides, labels), model)


def _decided(model: Any, says: Callable[[Any], Array], classes: NDArray[Any], raw: Any) -> NDArray[Any]:
    """Labels (m,): the model's predictions if it has `predict`, else its most probable classes."""
    if hasattr(model, "predict"):
        return np.asarray(model.predict(raw))
    return np.asarray(classes[says(raw).argmax(1)])


def _numbers(model: Any, raw: Any) -> Array:
    return _columns(model.predict(raw))


def _probabilities(model: Any, classes: NDArray[Any], raw: Any) -> Array:
    """Logarithms of the probabilities (m, k)."""
    columns = _columns(model.predict_proba(raw))
    shares = np.hstack([1 - columns, columns]) if columns.shape[1] == 1 and len(classes) == 2 else columns
    if shares.shape[1] != len(classes):
        raise ShapeError(
            f"predict_proba has {shares.shape[1]} columns for {len(classes)} classes; give one for each, in the "
            "order of classes_"
        )
    wrong = ~((shares >= -OFF) & (np.abs(shares.sum(1, keepdims=True) - 1) <= OFF)).all(1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ModelError(
            f"predict_proba returned {np.round(shares[row], 3).tolist()} for row {row} ({wrong.sum()} of "
            f"{len(shares)} rows are wrong), expected probabilities: at least zero, and a sum of one; give a model "
            "that returns them"
        )
    return np.asarray(np.log(np.clip(shares, LEAST, None)))


def _sure(model: Any, classes: NDArray[Any], raw: Any) -> Array:
    """Outputs from labels alone: a fixed probability, because labels do not show how confident the model is."""
    rest = (1 - SURE) / max(1, len(classes) - 1)
    codes = label_codes(np.asarray(model.predict(raw)), classes)
    return np.asarray(np.log(np.where(codes[:, None] == np.arange(len(classes)), SURE, rest)))


def _asked(says: Callable[[Any], NDArray[Any]], inputs: Any, name: str) -> NDArray[Any]:
    try:
        return says(inputs)
    except RueError:
        raise
    except Exception as error:  # whatever a user's own code raises
        raise DataError(
            f"{name} failed on these inputs, {error!r}; give them as in training, and see that it can predict at all"
        ) from error


def _columns(values: Any) -> Array:
    raw = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if raw.dtype.kind not in "fiub":
        raise ModelError(
            f"the model predicts {raw.dtype} where numbers were expected; a classifier has predict_proba and classes_, "
            'or classes_ and loss="cross_entropy"'
        )
    numbers = raw.astype(np.float64)
    return numbers[:, None] if numbers.ndim == 1 else numbers


def _classifies(model: Any) -> bool:
    """Whether the model is a classifier: by its attributes, or by the tags of scikit-learn's estimators."""
    classes = getattr(model, "classes_", None)
    if hasattr(model, "predict_proba") or (
        classes is not None and len(classes)
    ):  # CatBoost's regressors have empty classes_
        return True
    tags = getattr(model, "__sklearn_tags__", None)
    return tags is not None and getattr(tags(), "estimator_type", None) == "classifier"
