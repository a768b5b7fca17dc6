"""`wrap`: chooses the adapter that reads a model; a model that none can read is audited by its predictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rue.core.errors import ModelError, OpaqueError, SettingError
from rue.core.model import Model
from rue.core.resample import untouched
from rue.core.schema import remembered
from rue.losses import Loss
from rue.losses.stated import Reduction
from rue.models import black_box
from rue.models.model_file import TREES, open_model
from rue.models.torch.module import Penalty, wrap_module
from rue.models.torch.unwrapping import unwrap

ADAPTERS = {  # by the package of an estimator, the module whose `read(estimator, loss, l2)` reads it
    "sklearn": "sklearn.reader",
    "lightgbm": "trees.lightgbm",
    "xgboost": "trees.xgboost",
    "catboost": "trees.catboost",
    "skorch": "torch.skorch",
}


def wrap(
    model: Any,
    *,
    loss: str | Loss | Callable[..., Tensor] | None = None,
    l2: float | Mapping[str, float] | None = None,
    penalty: Penalty | None = None,
    reduction: Reduction | None = None,
    select: str | Sequence[str] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    centre: nn.Module | Mapping[str, Any] | None = None,
) -> Model:
    """Say what was trained: the model, the loss of one example, and the penalty.

    For a module, `loss` is the `torch.nn` loss object it was trained with, read with its reduction; or a name
    ("squared_error" is ½r²), an object of `rue.losses`, or a callable `(outputs, targets) -> (n,)`. `l2` is the
    coefficient of ½‖θ‖² in the objective that was trained: a number, or one per parameter-name glob; None where it is
    unknown. `penalty` is any other term, a callable of the named parameters. `reduction` says whether that objective
    summed or averaged the example losses: a sum, unless the loss object says otherwise. `select` takes parameter-name
    globs and leaves the rest fixed. `optimizer` is the `torch.optim` object it was trained with: the l2 of every
    parameter is read from it, and which were trained. `centre` has the parameters the training started from, a state
    dict or a module, where the penalty was ½ l2 ‖θ − centre‖².

    For an estimator of another library, or the path of a stored tree ensemble, all that is read from the model. Any
    other object with `predict`, or with `predict_proba` and `classes_`, is audited by its predictions alone.

    >>> import torch
    >>> model = wrap(torch.nn.Linear(3, 1), loss="squared_error", l2={"weight": 0.5})
    >>> model.theta.shape
    torch.Size([4])

    As it was trained:

    >>> net = torch.nn.Linear(3, 1)
    >>> sgd = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.5)
    >>> wrap(net, loss=torch.nn.MSELoss(), optimizer=sgd).describe()["l2"]
    0.5
    """
    if isinstance(model, Model):
        if any(part is not None for part in (loss, l2, penalty, reduction, select, optimizer, centre)):
            raise SettingError("this model is wrapped already; say how it was trained where you wrap it")
        return model
    model = unwrap(open_model(model) if isinstance(model, str | Path) else model)
    if isinstance(model, nn.Module):
        with torch.inference_mode(False), untouched():
            return wrap_module(model, loss, l2, penalty, reduction, select, optimizer, centre)
    described = (penalty, select, optimizer, centre, None if reduction == "sum" else reduction)
    if any(part is not None for part in described):
        raise SettingError(
            "penalty, select, reduction, optimizer and centre describe a torch.nn.Module; "
            f"{type(model).__name__} says by itself how it was trained: leave them out"
        )
    reader: Any = import_module(f"rue.models.{adapter(model)}")
    try:
        with torch.inference_mode(False), untouched():
            wrapped: Model = reader.read(model, loss, l2)
    except OpaqueError as error:
        if not predicts(model):
            raise
        wrapped = black_box.read(model, loss, l2, str(error))
    named = replace(wrapped, schema=wrapped.schema or remembered(column_names(model)))
    return named if named.boundary.answer is None else replace(named, estimator=model)


def best_known(model: Model, asked: bool = False) -> Model:
    """The model to audit: by its predictions alone, where its parameters cannot give honest left-out errors.

    Forests are audited by their predictions, too, where copies, witnesses or validation rows are `asked` for.
    """
    why = "copies, witnesses or validation rows were asked for" if asked and not model.family.joint else _blind(model)
    if why is None or not predicts(model.estimator):
        return model
    known = black_box.read(model.estimator, None, None, why)
    return replace(known, schema=model.schema, admit_targets=model.admit_targets)


def _blind(model: Model) -> str | None:
    if model.blind is not None:
        return model.blind
    if model.supervised:
        return f"other rows would have made other features in its step {' and '.join(model.supervised)}"
    if model.family.grown and not model.family.gaussian and model.family.decision is None:
        return "other rows would have grown other trees, and its loss is not squared error"
    return None


def column_names(model: Any) -> tuple[str, ...]:
    """The names of the columns that an estimator was trained with, where it keeps them."""
    for name in ("feature_names_in_", "feature_name_", "feature_names_", "feature_names", "feature_name"):
        names = getattr(model, name, None)
        names = names() if name == "feature_name" and callable(names) else names
        if isinstance(names, list | tuple | np.ndarray) and len(names):
            return tuple(str(part) for part in names)
    return ()


def adapter(model: Any) -> str:
    """The module that reads a fitted estimator: that of the first known package among its base classes."""
    if isinstance(model, Path):
        return TREES[model.suffix.lower()]
    for kind in type(model).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in ADAPTERS:
            return ADAPTERS[package]
    if predicts(model):
        return "black_box"
    raise ModelError(
        f"cannot wrap {type(model).__name__}; give a torch.nn.Module, a fitted estimator of {', '.join(ADAPTERS)}, or "
        "any object whose predict(X) returns a number, or predict_proba(X) the probabilities of classes_, for each row"
    )


def predicts(model: Any) -> bool:
    """Whether its predictions can be compared with targets: those of clusterings and rankings cannot."""
    can_predict = callable(getattr(model, "predict", None)) or (
        callable(getattr(model, "predict_proba", None)) and hasattr(model, "classes_")
    )
    if isinstance(model, type) or not can_predict or "Ranker" in type(model).__name__:
        return False
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if packages & ADAPTERS.keys() and not hasattr(model, "get_params"):
        return False  # a booster by itself does not say whether its numbers are probabilities
    tags = getattr(model, "__sklearn_tags__", None)
    return tags is None or getattr(tags(), "estimator_type", None) in ("regressor", "classifier")
