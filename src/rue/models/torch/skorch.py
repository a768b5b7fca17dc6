"""The adapter for skorch: a module with the criterion and the weight decay it was trained with."""

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNet, NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from skorch.exceptions import NotInitializedError
from torch import Tensor, nn

from rue.core.errors import ModelError, RueWarning
from rue.core.model import Model
from rue.core.resample import untouched
from rue.losses import cross_entropy, stated
from rue.losses.stated import READERS
from rue.models.estimator import EstimatorBoundary
from rue.models.torch.module import ModuleBoundary, settle_module, wrap_module
from rue.models.torch.optimizer import read_optimizer

KNOWN = (*READERS, nn.NLLLoss)  # the criteria that can be read


def read(net: Any, loss: Any, l2: Any) -> Model:
    """A fitted net as a model; `loss` and `l2` are needed only where they cannot be read from the net.

    skorch holds a part of the rows out for validation: give the audit only the rows that were trained on.
    """
    _check_fitted(net)
    private = _private(net)
    private.module_.eval()
    module = private.module_
    criterion = _criterion(net) if loss is None else SkorchCriterion(loss)
    decay = _weight_decay(net) if l2 is None else l2
    if criterion.logarithm:
        module, decay = LogProbabilities(module), _inside(decay)
    plain = wrap_module(module, criterion.loss, decay, None, stated(criterion.loss).reduction or "mean", None)
    if not isinstance(net, NeuralNetClassifier | NeuralNetBinaryClassifier | NeuralNetRegressor):
        return plain
    split = None if net.train_split is None else repr(net.train_split)
    boundary = EstimatorBoundary(ModuleBoundary(), _features, partial(_own, private), classes=_classes(net))
    return Model(plain.core, boundary, {"estimator": type(net).__name__, "train_split": split}, settle=settle_module)


def _own(net: Any, inputs: Any) -> NDArray[Any]:
    with untouched():  # skorch's loader draws from the global random state
        return np.asarray(net.predict(inputs))


@dataclass(frozen=True)
class SkorchCriterion:
    """The loss that was averaged over rows, and whether the module returns probabilities instead of logits."""

    loss: Any  # as `rue.wrap` takes it
    logarithm: bool = False  # the module returns probabilities


class LogProbabilities(nn.Module):
    """Logits of a module that ends in a softmax, as skorch makes them for `NLLLoss`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *positional: Any, **named: Any) -> Tensor:
        """The logarithm of the probabilities, raised by the rounding unit as skorch does."""
        shares: Tensor = self.module(*positional, **named)
        return torch.log(shares + torch.finfo(shares.dtype).eps)


def _criterion(net: Any) -> SkorchCriterion:
    criterion = net.criterion_
    if not type(net).get_loss.__module__.startswith("skorch"):
        raise ModelError(f"{type(net).__name__} has a get_loss of its own; say loss= and l2=, as for net.module_")
    if type(criterion) not in KNOWN:
        raise ModelError(
            f"the criterion {type(criterion).__name__} is not known; say loss=, or train with one of "
            f"{', '.join(kind.__name__ for kind in KNOWN)}"
        )
    if criterion.reduction != "mean":
        raise ModelError(
            f"the criterion has reduction={criterion.reduction!r}, so that its weight decay depends on the batches; "
            "wrap net.module_ and say the l2 and the reduction of the whole objective"
        )
    if isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss):
        _refuse_weighted_batches(criterion, net)
    if isinstance(criterion, nn.NLLLoss):
        weight = None if criterion.weight is None else criterion.weight.tolist()
        return SkorchCriterion(cross_entropy(0.0, weight), logarithm=isinstance(net, NeuralNetClassifier))
    return SkorchCriterion(criterion)


def _refuse_weighted_batches(criterion: Any, net: Any) -> None:
    decay = read_optimizer(net.optimizer_, net.module_, l2_given=True).l2
    if criterion.weight is not None and decay is not None and any(decay.values()):
        raise ModelError(
            "the criterion divides by the class weights of each batch, so that the weight decay of the whole is not "
            "known; wrap net.module_ with loss=rue.losses.cross_entropy(class_weight=...) and the l2 of the sum"
        )


def _weight_decay(net: Any) -> dict[str, float] | None:
    """The l2 of each parameter, read from the optimizer; None, with a warning, where it is unknown."""
    optimized = read_optimizer(net.optimizer_, net.module_, l2_given=False)
    if optimized.l2 is None:
        text = f"{optimized.why}: l2 is unknown; say l2= if a penalty comes near to it"
        warnings.warn(text, RueWarning, stacklevel=4)
        return None
    trained = [name for name, parameter in net.module_.named_parameters() if parameter.requires_grad]
    return {name: value for name, value in optimized.l2.items() if not trained or name in trained}


def _inside(decay: Any) -> Any:
    return {f"module.{name}": value for name, value in decay.items()} if isinstance(decay, Mapping) else decay


def _classes(net: Any) -> NDArray[Any] | None:
    """The classes: the numbers of the outputs, whatever labels skorch was given."""
    if isinstance(net, NeuralNetRegressor):
        return None
    if isinstance(net, NeuralNetBinaryClassifier):
        if net.threshold != 0.5:
            raise ModelError(f"the net decides at {net.threshold} rather than 0.5; wrap net.module_ with its loss")
        return np.arange(2)
    try:
        return np.arange(len(net.classes_))
    except AttributeError as error:
        raise ModelError(
            "the net was trained on a Dataset and does not know its classes; give it classes=[0, 1, ...]"
        ) from error


def _features(inputs: Any) -> Any:
    """Inputs for the module: skorch passes the columns of a data frame by name, each (m, 1)."""
    if hasattr(inputs, "iloc") and getattr(inputs, "ndim", 1) == 2:
        return {name: inputs[name].to_numpy()[:, None] for name in inputs}
    return inputs


def _check_fitted(net: Any) -> None:
    if not isinstance(net, NeuralNet):
        raise ModelError(f"cannot read {type(net).__name__} of skorch; give a fitted NeuralNet")
    try:
        net.check_is_fitted(["module_", "criterion_", "optimizer_"])
    except NotInitializedError as error:
        raise ModelError("the net is not fitted yet; call net.fit(X, y) first") from error


def _private(net: Any) -> Any:
    """A copy of the net, because `predict` changes the mode of the module."""
    try:
        return copy.deepcopy(net)
    except Exception as error:
        raise ModelError(
            f"the net cannot be copied ({error}); remove callbacks with open files, or wrap net.module_"
        ) from error
