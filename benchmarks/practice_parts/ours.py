"""rue's audits of a cell, by its public call alone; what is stated of the training differs."""

import inspect
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from torch import nn

import rue
from practice_parts.metrics import LEVEL, Spread, of_classes, of_regression
from practice_parts.recipes import RECIPES
from practice_parts.trained import Cell

LONGEST = 300  # characters of a message that are kept


def asked(cell: Cell) -> dict[str, dict[str, Any]]:
    """Nothing stated; beside it the rows that stopped the training, or its penalty, where there were any.

    Of an estimator, once with nothing trained, and once as it comes. Of a network, trainings from scratch, too.
    """
    if not isinstance(cell.net, nn.Module):
        return {"nothing retrained": {"refit": False}, "refits allowed": {}}
    found: dict[str, dict[str, Any]] = {"nothing stated": {}}
    if len(cell.stop_rows):
        found["validation rows given"] = {"validation": cell.rows(cell.stop_rows)}
    if cell.statement:
        found["penalty stated"] = cell.statement
    return {**found, "refits allowed": {"refit": partial(_again, cell)}}


def measured(cell: Cell, names: list[str]) -> dict[str, dict[str, Any]]:
    stated = asked(cell)
    return {name: _audit(cell, stated[name]) for name in names}


def _again(cell: Cell, rows: np.ndarray) -> nn.Module:
    """The same recipe on some of the rows the network was fitted to; those that stop it are drawn from among them."""
    X, y = cell.rows(cell.fit_rows)
    return RECIPES[cell.recipe].train(X[rows], y[rows], cell.case.classes, int(rows.sum()) % 10_000).net


def _audit(cell: Cell, stated: dict[str, Any]) -> dict[str, Any]:
    """Numbers and rows of one audit; an audit that raises is a result, too."""
    if unknown := set(stated) - set(inspect.signature(rue.audit).parameters):
        return {"missing": f"rue.audit has no {', '.join(sorted(unknown))}"}
    rows, inputs = cell.rows(cell.fit_rows), cell.case.X_test
    if isinstance(cell.net, nn.Module):
        stated = {**stated, "loss": "squared_error" if cell.case.classes is None else "cross_entropy"}
    else:
        rows, inputs = tuple(part.numpy() for part in rows), inputs.numpy()
    start = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            audit = rue.audit(cell.net, train=rows, inputs=inputs, **stated)
            seconds = time.process_time() - start
            numbers, kept = _of_number(cell, audit) if cell.case.classes is None else _of_class(cell, audit)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:LONGEST]}
    return {
        **numbers,
        "seconds": seconds,
        "facts": _scalars(audit.facts),
        "warnings": [str(warning.message)[:LONGEST] for warning in said],
        "rows": {name: _short(values) for name, values in kept.items()},
    }


def _of_number(cell: Cell, audit: rue.Audit) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    y = cell.case.y_test.numpy().astype(float)
    interval = audit.interval(LEVEL)
    rows = {
        "prediction": np.asarray(audit.prediction, float).reshape(-1),
        "score": audit.score,
        "total_std": audit.total_std,
        "log_prob": audit.log_prob(y),
        "lower": interval.lower,
        "upper": interval.upper,
    }
    rows = {name: np.asarray(values, float).reshape(len(y)) for name, values in rows.items()}
    spread = Spread(rows["score"], rows["total_std"], rows["log_prob"], rows["lower"], rows["upper"])
    return of_regression(spread, rows["prediction"], y), rows


def _of_class(cell: Cell, audit: rue.Audit) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    rows = {"score": audit.score, "probability": audit.probability, "label": audit.label}
    rows = {name: np.asarray(values) for name, values in rows.items()}
    return of_classes(rows["score"], rows["probability"], rows["label"], cell.case.y_test.numpy()), rows


def _scalars(facts: Any) -> dict[str, Any]:
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in facts.items()}
    kept = {name: value for name, value in plain.items() if isinstance(value, bool | int | float)}
    return kept | {name: value[:LONGEST] for name, value in plain.items() if isinstance(value, str)}


def _short(values: np.ndarray) -> Any:
    """Four digits are enough to draw by, and the files stay small."""
    return np.vectorize(lambda value: float(f"{value:.4g}"))(values).tolist()
