"""The objective that each linear classifier of scikit-learn minimised: one function for each."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import linear_model, svm

from rue.core.errors import ModelError, OpaqueError
from rue.losses import Loss, bernoulli, cross_entropy, modified_huber, signed_squared_error, squared_hinge
from rue.models.sklearn.labels import ClassCoding
from rue.models.sklearn.objective import LinearObjective, liblinear_bias, no_curvature, settled, stochastic


def _ridge(e: Any) -> LinearObjective:
    """Least squares on ±1; a row's class weight applies to all its outputs."""
    labels = _labels(e)
    loss = labels.weigh(labels.each(signed_squared_error()))
    return LinearObjective(loss, float(settled(e, "alpha")), encode=labels.encode, labels=labels)


def _logistic(e: Any) -> LinearObjective:
    """Σ loss + (1/C) (l1_ratio‖w‖₁ + ½(1 − l1_ratio)‖w‖²); LIBLINEAR penalises the intercept too."""
    if not getattr(e, "refit", True):
        raise OpaqueError(
            "LogisticRegressionCV(refit=False) averages fits, which is the minimum of nothing; use refit=True"
        )
    labels = _labels(e, by_weight=True)
    if getattr(e, "multi_class", None) == "multinomial" and len(labels.classes) == 2:
        raise OpaqueError('LogisticRegression(multi_class="multinomial") of two classes; the nearest choice is "auto"')
    strength, ratio = _logistic_penalty(e)
    l2 = strength * (1 - ratio)
    liblinear = e.solver == "liblinear"
    apart = liblinear or getattr(e, "multi_class", None) == "ovr"  # for more than two classes, before 1.8
    if len(labels.classes) == 2:
        loss = labels.weigh(bernoulli())
    elif apart:
        loss = labels.weigh(labels.each(bernoulli()), positives=liblinear)
    else:
        loss = labels.weigh(cross_entropy())
    bias_l2 = liblinear_bias(e, l2) if liblinear else 0.0
    return LinearObjective(loss, l2, bias_l2, sparse=ratio > 0, encode=labels.encode, labels=labels)


def _logistic_penalty(e: Any) -> tuple[float, float]:
    """1/C and the share of the absolute-value penalty, by the settings of scikit-learn before and after 1.8."""
    penalty = getattr(e, "penalty", "deprecated")
    if penalty is None:
        return 0.0, 0.0
    strength = 1 / float(np.ravel(settled(e, "C"))[0])  # cross-validation repeats it for each class
    if penalty in ("l1", "l2"):
        return strength, float(penalty == "l1")
    return strength, float(np.ravel(settled(e, "l1_ratio"))[0] or 0.0)


def _linear_svc(e: Any) -> LinearObjective:
    """½‖w‖² + C Σ max(0, 1 − sf)², or ‖w‖₁ instead."""
    if e.loss != "squared_hinge":
        raise no_curvature(e, "squared_hinge")
    if e.multi_class != "ovr":
        raise OpaqueError(f'LinearSVC(multi_class={e.multi_class!r}) is not supported; the nearest choice is "ovr"')
    labels = _labels(e, by_weight=True)
    l2 = 1 / e.C if e.penalty == "l2" else 0.0
    loss = labels.weigh(labels.each(squared_hinge()), positives=True)
    return LinearObjective(
        loss, l2, liblinear_bias(e, l2), sparse=e.penalty == "l1", encode=labels.encode, labels=labels
    )


def _stochastic(e: Any) -> LinearObjective:
    if e.loss not in STOCHASTIC:
        raise no_curvature(e, "log_loss")
    labels = _labels(e)
    loss = labels.weigh(labels.each(STOCHASTIC[e.loss]()), positives=True)
    return stochastic(e, loss, encode=labels.encode, labels=labels)


def _labels(e: Any, by_weight: bool = False) -> ClassCoding:
    if getattr(getattr(e, "_label_binarizer", None), "y_type_", "").startswith("multilabel"):
        raise ModelError(f"{type(e).__name__} was trained on several labels for each row; train one for each label")
    return ClassCoding(np.asarray(e.classes_), e.class_weight, by_weight)


STOCHASTIC: dict[str, Callable[[], Loss]] = {
    "log_loss": bernoulli,
    "squared_hinge": squared_hinge,
    "modified_huber": modified_huber,
    "squared_error": signed_squared_error,
}

CLASSIFIERS: dict[type, Callable[[Any], LinearObjective]] = {
    linear_model.RidgeClassifier: _ridge,
    linear_model.RidgeClassifierCV: _ridge,
    linear_model.LogisticRegression: _logistic,
    linear_model.LogisticRegressionCV: _logistic,
    linear_model.SGDClassifier: _stochastic,
    svm.LinearSVC: _linear_svc,
}
