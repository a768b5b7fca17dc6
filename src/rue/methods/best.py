"""The method for a model when none is chosen, and the fit by it: what `rue.audit` and the command line do."""

from inspect import signature
from typing import TYPE_CHECKING, Any

from rue.core.errors import SettingError
from rue.core.model import Model
from rue.methods.calibrated_rue import CalibratedRUE
from rue.methods.classifier_rue import ClassifierRUE
from rue.methods.forest_rue import ForestRUE
from rue.methods.linear_rue import LinearRUE
from rue.models import best_known

if TYPE_CHECKING:
    from rue.auditing.auditor import Auditor


def best_method(model: Model) -> Any:
    """What `rue.audit` uses: by what the outputs of a wrapped model mean."""
    if not model.family.joint:
        return ForestRUE()
    if model.family.gaussian:
        return CalibratedRUE()
    return LinearRUE() if model.family.decision is None else ClassifierRUE()


def fit_best(model: Model, data: Any, *, validation: Any = None, refit: Any = None, left_out: Any = None) -> "Auditor":
    """Fit the best method for a wrapped model; what was asked for and the method does not take is refused."""
    asked = {"validation": validation, "refit": refit, "left_out": left_out}
    known = best_known(model, asked=any(part is not None and part is not False for part in asked.values()))
    method = best_method(known)
    takes = signature(method.fit).parameters.keys()
    given = {
        name: value for name, value in asked.items() if value is not None and (name in takes or value is not False)
    }
    refused = given.keys() - takes
    if refused:
        raise SettingError(
            f"{type(method).__name__}, which audits this model, takes no {' or '.join(sorted(refused))}; leave it out, "
            "and calibrate the auditor with held-out rows instead: auditor.calibrate(X, y)"
        )
    auditor: Auditor = method.fit(known, data, **given)
    return auditor
