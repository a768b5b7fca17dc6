"""A fitted linear estimator of scikit-learn as a model: its weights, and the objective they minimise."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data
from torch import Tensor, nn

from rue.core.errors import DataError, ModelError
from rue.core.model import Model
from rue.models.estimator import EstimatorBoundary
from rue.models.sklearn.classifiers import CLASSIFIERS
from rue.models.sklearn.objective import LinearObjective
from rue.models.sklearn.regressors import REGRESSORS
from rue.models.tables import refuse_dict
from rue.models.torch.module import ModuleBoundary, ModuleCore, module_core, settle_module

LINEAR: dict[type, Callable[[Any], LinearObjective]] = {**REGRESSORS, **CLASSIFIERS}


class Active(nn.Module):
    """A linear map in which some weights (k, p) stay zero: only the others are parameters."""

    rows: Tensor
    columns: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None, free: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight[free])
        self.bias = None if bias is None else nn.Parameter(bias)
        rows, columns = free.nonzero(as_tuple=True)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)
        self.shape = weight.shape

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs (m, k)."""
        weight = inputs.new_zeros(self.shape).index_put((self.rows, self.columns), self.weight)
        return nn.functional.linear(inputs, weight, self.bias)


def read_linear(estimator: Any, reader: Callable[[Any], LinearObjective]) -> Model:
    """Weights, loss and penalty of a fitted linear estimator."""
    objective = reader(estimator)
    boundary = EstimatorBoundary(
        ModuleBoundary(),
        features=partial(matrix, estimator),
        own=estimator.predict,
        encode=objective.encode,
        response=objective.response,
        classes=None if objective.labels is None else objective.labels.classes,
    )
    balanced = None if objective.labels is None else objective.labels.balanced_by
    facts = {"estimator": type(estimator).__name__, **({} if balanced is None else {"balanced_by": balanced})}
    return Model(_core(estimator, objective), boundary, facts, settle=settle_module, balanced_by=balanced)


def matrix(estimator: Any, inputs: Any) -> NDArray[np.float64]:
    """Inputs as the estimator reads them: features checked as in training, dense float64."""
    refuse_dict(inputs)
    try:
        read = validate_data(estimator, inputs, reset=False, accept_sparse=True, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{type(estimator).__name__} cannot read these inputs: {error}; give them as in training, or wrap the "
            "whole Pipeline that prepares them"
        ) from error
    return np.asarray(read.toarray() if hasattr(read, "toarray") else read, np.float64)


def _core(estimator: Any, objective: LinearObjective) -> ModuleCore:
    weight = torch.tensor(np.atleast_2d(estimator.coef_), dtype=torch.float64)
    k, p = weight.shape
    bias = None
    if estimator.fit_intercept:
        bias = torch.tensor(np.broadcast_to(estimator.intercept_, (k,)).copy(), dtype=torch.float64)
    free = weight != 0 if objective.sparse else torch.ones_like(weight, dtype=torch.bool)
    if bias is None and not free.any():
        raise ModelError(
            f"all {weight.numel()} coefficients of {type(estimator).__name__} are zero and it has no intercept; there "
            "is nothing that training data could have moved: use a smaller penalty"
        )
    module = Active(weight, bias, free) if objective.sparse else _linear(weight, bias)
    loss = objective.loss
    if objective.sparse:  # a penalty of absolute values shifts the minimum, and has no curvature
        loss = replace(loss, family=replace(loss.family, stationary=False))
    core = module_core(module, loss, None, None, "mean" if objective.mean else "sum", None)
    l2 = torch.as_tensor(np.broadcast_to(objective.l2, (k, p)).copy(), dtype=torch.float64)[free]
    if bias is not None:
        l2 = torch.cat([l2, torch.full((k,), objective.bias_l2, dtype=torch.float64)])
    return replace(core, l2=l2, l2_given=True)


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    module = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, dtype=torch.float64)
    with torch.no_grad():
        module.weight.copy_(weight)
        if bias is not None:
            module.bias.copy_(bias)
    return module
