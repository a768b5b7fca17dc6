"""Estimators as skops writes them: read where they are made of numbers and of classes that are known to be harmless."""

import re
import zipfile
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.errors import ModelError
from rue.models.exported_file import refuse_large

TRUSTED = {  # what skops does not know by itself, of libraries whose models are audited
    "catboost.core.CatBoostClassifier",
    "catboost.core.CatBoostRegressor",
    "collections.OrderedDict",
    "collections.defaultdict",
    "numpy.dtype",
    "scipy.interpolate._bsplines.BSpline",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.feature_selection._univariate_selection.f_regression",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRegressor",
}
OF_SCIKIT_LEARN = re.compile(r"(sklearn\.(?!externals|.*test|.*estimator_checks)[\w.]+)\.(_?[A-Z]\w*)")  # its classes


def skops_content(estimator: Any) -> NDArray[np.uint8]:
    """An estimator as the bytes of a skops file."""
    return np.frombuffer(_skops().dumps(estimator), dtype=np.uint8).copy()


def untrusted(content: bytes) -> list[str]:
    """The types in a skops file that are not known to be harmless; nothing of it is run."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        refuse_large("a skops file", archive.infolist())
    named = _skops().get_untrusted_types(data=content)
    return sorted(name for name in named if name not in TRUSTED and not _of_scikit_learn(name))


def _of_scikit_learn(name: str) -> bool:
    """Whether a name is that of a class which scikit-learn itself defines, and not of one that it merely imports."""
    match = OF_SCIKIT_LEARN.fullmatch(name)
    if match is None:
        return False
    try:
        found = getattr(import_module(match[1]), match[2], None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__.startswith("sklearn.")


def skops_estimator(content: bytes) -> Any:
    """The estimator in a skops file, with all its types: `untrusted` comes first."""
    skops = _skops()
    return skops.loads(content, trusted=skops.get_untrusted_types(data=content))


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ModelError("estimators as data are written and read by skops, which is missing: pip install skops") from (
            error
        )
    return skops.io
