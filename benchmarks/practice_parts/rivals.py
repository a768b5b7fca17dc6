"""The rivals, each a function of a cell: what can be had from the same rows by refitting the model four times.

Each returns the numbers of `metrics` and its seconds of the processor, those of the refits included; whole alternatives
know the rows alone, and are kept for all cells of a case.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor
from sklearn.neighbors import NearestNeighbors

from practice_parts import cross_validation_plus, laplace_rival, scale, whole_rivals
from practice_parts.ibug import ibug
from practice_parts.metrics import LEVEL, Spread, nll_of_logits, of_classes, of_regression, probabilities
from practice_parts.stored import read_json, write_json
from practice_parts.trained import FOLDS, Cell

TREES, LEAF, NEIGHBOURS = 300, 10, 10
Numbers = dict[str, Any]


def forest(cell: Cell) -> Numbers:
    """A forest learns |residual| of left-out rows from inputs and prediction; out of the bag, it is scaled."""
    residuals, X, X_test = _residuals(cell), cell.case.X.numpy(), cell.case.X_test.numpy()
    model = RandomForestRegressor(TREES, min_samples_leaf=LEAF, oob_score=True, random_state=cell.case.split, n_jobs=1)
    model.fit(np.column_stack([X, cell.left_out[:, 0]]), np.abs(residuals))
    sizes = model.predict(np.column_stack([X_test, cell.outputs[:, 0]]))
    return _scaled(cell, residuals, model.oob_prediction_, sizes)


def neighbours(cell: Cell) -> Numbers:
    """The mean |residual| of the ten nearest rows."""
    residuals = _residuals(cell)
    search = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(cell.case.X.numpy())
    others = search.kneighbors(return_distance=False)  # of the rows themselves: without them
    near = search.kneighbors(cell.case.X_test.numpy(), return_distance=False)
    floor = 1e-3 * np.abs(residuals).mean()  # ten rows fitted exactly
    left = np.maximum(np.abs(residuals)[others].mean(1), floor)
    return _scaled(cell, residuals, left, np.maximum(np.abs(residuals)[near].mean(1), floor))


def constant(cell: Cell) -> Numbers:
    """The root mean square of the residuals, for every prediction."""
    f, y = cell.outputs[:, 0], cell.case.y_test.numpy().astype(float)
    std = np.full(len(y), np.sqrt((_residuals(cell) ** 2).mean()))
    reach = float(norm.ppf((1 + LEVEL) / 2)) * std
    density = norm.logpdf((y - f) / std) - np.log(std)
    return of_regression(Spread(std, std, density, f - reach, f + reach), f, y)


def cv_plus(cell: Cell) -> Numbers:
    """CV+ intervals; the score is their width, and there is no density."""
    y, y_test = (part.numpy().astype(float) for part in (cell.case.y, cell.case.y_test))
    lower, upper = cross_validation_plus.intervals(cell.left_out[:, 0], y, cell.fold, cell.fold_outputs[..., 0])
    return of_regression(Spread(upper - lower, None, None, lower, upper), cell.outputs[:, 0], y_test)


def maximum_softmax(cell: Cell) -> Numbers:
    """The network's own probabilities."""
    return _tempered(cell, 1.0)


def temperature(cell: Cell) -> Numbers:
    """The network's logits divided by the number that suits the logits of the rows left out best (Guo et al. 2017)."""
    y = cell.case.y.numpy()
    found = minimize_scalar(
        lambda log: nll_of_logits(cell.left_out / np.exp(log), y), bounds=(np.log(0.05), np.log(100)), method="bounded"
    )
    return {**_tempered(cell, float(np.exp(found.x))), "temperature": float(np.exp(found.x))}


REGRESSION: dict[str, Callable[[Cell], Numbers]] = {
    "forest": forest,
    "neighbours": neighbours,
    "CV+": cv_plus,
    "IBUG": ibug,
    "constant": constant,
    "Laplace, last layer": laplace_rival.last_layer,
    "Laplace, all layers": laplace_rival.all_layers,
}
CLASSES: dict[str, Callable[[Cell], Numbers]] = {
    "temperature": temperature,
    "maximum softmax": maximum_softmax,
    "Laplace, last layer": laplace_rival.last_layer,
    "Laplace, all layers": laplace_rival.all_layers,
}
TRAININGS = {  # of the model, or one like it; all others refit it FOLDS times
    "maximum softmax": 0,
    "Laplace, last layer": 0,
    "Laplace, all layers": 0,
    "IBUG": 1,
    **dict.fromkeys(whole_rivals.REGRESSION, 1),
}


def trainings(name: str) -> int:
    return TRAININGS.get(name, FOLDS)


def measured(cell: Cell, known: dict[str, Numbers], whole: Path) -> dict[str, Numbers]:
    """Every rival on one cell, those known as they are; one that is not installed says so."""
    made = dict(REGRESSION if cell.case.classes is None else CLASSES)
    found = {name: _timed(rival, cell, known.get(name), _refitting(name, cell)) for name, rival in made.items()}
    if cell.case.classes is not None:
        return found
    stored = read_json(whole) if whole.exists() else {}
    alone = {name: _timed(rival, cell.case, stored.get(name), 0.0) for name, rival in whole_rivals.REGRESSION.items()}
    if alone != stored:
        write_json(whole, alone)
    return {**found, **alone}


def _timed(rival: Callable[[Any], Numbers], subject: Any, known: Numbers | None, before: float) -> Numbers:
    if known is not None and "missing" not in known:
        return known
    start = time.process_time()
    numbers = rival(subject)
    return numbers if "missing" in numbers else {**numbers, "seconds": time.process_time() - start + before}


def _refitting(name: str, cell: Cell) -> float:
    return cell.refit_seconds if trainings(name) == FOLDS else 0.0


def _residuals(cell: Cell) -> np.ndarray:
    return cell.case.y.numpy().astype(float) - cell.left_out[:, 0]


def _scaled(cell: Cell, residuals: np.ndarray, left: np.ndarray, sizes: np.ndarray) -> Numbers:
    found, f, y = scale.fitted(residuals, left), cell.outputs[:, 0], cell.case.y_test.numpy().astype(float)
    return {**of_regression(found.spread(f, sizes, y), f, y), "degrees": found.degrees}


def _tempered(cell: Cell, by: float) -> Numbers:
    probability, y = probabilities(cell.outputs / by), cell.case.y_test.numpy()
    return of_classes(1 - probability.max(1), probability, cell.outputs.argmax(1), y)
