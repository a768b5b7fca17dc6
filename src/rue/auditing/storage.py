"""Writes a fitted audit to one file of data, and reads it again beside the model it is of.

The model is the user's and stays where it is: a file holds what a fit made beside it, and names parts of the model by
where they lie in it.
"""

from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from rue.auditing.probes import Probes
from rue.auditing.stored_copies import StoredCopy, as_data
from rue.core.concepts import Facts
from rue.core.errors import DataError, DeviceError, ModelError, SettingError
from rue.core.model import Model
from rue.core.stored import KNOWN, Written, holds_rows, read_again, written
from rue.core.stored_file import raw, read_file, write_file
from rue.data.opening import training_rows
from rue.data.rows import Data, Rows

if TYPE_CHECKING:
    from rue.auditing.auditor import Auditor

KIND = "audit"


@runtime_checkable
class OfSums(Protocol):
    """What can be made of sums over rows as well."""

    def of_sums(self) -> Any:
        """The same up to rounding, without numbers of single rows."""
        ...


KeptRows = Literal["none", "ids", "all"]
"""What a file keeps of the training rows.

`"none"`: no number of a single row. `"ids"`: their numbers, weights and groups, and whatever the method itself keeps of
each of them (gradients, standardised inputs). `"all"`: the table too.
"""


def save(auditor: "Auditor", path: str | Path, *, rows: KeptRows = "ids") -> None:
    """Write a fitted audit to one file, whole or not at all; `rue.load(path, model)` reads it.

    The file is data: no code is in it, and none is named. The model is not in it either. `rows` says what is kept of
    the training rows, who may be patients: `"none"`, `"ids"` (the table is not in the file; numbers that the method
    makes of each row, as gradients, are) or `"all"`. Explanations, checks and calibration need the rows, from the file
    or by `rue.load(path, model, data=...)`.

    >>> import rue, tempfile
    >>> X, y = torch.eye(2).repeat(3, 1), torch.arange(6.0)
    >>> model = rue.wrap(torch.nn.Linear(2, 1), loss="squared_error", l2=1.0)
    >>> auditor = rue.LinearRUE().fit(model, (X, y))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     auditor.save(f"{folder}/model.rue")
    ...     again = rue.load(f"{folder}/model.rue", model)
    >>> bool((again.audit(X).std == auditor.audit(X).std).all())
    True
    """
    if rows not in ("none", "ids", "all"):
        raise SettingError(f'rows must be "none", "ids" or "all", got {rows!r}')
    model, data = auditor.model, auditor.trained.data
    plain = model if model.behind is None else replace(model, core=model.behind, behind=None)
    kept = auditor if rows == "all" else replace(auditor, stopped_by=None)
    if rows == "none":
        kept = replace(kept, predictive=replace(kept.predictive, left_out=None, ranked=None))
    parts = {"probes": Probes.of(plain, data), "table": _table(data) if rows == "all" else None, "auditor": kept}
    instead = partial(_instead, model=plain, without=rows == "none")
    nodes = {name: written(part, plain, instead) for name, part in parts.items()}
    nodes["schema"] = written(plain.schema)
    write_file(path, KIND, _about(auditor, plain, rows), nodes)


