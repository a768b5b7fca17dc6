"""The multi-layer perceptrons of scikit-learn as modules."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from rue.core.errors import ModelError
from rue.core.model import Model
from rue.losses import Loss, bernoulli, cross_entropy, poisson, squared_error
from rue.models.estimator import EstimatorBoundary
from rue.models.links import Exponential
from rue.models.sklearn.labels import ClassCoding
from rue.models.sklearn.linear import matrix
from rue.models.torch.module import ModuleBoundary, module_core, settle_module

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "identity": nn.Identity,
    "logistic": nn.Sigmoid,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
}
AUTO_BATCH = 200  # rows of batch_size="auto", or all of fewer


def read_mlp(estimator: Any) -> Model:
    """A fitted MLPRegressor or MLPClassifier."""
    labels = ClassCoding(np.asarray(estimator.classes_)) if hasattr(estimator, "classes_") else None
    core = module_core(_module(estimator), _loss(estimator), {"*.weight": _l2(estimator)}, None, "sum", None)
    boundary = EstimatorBoundary(ModuleBoundary(), partial(matrix, estimator), estimator.predict)
    if labels is not None:
        boundary = replace(boundary, encode=labels.encode, classes=labels.classes)
    elif estimator.out_activation_ == "exp":
        boundary = replace(boundary, response=Exponential())
    facts = {"estimator": type(estimator).__name__, "solver": estimator.solver}
    return Model(core, boundary, facts, settle=settle_module)


def _module(estimator: Any) -> nn.Sequential:
    """The layers, without the activation of the last: outputs are logits, or the logarithm of a mean."""
    layers: list[nn.Module] = []
    for weight, bias in zip(estimator.coefs_, estimator.intercepts_, strict=True):
        linear = nn.Linear(weight.shape[0], weight.shape[1], dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.as_tensor(weight.T.copy()))
            linear.bias.copy_(torch.as_tensor(bias))
        layers += [linear, ACTIVATIONS[estimator.activation]()]
    return nn.Sequential(*layers[:-1])


def _loss(estimator: Any) -> Loss:
    outputs = estimator.out_activation_
    if outputs == "logistic" and estimator.n_outputs_ > 1:
        raise ModelError("MLPClassifier was trained on several labels for each row; train one for each label")
    return {"identity": squared_error, "exp": poisson, "logistic": bernoulli, "softmax": cross_entropy}[outputs]()


def _l2(estimator: Any) -> float:
    """alpha/2‖W‖² is added to the summed losses of every batch, so that an epoch has it once for each batch."""
    if estimator.solver == "lbfgs" or not estimator.t_:
        return float(estimator.alpha)
    rows = estimator.t_ / len(estimator.loss_curve_)  # t_ counts the rows of all epochs
    size = AUTO_BATCH if estimator.batch_size == "auto" else estimator.batch_size
    return float(estimator.alpha * rows / min(size, rows))
