"""Trained copies of an audited model as data: estimators as skops writes them, networks by their parameters."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.calibrate.left_out.refits import as_copy
from rue.core.errors import DataError, ModelError
from rue.core.model import Model
from rue.core.stored import storable
from rue.models.skops_file import skops_content, skops_estimator, untrusted
from rue.models.torch.module import ModuleCore


@storable
@dataclass(frozen=True)
class StoredCopy:
    """A copy that is an estimator."""

    content: NDArray[np.uint8] = field(repr=False)

    def read(self, model: Model) -> Model:
        """The copy, beside the model it is a copy of; refuses what is neither numbers nor a known estimator."""
        content = self.content.tobytes()
        strange = untrusted(content)
        if strange:
            raise DataError(f"this file holds copies made of {', '.join(strange[:3])}, which are not read from files")
        return as_copy(skops_estimator(content), model)


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
    content = skops_content(estimator)
    strange = untrusted(content.tobytes())
    if strange:
        raise ModelError(
            f"this audit holds trained copies made of {', '.join(strange[:3])}, which a file of data has no place for; "
            "fit it with refit=False, or left_out=rue.left_out.Witnesses(), to have it without copies"
        )
    return content
