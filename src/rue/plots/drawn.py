"""Refuses to draw what a figure is not of."""

from typing import Any

import numpy as np

from rue.core.errors import InputError, ShapeError


def refuse_no_explanation(explanation: Any) -> None:
    """Raise for anything but the explanation of one prediction, such as an audit or explanations of all rows."""
    if not hasattr(explanation, "kernel"):
        raise InputError(
            f"the figure is of the explanation of one prediction, got {type(explanation).__name__}; pass "
            "audit.explain(row) with the number of a row"
        )


def refuse_no_auditor(auditor: Any) -> None:
    """Raise for anything but a fitted auditor, such as the audit it made."""
    if not callable(getattr(auditor, "audit", None)):
        raise InputError(
            f"the figure is of a fitted auditor, got {type(auditor).__name__}; pass what a method's fit returns, such "
            "as rue.LinearRUE().fit(model, data)"
        )


def refuse_no_place(name: str, place: Any, numbers: int) -> None:
    """Raise for a place to mark that is not so many finite numbers."""
    try:
        values = np.asarray(place, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} cannot be read as numbers ({error}); pass the values of the audited input") from error
    wanted = () if numbers == 1 else (numbers,)
    if values.shape != wanted or not np.isfinite(values).all():
        raise ShapeError(f"{name} is {place!r}, expected {numbers} finite numbers: where the audited input is")
