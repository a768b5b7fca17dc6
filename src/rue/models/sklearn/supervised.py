"""Which steps of a pipeline were fitted to the targets: selections, target encoders, supervised embeddings."""

import dis
from collections.abc import Iterator
from inspect import unwrap
from types import FunctionType
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.cross_decomposition import CCA, PLSSVD, PLSCanonical, PLSRegression
from sklearn.feature_selection import SelectFromModel, SelectKBest, SelectPercentile, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

# They need no targets by their tags, because some are optional there; in a pipeline they are given and used.
BY_TARGETS = (SelectKBest, SelectPercentile, PLSRegression, PLSCanonical, PLSSVD, CCA)
BY_ANOTHER = (SelectFromModel, SequentialFeatureSelector)  # as the estimator inside does


def supervised(step: Any) -> Iterator[str]:
    """The names of the parts of a transformer that its targets have shaped.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> list(supervised(make_pipeline(StandardScaler(), SelectKBest())))
    ['SelectKBest']
    """
    inside = _inside(step)
    if inside is not None:
        for part in inside:
            yield from supervised(part)
    elif _uses_targets(step):
        yield type(step).__name__


def _inside(step: Any) -> list[Any] | None:
    """The transformers that a transformer is made of; None for one that stands for itself."""
    if isinstance(step, Pipeline):
        return [part for _, part in step.steps]
    if isinstance(step, ColumnTransformer):
        return [part for _, part, _ in getattr(step, "transformers_", step.transformers)]
    if isinstance(step, FeatureUnion):
        return [part for _, part in step.transformer_list]
    return [step.estimator] if isinstance(step, FrozenEstimator) else None


def _uses_targets(step: Any) -> bool:
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return False
    if isinstance(step, BY_TARGETS) or hasattr(step, "fit_resample") or _requires(step):
        return True
    if isinstance(step, BY_ANOTHER):
        return _requires(getattr(step, "estimator_", step.estimator))
    return any(_reads_targets(getattr(type(step), name, None)) for name in ("fit", "fit_transform"))


def _requires(step: Any) -> bool:
    return hasattr(step, "__sklearn_tags__") and bool(get_tags(step).target_tags.required)


def _reads_targets(method: Any) -> bool:
    """Whether a method that was not written by scikit-learn reads its second argument, the targets."""
    function = unwrap(method) if callable(method) else None
    if not isinstance(function, FunctionType) or function.__module__.startswith("sklearn."):
        return False
    code = function.__code__
    if code.co_argcount < 3:  # self, X, y
        return False
    targets = code.co_varnames[2]
    loads = (instruction for instruction in dis.get_instructions(code) if instruction.opname.startswith("LOAD"))
    return any(targets == load.argval or (isinstance(load.argval, tuple) and targets in load.argval) for load in loads)
