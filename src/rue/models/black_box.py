"""Any object with `predict`: nothing is known of it but what it says of inputs."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rue.core.arrays import Array
from rue.core.concepts import Batches, Facts, Family, Inputs
from rue.core.errors import DataError, ModelError, RueError, SettingError, ShapeError
from rue.losses import Loss, as_loss, cross_entropy, squared_error
from rue.models.labels import label_codes
from rue.models.reading import read_leaf
from rue.models.tables import as_points, described, table

SAID = "said"  # the part of the inputs that is the model's own word on them
LEAST = 1e-6  # of a probability, before its logarithm is taken
OFF = 1e-3  # that probabilities may be below zero, or their sum away from one
SURE = 0.9  # the probability of a label, where a classifier says nothing but labels


@dataclass(frozen=True)
class BlackBoxModel:
    """Outputs are what the model said when its inputs were read: numbers, or logarithms of probabilities."""

    name: str
    judged: Loss  # squared error, or cross entropy
    says: Callable[[Any], Array] = field(repr=False)  # raw inputs (m, ...) to outputs (m, k)
    labels: Callable[[Any], NDArray[Any]] | None = field(repr=False)  # what a classifier decides
    classes: NDArray[Any] | None = field(repr=False)
    estimator: Any = field(default=None, repr=False)  # as the user has it: copies of it may be trained
    why: str | None = None  # no more is known of it

    @property
    def theta(self) -> Tensor:
        """None are known."""
        return torch.zeros(0, dtype=torch.float64)

    @property
    def centre(self) -> Tensor:
        """As of theta."""
        return self.theta

    @property
    def stated(self) -> bool:
        """There is nothing to state."""
        return True

    @property
    def family(self) -> Family:
        """The loss knows what outputs mean."""
        return replace(self.judged.family, gradients=False, stationary=False)

    @property
    def response(self) -> None:
        """The outputs are predictions, or logarithms of probabilities."""

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002  the protocol's
        """What was said when the inputs were read (m, k)."""
        found: Tensor = inputs[SAID]
        return found

    def loss(self, outputs: Tensor, targets: Any) -> Tensor:
        """Loss of each example (n,)."""
        return self.judged.value(outputs, targets)

    def loss_hessian(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """∂²ℓ/∂f²."""
        return None if self.judged.hessian is None else self.judged.hessian(outputs, targets)

    def coupling(self, outputs: Tensor, targets: Any, weight: Tensor) -> NoReturn:  # noqa: ARG002  the protocol's
        """Rows are judged one by one."""
        raise self._closed()

    def penalty(self, theta: Tensor) -> Tensor:
        """None is known."""
        return theta.sum()

    def jacobian(self, inputs: Inputs) -> NoReturn:  # noqa: ARG002  the protocol's
        """There are no parameters to vary."""
        raise self._closed()

    def answer(self, inputs: Any) -> NDArray[Any] | None:
        """The labels of a classifier; numbers are the outputs."""
        return None if self.labels is None else _asked(self.labels, table(inputs), self.name)

    def read(self, inputs: Any) -> Inputs:
        """Ask the model, and keep what it said beside the points and levels of the table."""
        if isinstance(inputs, Dataset | DataLoader):
            raise DataError(f"{self.name} predicts tables, not loaders; give an array or a data frame")
        raw = table(inputs)
        if not raw.shape[0]:
            raise DataError("there are no rows; give at least one")
        said = _asked(self.says, raw, self.name)
        if said.ndim != 2 or len(said) != raw.shape[0]:
            raise ShapeError(
                f"{self.name} said something of shape {said.shape} of {raw.shape[0]} rows, expected a number, or "
                "one for each target or class, for every row"
            )
        return {SAID: torch.from_numpy(said), **as_points(described(raw))}

    def read_targets(self, targets: Any) -> Any:
        """Numbers (n, k), or the places of labels among the classes (n,)."""
        if self.classes is not None:
            return torch.from_numpy(label_codes(targets, self.classes))
        read = read_leaf(targets, torch.zeros(0, dtype=torch.float64), whole_numbers_in_frames=True).double()
        return read[:, None] if read.dim() == 1 else read

    def bind(self, inputs: Inputs, total_weight: float, batches: Batches | None = None) -> Self:  # noqa: ARG002  same
        """All is known."""
        return self

    def describe(self) -> Facts:
        """That there is nothing inside to see."""
        return {
            "loss": self.judged.name,
            "l2": None,
            "estimator": self.name,
            "known_of_it": "its predictions alone" + (f": {self.why}" if self.why else ""),
            "dtype": "float64",
            "device": "cpu",
        }

    def _closed(self) -> ModelError:
        return ModelError(
            f"{self.name} is known by its predictions alone, so that it has no gradients and no curvature; use "
            "rue.audit, CalibratedRUE() for numbers or ClassifierRUE() for classes"
        )


def read(model: Any, loss: Any, l2: Any, why: str | None = None) -> BlackBoxModel:
    """An object with `predict`; one with `predict_proba` or `classes_`, or a loss of classes, is a classifier."""
    name = type(model).__name__
    if l2 is not None:
        raise SettingError(f"{name} is known by its predictions alone, so that no penalty can be stated; leave l2 out")
    told = None if loss is None else as_loss(loss)
    if told is not None and told.name not in ("squared_error", "cross_entropy"):
        raise SettingError(
            f'{name} is known by its predictions alone; say loss="squared_error" where these are numbers, '
            f'"cross_entropy" where they are classes, or nothing, got {told.name!r}'
        )
    numbers = told is not None and told.family.gaussian
    if not numbers and (told is not None or _classifies(model)):
        return _classifier(model, name, why)
    return BlackBoxModel(name, squared_error(), lambda raw: _columns(model.predict(raw)), None, None, why=why)


def _classifier(model: Any, name: str, why: str | None) -> BlackBoxModel:
    classes = getattr(model, "classes_", None)
    if isinstance(classes, list) and classes and not np.isscalar(classes[0]):
        raise ModelError(f"{name} decides several labels of a row; wrap one classifier for each")
    if classes is None:
        raise ModelError(
            f"{name} does not say which classes it knows; give it the attribute classes_, its labels in the order of "
            "the columns of predict_proba"
        )
    known = np.asarray(classes)
    says = _probabilities(model, known) if hasattr(model, "predict_proba") else _sure(model, known)
    decides = partial(_decided, model, says, known)
    return BlackBoxModel(name, cross_entropy(), says, decides, known, why=why)


def _decided(model: Any, says: Callable[[Any], Array], classes: NDArray[Any], raw: Any) -> NDArray[Any]:
    """Labels (m,): what the model predicts, else its most probable class."""
    if hasattr(model, "predict"):
        return np.asarray(model.predict(raw))
    return np.asarray(classes[says(raw).argmax(1)])


def _probabilities(model: Any, classes: NDArray[Any]) -> Callable[[Any], Array]:
    def says(raw: Any) -> Array:
        found = _columns(model.predict_proba(raw))
        shares = np.hstack([1 - found, found]) if found.shape[1] == 1 and len(classes) == 2 else found
        if shares.shape[1] != len(classes):
            raise ShapeError(
                f"predict_proba has {shares.shape[1]} columns for {len(classes)} classes; give one for each, in the "
                "order of classes_"
            )
        wrong = ~((shares >= -OFF) & (np.abs(shares.sum(1, keepdims=True) - 1) <= OFF)).all(1)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ModelError(
                f"predict_proba says {np.round(shares[row], 3).tolist()} of row {row} ({wrong.sum()} of {len(shares)} "
                "rows), expected probabilities: at least zero, and a sum of one; give a model that returns them"
            )
        return np.asarray(np.log(np.clip(shares, LEAST, None)))

    return says


def _sure(model: Any, classes: NDArray[Any]) -> Callable[[Any], Array]:
    """Labels alone say nothing of how sure they are: that is left to whoever judges them."""
    rest = (1 - SURE) / max(1, len(classes) - 1)

    def says(raw: Any) -> Array:
        codes = label_codes(np.asarray(model.predict(raw)), classes)
        return np.asarray(np.log(np.where(codes[:, None] == np.arange(len(classes)), SURE, rest)))

    return says


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
    found = raw.astype(np.float64)
    return found[:, None] if found.ndim == 1 else found


def _classifies(model: Any) -> bool:
    """By what it has, or what scikit-learn's estimators say of themselves."""
    classes = getattr(model, "classes_", None)
    if hasattr(model, "predict_proba") or (
        classes is not None and len(classes)
    ):  # CatBoost's regressors have none of them
        return True
    tags = getattr(model, "__sklearn_tags__", None)
    return tags is not None and getattr(tags(), "estimator_type", None) == "classifier"
