"""Methods that audit after learning: one file each. A new one is a file and a line in `METHODS`."""

from collections.abc import Callable
from typing import Any

from rue.methods.best import best_method, fit_best
from rue.methods.bootstrap_sgd import BootstrapSGD
from rue.methods.calibrated_rue import CalibratedRUE
from rue.methods.classifier_rue import ClassifierRUE
from rue.methods.confidence import Confidence
from rue.methods.error_forest import ErrorForest
from rue.methods.fewer_rows import FewerRows
from rue.methods.forest_rue import ForestRUE
from rue.methods.homoscedastic import Homoscedastic
from rue.methods.kernel_density import KernelDensity
from rue.methods.laplace import Laplace
from rue.methods.linear_rue import LinearRUE
from rue.methods.nearest_neighbours import NearestNeighbours
from rue.methods.rue import RUE

METHODS: dict[str, Callable[[], Any]] = {
    "CalibratedRUE": CalibratedRUE,
    "RUE": RUE,
    "LinearRUE": LinearRUE,
    "Laplace": Laplace,
    "Laplace, linearised": lambda: Laplace(linearised=True),
    "Bootstrap SGD": BootstrapSGD,
    "Kernel density": KernelDensity,
    "Nearest neighbours, distance": lambda: NearestNeighbours(by="distance"),
    "Nearest neighbours, residual": NearestNeighbours,
    "Error model": ErrorForest,
    "Homoscedastic": Homoscedastic,
}

CLASSIFIER_METHODS: dict[str, Callable[[], Any]] = {  # for classifiers only
    "ClassifierRUE": ClassifierRUE,
    "Maximum softmax": Confidence,
    "Entropy": lambda: Confidence(by="entropy"),
    "Temperature scaling": lambda: Confidence(tempered=True),
}

__all__ = [
    "CLASSIFIER_METHODS",
    "METHODS",
    "RUE",
    "BootstrapSGD",
    "CalibratedRUE",
    "ClassifierRUE",
    "Confidence",
    "ErrorForest",
    "FewerRows",
    "ForestRUE",
    "Homoscedastic",
    "KernelDensity",
    "Laplace",
    "LinearRUE",
    "NearestNeighbours",
    "best_method",
    "fit_best",
]
