"""The adapter for skorch: a module with the criterion and the weight decay it was trained with."""

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNet, NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from skorch.exceptions import NotInitializedError
from torch import Tensor, nn

from rue.concepts import Model
from rue.errors import ModelError, RueWarning
from rue.losses import Loss, as_loss, bernoulli, cross_entropy, huber, poisson, squared_error
from rue.models.estimator import EstimatorModel
from rue.models.module import wrap_module
from rue.randomness import untouched


def read(net: Any, loss: Any, l2: Any) -> Model:
    """A fitted net, as what its `predict` gives; `loss` and `l2` are for what cannot be read off it.

    skorch keeps a part of the rows for validation: give `fit` those that were trained on.
    """
    _check_fitted(net)
    private = _private(net)
    private.module_.eval()
    module = private.module_
    criterion = _criterion(net) if loss is None else Criterion(as_loss(loss))
    decay = _weight_decay(net) if l2 is None else l2
    if criterion.logarithm:
        module, decay = LogProbabilities(module), _inside(decay)
    rule = _for_one_output(criterion, decay) if criterion.averages_outputs else criterion.loss
    core = wrap_module(module, rule, _scaled(decay, 1 / criterion.scale), None, "mean", None)
    if not isinstance(net, NeuralNetClassifier | NeuralNetBinaryClassifier | NeuralNetRegressor):
        return core

    def own(inputs: Any) -> NDArray[Any]:
        with untouched():  # a loader draws a random number
            return np.asarray(private.predict(inputs))

    said = {"estimator": type(net).__name__, "train_split": None if net.train_split is None else repr(net.train_split)}
    return EstimatorModel(core, _features, own, classes=_classes(net), said=said)


@dataclass(frozen=True)
class Criterion:
    """A criterion as a loss of ours: criterion = scale · mean over rows of the loss."""

    loss: Loss
    scale: float = 1.0
    averages_outputs: bool = False  # k outputs: the scale is this, divided by k
    logarithm: bool = False  # the module returns probabilities


