"""The outcomes of the audited rows, where they are known, and the error of each prediction."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.auditing.auditor import Auditor
from rue.auditing.result import Audit
from rue.core.arrays import Array
from rue.core.errors import DataError, ShapeError
from rue.core.labels import label_codes

OutcomeKind = Literal["numbers", "classes", "losses"]


@dataclass(frozen=True)
class Outcome:
    """Targets and the error of every row: of a number, of a decision, or else the loss that was trained."""

    kind: OutcomeKind
    target: NDArray[Any] = field(repr=False)  # (m,) or (m, k); for classes their codes
    shown: NDArray[Any] = field(repr=False)  # the same, as it is shown to people
    error: Array = field(repr=False)  # (m, k), target − prediction; for classes (m, 1), one where the decision is wrong
    called: str  # the name of `size`

    @property
    def size(self) -> Array:
        """One number for each row, the larger the worse: (m,)."""
        return np.abs(self.error[:, 0]) if self.error.shape[1] == 1 else np.linalg.norm(self.error, axis=1)


def outcome(auditor: Auditor, audit: Audit, targets: Any) -> Outcome:
    """Read targets, and compare them with the predictions."""
    values = np.asarray(targets.detach().cpu() if isinstance(targets, Tensor) else targets)
    if values.ndim not in (1, 2) or len(values) != len(audit):
        raise ShapeError(
            f"targets have shape {values.shape} and {len(audit)} rows were audited; give one target for each, or none"
        )
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if audit.decision is not None:
        return _classes(audit, values)
    _check_known(values)
    model = auditor.model
    if model.family.same_scale or model.response is not None:
        return _numbers(audit, values)
    return _losses(auditor, audit, targets, values)


def _numbers(audit: Audit, target: NDArray[Any]) -> Outcome:
    values, predicted = target.astype(np.float64), np.asarray(audit.prediction, dtype=np.float64)
    if values.shape != predicted.shape:
        raise ShapeError(f"targets have shape {values.shape}, the predictions {predicted.shape}; they must agree")
    called = "absolute error" if values.ndim == 1 else f"root of the summed squared errors of {values.shape[1]} outputs"
    return Outcome("numbers", values, values, (values - predicted).reshape(len(values), -1), called)


def _classes(audit: Audit, target: NDArray[Any]) -> Outcome:
    decided = np.asarray(audit.label)
    if target.shape != decided.shape:
        raise ShapeError(f"labels have shape {target.shape}, the decisions {decided.shape}; they must agree")
    if audit.classes is not None and target.ndim == 1:
        codes = label_codes(target, audit.classes)
        wrong = codes != label_codes(decided, audit.classes)
        return Outcome("classes", codes, target, wrong[:, None].astype(np.float64), "wrong decision")
    _check_known(target)
    codes = np.rint(target.astype(np.float64)).astype(np.int64)
    if codes.ndim == 1 and audit.own_probability is not None:
        label_codes(codes, np.arange(audit.own_probability.shape[1]))  # raises for numbers that are no class
    wrong = codes != decided.astype(np.int64)
    wrong = wrong if wrong.ndim == 1 else wrong.any(axis=1)
    return Outcome("classes", codes, codes, wrong[:, None].astype(np.float64), "wrong decision")


def _losses(auditor: Auditor, audit: Audit, targets: Any, shown: NDArray[Any]) -> Outcome:
    """The loss as the error, for outputs on another scale than the targets (a logarithm, a hazard)."""
    model, name = auditor.model, auditor.model.loss.name
    if model.family.coupled:
        raise DataError(f"the loss {name} of a row depends on the other rows, so that a single row has no error")
    with torch.no_grad():
        outputs = torch.as_tensor(np.asarray(audit.outputs)).to(model.theta)
        losses = model.loss(outputs, model.read_targets(targets)).double().cpu().numpy()
    return Outcome("losses", shown, shown, losses.reshape(-1, 1), f"loss ({name})")


def _check_known(values: NDArray[Any]) -> None:
    try:
        known = np.isfinite(values.astype(np.float64))
    except (TypeError, ValueError) as error:
        raise DataError(f"targets cannot be read as numbers ({error}); give them as in training") from error
    if not known.all():
        rows = int((~known).reshape(len(values), -1).any(axis=1).sum())
        raise DataError(
            f"{rows} of {len(values)} targets are not known (NaN or infinite); report the rows with known targets, or "
            "all of them without targets"
        )
