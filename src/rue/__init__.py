"""Audit the predictions of a model that is already trained (Schulam & Saria, AISTATS 2019)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from rue import calibrate, checks, evaluate, losses, plots, policy
from rue.auditing.arrow_batches import batches
from rue.auditing.auditor import Auditor
from rue.auditing.intervals import Interval
from rue.auditing.result import Audit
from rue.auditing.storage import load
from rue.calibrate import left_out
from rue.calibrate.left_out import EvidenceRule
from rue.calibrate.penalty import choose_penalty
from rue.checks import Check, CheckUp
from rue.core import curvature, errors, resample, solve
from rue.core.checkpoint import checkpoint
from rue.core.model import Model
from rue.core.progress import quiet
from rue.core.workers import workers
from rue.data import sharing, tokens
from rue.data.rows import Data
from rue.evaluate import datasets
from rue.explain import Explanation, Explanations
from rue.methods import (
    RUE,
    BootstrapSGD,
    CalibratedRUE,
    ClassifierRUE,
    Confidence,
    ErrorForest,
    FewerRows,
    ForestRUE,
    Homoscedastic,
    KernelDensity,
    Laplace,
    LinearRUE,
    NearestNeighbours,
    fit_best,
    integrated,
)
from rue.methods.planning import plan
from rue.models import open_model, wrap
from rue.policy import Policy
from rue.reports import Report, report
from rue.reports import mlflow_flavour as mlflow

if TYPE_CHECKING:
    from rue.methods.audited_estimator import AuditedEstimator

__version__ = "0.1.0"

__all__ = [
    "RUE",
    "Audit",
    "AuditedEstimator",
    "Auditor",
    "BootstrapSGD",
    "CalibratedRUE",
    "Check",
    "CheckUp",
    "ClassifierRUE",
    "Confidence",
    "Data",
    "ErrorForest",
    "Explanation",
    "Explanations",
    "FewerRows",
    "ForestRUE",
    "Homoscedastic",
    "Interval",
    "KernelDensity",
    "Laplace",
    "LinearRUE",
    "Model",
    "NearestNeighbours",
    "Policy",
    "Report",
    "audit",
    "batches",
    "calibrate",
    "checkpoint",
    "checks",
    "choose_penalty",
    "curvature",
    "datasets",
    "errors",
    "evaluate",
    "integrated",
    "left_out",
    "load",
    "losses",
    "mlflow",
    "open_model",
    "plan",
    "plots",
    "policy",
    "quiet",
    "report",
    "resample",
    "sharing",
    "solve",
    "tokens",
    "workers",
    "wrap",
]


# Public modules that lie inside a room are imported under their public name, too: `from rue.errors import RueError`.
sys.modules |= {
    f"{__name__}.{name}": module
    for name, module in {
        "curvature": curvature,
        "datasets": datasets,
        "errors": errors,
        "integrated": integrated,
        "left_out": left_out,
        "mlflow": mlflow,
        "resample": resample,
        "sharing": sharing,
        "solve": solve,
        "tokens": tokens,
    }.items()
}


def __getattr__(name: str) -> Any:
    """What loads scikit-learn is loaded when it is asked for."""
    if name == "AuditedEstimator":
        from rue.methods.audited_estimator import AuditedEstimator

        return AuditedEstimator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def audit(
    model: Any,
    *,
    train: Any,
    inputs: Any,
    loss: str | losses.Loss | Callable[..., Tensor] | None = None,
    l2: float | Mapping[str, float] | None = None,
    penalty: Callable[[dict[str, Tensor]], Tensor] | None = None,
    reduction: Literal["sum", "mean"] | None = None,
    select: str | Sequence[str] | None = None,
    optimizer: Optimizer | None = None,
    centre: Module | Mapping[str, Any] | None = None,
    validation: Any = None,
    refit: Callable[..., Any] | bool | None = None,
    left_out: EvidenceRule | None = None,
) -> Audit:
    """Wrap, fit and audit in one call, with the best method for the model.

    `CalibratedRUE` for squared error, `ClassifierRUE` for classes, `ForestRUE` for forests, `LinearRUE` for any other
    loss. `loss`, `l2`, `penalty`, `reduction`, `select`, `optimizer` and `centre` say how a module was trained, as for
    `wrap`; none but the loss has to be said. `validation` rows (X, y) were not trained on (those that training was
    stopped on will do); `refit(rows)` trains the model from scratch on some training rows (None lets estimators be
    cloned where that takes next to nothing, False has nothing trained); `left_out` says where left-out predictions are
    to come from, else a rule chooses.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> net, X, y = torch.nn.Linear(2, 1), torch.eye(2).repeat(3, 1), torch.arange(6.0)
    >>> audit(net, train=(X, y), inputs=X[:4], loss="squared_error", l2=1.0).score.shape
    (4,)
    """
    wrapped = wrap(
        model,
        loss=loss,
        l2=l2,
        penalty=penalty,
        reduction=reduction,
        select=select,
        optimizer=optimizer,
        centre=centre,
    )
    return fit_best(wrapped, train, validation=validation, refit=refit, left_out=left_out).audit(inputs)