class LogProbabilities(nn.Module):
    """Logits of a module that ends in a softmax, as skorch makes them for `NLLLoss`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *positional: Any, **named: Any) -> Tensor:
        """The logarithm, of no less than rounding."""
        shares: Tensor = self.module(*positional, **named)
        return torch.log(shares + torch.finfo(shares.dtype).eps)


def _mean_squared_error(_: Any, __: Any) -> Criterion:
    return Criterion(squared_error(), scale=2.0, averages_outputs=True)  # no ½


def _cross_entropy(criterion: Any, net: Any) -> Criterion:
    if criterion.weight is not None and _any_decay(_weight_decay(net)):
        raise ModelError(
            "the criterion divides by the class weights of each batch, so that the weight decay of the whole is not "
            "known; wrap net.module_ with loss=rue.losses.cross_entropy(class_weight=...) and the l2 of the sum"
        )
    weight = None if criterion.weight is None else criterion.weight.tolist()
    logarithm = isinstance(criterion, nn.NLLLoss) and isinstance(net, NeuralNetClassifier)
    return Criterion(cross_entropy(getattr(criterion, "label_smoothing", 0.0), weight), logarithm=logarithm)


def _binary(criterion: Any, _: Any) -> Criterion:
    if criterion.weight is not None or (criterion.pos_weight is not None and criterion.pos_weight.numel() > 1):
        raise ModelError("a weight for each output is not read; wrap net.module_ and give the loss as a callable")
    positive = 1.0 if criterion.pos_weight is None else float(criterion.pos_weight)
    return Criterion(bernoulli(positive), averages_outputs=True)


def _huber(criterion: Any, _: Any) -> Criterion:
    return Criterion(huber(criterion.delta), averages_outputs=True)


def _poisson(criterion: Any, _: Any) -> Criterion:
    if not criterion.log_input:
        raise ModelError("PoissonNLLLoss(log_input=False) is not read; train with log_input=True, the default")
    return Criterion(poisson(), averages_outputs=True)


CRITERIA: dict[type[nn.Module], Callable[[Any, Any], Criterion]] = {
    nn.MSELoss: _mean_squared_error,
    nn.CrossEntropyLoss: _cross_entropy,
    nn.NLLLoss: _cross_entropy,
    nn.BCEWithLogitsLoss: _binary,
    nn.HuberLoss: _huber,
    nn.PoissonNLLLoss: _poisson,
}


def _criterion(net: Any) -> Criterion:
    criterion = net.criterion_
    if not type(net).get_loss.__module__.startswith("skorch"):
        raise ModelError(f"{type(net).__name__} has a get_loss of its own; say loss= and l2=, as for net.module_")
    known = CRITERIA.get(type(criterion))
    if known is None:
        raise ModelError(
            f"the criterion {type(criterion).__name__} is not known; say loss=, or train with one of "
            f"{', '.join(kind.__name__ for kind in CRITERIA)}"
        )
    if criterion.reduction != "mean":
        raise ModelError(
            f"the criterion has reduction={criterion.reduction!r}, so that its weight decay depends on the batches; "
            "wrap net.module_ and say the l2 and the reduction of the whole objective"
        )
    return known(criterion, net)


def _weight_decay(net: Any) -> float | dict[str, float]:
    """What the optimiser adds to the gradient, by parameter; a decay apart from the gradient is no penalty."""
    decays: dict[int, float] = {}
    apart = 0.0
    for group in net.optimizer_.param_groups:
        decay = float(group.get("weight_decay", 0.0))
        if group.get("decoupled_weight_decay", False):
            apart, decay = max(apart, decay), 0.0
        decays.update({id(parameter): decay for parameter in group["params"]})
    if apart:
        warnings.warn(
            f"{type(net.optimizer_).__name__} shrinks the weights apart from the gradient (weight_decay={apart}): it "
            "minimises no penalised loss, and l2 is read as 0; say l2= if a penalty comes near to it",
            RueWarning,
            stacklevel=4,
        )
    found = {name: decays.get(id(p), 0.0) for name, p in net.module_.named_parameters() if p.requires_grad}
    return found if len(set(found.values())) > 1 else next(iter(found.values()), 0.0)


def _for_one_output(criterion: Criterion, decay: Any) -> Loss:
    """Refuse, where the loss meets k outputs, a criterion that averages over them: the penalty would weigh k times."""

    def fit_targets(targets: Any, k: int) -> Tensor:
        if k > 1 and _any_decay(decay):
            raise ModelError(
                f"the criterion averages over {k} outputs too, so that the penalty weighs {k} times as much; say so: "
                f"rue.wrap(net.module_, loss={criterion.loss.name!r}, reduction='mean', "
                f"l2={_scaled(decay, k / criterion.scale)})"
            )
        fitted: Tensor = criterion.loss.fit_targets(targets, k)  # type: ignore[misc]  # named losses have it
        return fitted

    return replace(criterion.loss, fit_targets=fit_targets)


def _scaled(decay: Any, factor: float) -> Any:
    return {name: factor * value for name, value in decay.items()} if isinstance(decay, Mapping) else factor * decay


def _inside(decay: Any) -> Any:
    return {f"module.{name}": value for name, value in decay.items()} if isinstance(decay, Mapping) else decay


def _any_decay(decay: Any) -> bool:
    return any(decay.values()) if isinstance(decay, Mapping) else bool(decay)


def _classes(net: Any) -> NDArray[Any] | None:
    """Labels are the numbers of the outputs, whatever skorch was given."""
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
    """skorch hands the columns of a data frame to the module by name, each (m, 1)."""
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
    """`predict` changes the mode of the module: it is asked of a copy."""
    try:
        return copy.deepcopy(net)
    except Exception as error:
        raise ModelError(
            f"the net cannot be copied ({error}); remove callbacks with open files, or wrap net.module_"
        ) from error
