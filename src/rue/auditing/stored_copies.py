"""Trained copies of an audited model as data: estimators as skops writes them, networks by their parameters."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.calibrate.left_out.refits import as_copy
from rue.core.errors import DataError, ModelError
from rue.core.model import Model
from rue.core.stored import storable
from rue.models.torch.module import ModuleCore

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
OF_SCIKIT_LEARN = re.compile(r"sklearn\.(?!externals|.*test|.*estimator_checks)[\w.]+\._?[A-Z]\w*")  # its classes
MISSING = "trained copies of estimators are stored by skops, which is not installed: pip install skops"


@storable
@dataclass(frozen=True)
class StoredCopy:
    """A copy that is an estimator."""

    content: NDArray[np.uint8] = field(repr=False)

    def read(self, model: Model) -> Model:
        """The copy, beside the model it is a copy of; refuses what is neither numbers nor a known estimator."""
        try:
            import skops.io
        except ImportError as error:
            raise ModelError(MISSING) from error
        content = self.content.tobytes()
        named = skops.io.get_untrusted_types(data=content)
        strange = _strange(named)
        if strange:
            raise DataError(f"this file holds copies made of {', '.join(strange[:3])}, which are not read from files")
        return as_copy(skops.io.loads(content, trusted=named), model)


def as_data(thing: Any, model: Model) -> Any:
    """A copy of the audited model in a form that can be written; anything else as it is."""
    if not isinstance(thing, Model) or thing.behind is not None:
        return thing
    if thing.estimator is not None and thing.estimator is not model.estimator:
        return StoredCopy(_written(thing.estimator))
    own, core = model.core, thing.core
    if isinstance(core, ModuleCore) and isinstance(own, ModuleCore) and core.module is not own.module:
        if core.layout != own.layout or repr(core.module) != repr(own.module):
            raise ModelError(
                "this audit holds copies of another architecture than the audited network, which files have no place "
                "for; train copies of the same one"
            )
        return replace(thing, core=replace(core, module=own.module), boundary=model.boundary)
    return thing


def _written(estimator: Any) -> NDArray[np.uint8]:
    try:
        import skops.io
    except ImportError as error:
        raise ModelError(MISSING) from error
    content = skops.io.dumps(estimator)
    strange = _strange(skops.io.get_untrusted_types(data=content))
    if strange:
        raise ModelError(
            f"this audit holds trained copies made of {', '.join(strange[:3])}, which a file of data has no place for; "
            "fit it with refit=False, or left_out=rue.left_out.Witnesses(), to have it without copies"
        )
    return np.frombuffer(content, dtype=np.uint8).copy()


def _strange(named: list[str]) -> list[str]:
    return sorted(name for name in named if name not in TRUSTED and not OF_SCIKIT_LEARN.fullmatch(name))