def load(path: str | Path, model: Model, data: Any = None) -> "Auditor":
    """The audit in a file, of this model, which has to be the one that was audited.

    `data` are the training rows, where the file has none and explanations, checks or calibration need them: the very
    same ones.
    """
    if not isinstance(model, Model):
        raise ModelError('rue.load takes a wrapped model; use rue.wrap(net, loss="squared_error", l2=...)')
    found = read_file(path, KIND)
    about, device = found.about, model.theta.device
    try:
        weights, place, stated = about["weights"], about["device"], dict(about["stated"])
        settled = model.settled_again(about["settled"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{str(path)!r} does not say what model it is of; save the audit again") from error
    if weights != _weights(model):
        raise ModelError(
            "this is not the model that was audited: its parameters, their names or shapes are others; hand rue.load "
            "that model, or fit the audit of this one"
        )
    now = _stated(settled)
    apart = [name for name in sorted({*now, *stated}) if now.get(name) != stated.get(name)]
    if apart:
        was, here = (", ".join(f"{name} {facts.get(name)}" for name in apart) for facts in (stated, now))
        raise ModelError(
            f"the model is wrapped otherwise: {here}, and {was} when the audit was fitted; wrap it in the same way"
        )
    if place != device.type and device.type != "cpu":
        raise DeviceError(
            f"the audit was fitted on {place!r} and the model is on {device.type!r}; hand rue.load the model on "
            f"{place!r}, or on 'cpu'"
        )
    settled = replace(settled, schema=_read(found.parts["schema"], settled))
    probes = _read(found.parts["probes"], settled)
    if isinstance(probes, Probes):
        probes.refuse_another(settled)
    table = _read(found.parts["table"], settled) if data is None else data
    opened = None if table is None else training_rows(table, model)[0]
    auditor = _read(found.parts["auditor"], settled, partial(_opened, opened=opened, model=settled))
    if type(auditor) is not KNOWN["Auditor"]:
        raise DataError(f"{str(path)!r} holds no audit; save it again")
    return cast("Auditor", auditor)


def _about(auditor: "Auditor", model: Model, rows: KeptRows) -> Facts:
    return {
        "method": auditor.method,
        "rows": rows,
        "n": auditor.trained.data.n,
        "d": model.theta.numel(),
        "device": model.theta.device.type,
        "weights": _weights(model),
        "settled": model.settled,
        "stated": _stated(model),
        "audit": auditor.trained.fingerprint,
    }


def _stated(model: Model) -> Facts:
    """What is known of a model beside its weights, as far as numbers and words say it."""
    plain = {name: value for name, value in model.describe().items() if name != "device"}
    return {name: value for name, value in plain.items() if isinstance(value, str | bool | int | float)}


def _read(part: Written, model: Model, instead: Any = lambda thing: thing) -> Any:
    return read_again(part, model, model.theta.device, instead)


def _instead(thing: Any, model: Model, without: bool) -> Any:
    """Training rows without their values, which are opened again, and copies of the model as data."""
    if isinstance(thing, Rows):
        rows = thing.elsewhere()
        return rows.uncounted() if without else rows
    if without and isinstance(thing, OfSums):
        return thing.of_sums()
    if without and holds_rows(thing):
        raise SettingError(
            f'rows="none" keeps no number of a single training row, and this audit rests on such ones '
            f'({type(thing).__name__}); save it with rows="ids", or fit rue.LinearRUE() under a stated l2, which '
            "rests on sums"
        )
    return as_data(thing, model)


def _table(data: Rows) -> Data:
    source = data.source
    for part in (source.X, source.y):
        if not isinstance(part, Tensor) and type(part).__module__.split(".")[0] != "numpy":
            raise SettingError(
                f'rows="all" stores arrays and tensors, and these rows are a {type(part).__name__}; save with '
                'rows="ids", and hand rue.load(path, model, data=...) the same rows where they are needed'
            )
    return source


def _opened(thing: Any, opened: Rows | None, model: Model) -> Any:
    """The training rows themselves in the place of those without values, and copies as models."""
    if isinstance(thing, StoredCopy):
        return thing.read(model)
    if opened is None or not isinstance(thing, Rows):
        return thing
    if thing.sample_of is not None:
        mask = torch.zeros(opened.n, dtype=torch.bool)
        mask[thing.sample_of.rows] = True
        return opened.some(mask)
    if thing.given != opened.given or thing.n != opened.n:
        raise DataError(
            "these are not the training rows of the stored audit: their values or their order differ; give the very "
            "same ones"
        )
    return opened


def _weights(model: Model) -> str:
    hashed = sha256()
    for part in model.core.contents():
        hashed.update(part.encode() if isinstance(part, str) else raw(torch.as_tensor(part)))
    return hashed.hexdigest()
