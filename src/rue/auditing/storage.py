"""Writes a fitted audit to one file of data, and reads it again beside the model it is of.

The model is the user's and stays where it is: a file holds what a fit made beside it, and names parts of the model by
where they lie in it.
"""

import warnings
from dataclasses import fields, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from rue.auditing.probes import Probes
from rue.auditing.statement import statement
from rue.auditing.stored_copies import StoredCopy, as_data
from rue.auditing.stored_frames import StoredFrame
from rue.core.concepts import Facts
from rue.core.errors import DataError, DeviceError, ModelError, RueWarning, SettingError
from rue.core.model import Model
from rue.core.stored import KNOWN, Written, holds_rows, read_again, written
from rue.core.stored_file import raw, read_file, write_file
from rue.data.opening import training_rows
from rue.data.rows import Data, Rows
from rue.models import best_known

if TYPE_CHECKING:
    from rue.auditing.auditor import Auditor

KIND = "audit"
UNPROBED = (
    "no rows could be drawn when this audit was saved (inputs of an unusual form), so that nothing but the weights was "
    "compared; make sure that it is the model that was audited"
)


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
    kept = replace(auditor, stopped_by=_storable_table(auditor.stopped_by) if rows == "all" else None)
    if rows == "none":
        if not isinstance(auditor.assess, OfSums):
            raise SettingError(_rests_on_rows(auditor.method))
        trained = replace(kept.trained, cells=None)
        kept = replace(kept, trained=trained, predictive=replace(kept.predictive, left_out=None, ranked=None))
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
        weights, place, stated, numbers = about["weights"], about["device"], dict(about["stated"]), about["settled"]
        seen = (model, best_known(model), best_known(model, asked=True))  # methods may look at predictions alone
        same = next((each for each in seen if _weights(each) == weights), None)
        settled = None if same is None else same.settled_again(numbers)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{str(path)!r} does not say what model it is of; save the audit again") from error
    if same is None or settled is None:
        raise ModelError(
            "this is not the model that was audited: a value, name, shape or type of its parameters or buffers is "
            "another; hand rue.load that model, or fit the audit of this one"
        )
    now = _stated(settled)
    apart = [name for name in sorted({*now, *stated}) if now.get(name) != stated.get(name) and name != "statement"]
    if apart or now["statement"] != stated.get("statement"):
        was, here = (", ".join(f"{name} {facts.get(name)}" for name in apart) for facts in (stated, now))
        what = (
            f"{here}, and {was} when the audit was fitted"
            if apart
            else "a setting of its loss, an l2, penalty or centre"
        )
        raise ModelError(f"the model is wrapped otherwise: {what}; wrap it in the same way")
    if place != device.type and device.type != "cpu":
        raise DeviceError(
            f"the audit was fitted on {place!r} and the model is on {device.type!r}; hand rue.load the model on "
            f"{place!r}, or on 'cpu'"
        )
    if not {"schema", "probes", "table", "auditor"} <= found.parts.keys():
        raise DataError(f"{str(path)!r} lacks parts of an audit; save it again")
    schema, probes, table = (_read(found.parts[name], settled) for name in ("schema", "probes", "table"))
    settled = replace(settled, schema=schema)
    if probes is None:
        warnings.warn(UNPROBED, RueWarning, stacklevel=2)
    elif isinstance(probes, Probes):
        probes.refuse_another(settled)
    table = table if data is None else data
    opened = None if table is None else training_rows(table, same)[0]
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
        "asked": auditor.facts.get("asked"),
    }


def _stated(model: Model) -> Facts:
    """What is known of a model beside its weights, as far as numbers and words say it."""
    known = model.describe()
    said: Facts = {name: known.get(name) for name in ("loss", "l2", "reduction", "estimator", "dtype")}
    words = {name: value for name, value in said.items() if isinstance(value, str | int | float)}
    return {**words, "statement": statement(model)}


def _frame_again(thing: Any) -> Any:
    return thing.read() if isinstance(thing, StoredFrame) else thing


def _read(part: Written, model: Model, instead: Any = _frame_again) -> Any:
    return read_again(part, model, model.theta.device, instead)


def _instead(thing: Any, model: Model, without: bool) -> Any:
    """Training rows without their values, which are opened again, and copies of the model as data."""
    if isinstance(thing, Rows):
        rows = thing.elsewhere()
        return rows.uncounted() if without else rows
    if without and isinstance(thing, OfSums):
        return thing.of_sums()
    if without and holds_rows(thing):
        raise SettingError(_rests_on_rows(type(thing).__name__))
    return as_data(thing, model)


def _rests_on_rows(what: str) -> str:
    return (
        f'rows="none" keeps no number of a single training row, and {what} rests on such ones, or on draws that tell '
        'of them; save it with rows="ids", or fit rue.LinearRUE() under a stated l2, which rests on sums'
    )


def _table(data: Rows) -> Data:
    """The rows as the user gave them, frames by their columns."""
    source = data.source
    if source.X is None:
        raise SettingError("this audit was read without its training rows; hand rue.load data=..., and save again")
    return replace(source, **{part.name: _storable_table(getattr(source, part.name)) for part in fields(source)})


def _storable_table(part: Any) -> Any:
    if part is None or isinstance(part, Tensor | list | tuple) or type(part).__module__.split(".")[0] == "numpy":
        return part
    if hasattr(part, "iloc"):
        return StoredFrame.of(part)
    raise SettingError(
        f'rows="all" stores arrays, tensors and frames of pandas, and these rows are a {type(part).__name__}; save '
        'with rows="ids", and hand rue.load(path, model, data=...) the same rows where they are needed'
    )


def _opened(thing: Any, opened: Rows | None, model: Model) -> Any:
    """The training rows themselves in the place of those without values, and copies as models."""
    if isinstance(thing, StoredCopy):
        return thing.read(model)
    if opened is None or not isinstance(thing, Rows):
        return _frame_again(thing)
    if thing.sample_of is not None:
        mask = torch.zeros(opened.n, dtype=torch.bool)
        mask[thing.sample_of.rows] = True
        return opened.some(mask)
    if thing.given != opened.given or thing.n != opened.n:
        raise DataError(
            "these are not the training rows of the stored audit: their values, types or order differ; give the very "
            "same ones"
        )
    if len(thing.weight) and not (torch.equal(thing.weight, opened.weight) and torch.equal(thing.unit, opened.unit)):
        raise DataError(
            "these training rows have other weights or groups than those of the stored audit; give rue.Data(X, y, "
            "weight, group) as it was fitted with"
        )
    return opened


def _weights(model: Model) -> str:
    hashed = sha256()
    for part in model.core.contents():
        hashed.update(part.encode() if isinstance(part, str) else raw(torch.as_tensor(part)))
    return hashed.hexdigest()
