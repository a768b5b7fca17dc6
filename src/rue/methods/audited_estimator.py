"""An estimator of scikit-learn that is audited whenever it is fitted."""

from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from rue.auditing.result import Audit
from rue.core.arrays import Array
from rue.core.errors import DataError
from rue.data.rows import Data
from rue.methods import best_method
from rue.models import best_known, wrap

if TYPE_CHECKING:
    from rue.auditing.auditor import Auditor

FEWEST = 2  # rows


def _estimator_has(name: str) -> Any:
    """Whether the estimator that is audited has a method."""

    def has(self: "AuditedEstimator") -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return has


class AuditedEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Fits a clone of `estimator` and the audit of it; predictions are the estimator's own.

    It goes where any estimator goes: into a Pipeline, a grid search, `cross_val_predict`. After `fit`, `estimator_` is
    the fitted estimator, `auditor_` its auditor, and `audit(X)` audits rows. `method` is any method of `rue`; without
    one it is the best known for the estimator.

    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> X, y = np.arange(24.0).reshape(12, 2) % 7, np.arange(12.0) % 5
    >>> audited = AuditedEstimator(Ridge()).fit(X, y)
    >>> bool((audited.predict(X) == Ridge().fit(X, y).predict(X)).all()), audited.audit(X[:4]).score.shape
    (True, (4,))
    """

    estimator_: Any
    auditor_: "Auditor"

    def __init__(self, estimator: Any, method: Any = None):
        self.estimator = estimator
        self.method = method

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit a clone of the estimator, and audit it on the same rows."""
        counted = sample_weight is not None and not _all_one(sample_weight, _num_samples(X))
        weight = {"sample_weight": sample_weight} if counted else {}
        self.estimator_ = clone(self.estimator).fit(X, y, **weight, **fit_params)
        if _num_samples(X) < FEWEST:
            raise DataError(f"the audit resamples rows and needs at least {FEWEST}, got n_samples = {_num_samples(X)}")
        model = best_known(wrap(self.estimator_))
        method = best_method(model) if self.method is None else self.method
        given = _array(sample_weight) if counted else None
        self.auditor_ = method.fit(model, Data(_array(X), _targets(y, is_regressor(self)), given))
        return self

    def audit(self, X: Any) -> Audit:
        """How far each prediction is to be relied on."""
        check_is_fitted(self)
        return self.auditor_.audit(_array(X))

    def predict(self, X: Any) -> Array:
        """The estimator's predictions."""
        check_is_fitted(self)
        predicted: Array = self.estimator_.predict(X)
        return predicted

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The estimator's probabilities; those of the audit are `audit(X).probability`."""
        check_is_fitted(self)
        shares: Array = self.estimator_.predict_proba(X)
        return shares

    @available_if(_estimator_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """The estimator's decision function."""
        check_is_fitted(self)
        values: Array = self.estimator_.decision_function(X)
        return values

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The estimator's score."""
        check_is_fitted(self)
        return float(self.estimator_.score(X, y, sample_weight))

    @property
    def classes_(self) -> Any:
        """The labels of a classifier."""
        return self.estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """The number of columns."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """The names of the columns."""
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        """Those of the estimator, but that of several labels none is audited."""
        tags = get_tags(self.estimator)
        tags.array_api_support = False
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = tags.target_tags.multi_output = False
        return tags


def _array(values: Any) -> Any:
    """Lists and what else scikit-learn takes for an array as one; frames, sparse tables and None as they are."""
    if issparse(values):
        return csr_array(cast(Any, values))
    return values if values is None or hasattr(values, "iloc") else np.asarray(values)


def _targets(y: Any, numbers: bool) -> Any:
    """Targets as an array, and those of a regressor as numbers, as it took them."""
    values = _array(y)
    objects = getattr(getattr(values, "dtype", None), "kind", "") == "O"
    return values.astype(np.float64) if numbers and objects else values


def _all_one(weight: Any, rows: int) -> bool:
    """Whether these weights are none: a forest draws other rows where it is given ones."""
    values = np.asarray(weight)
    return values.shape == (rows,) and bool((values == 1).all())
