"""IBUG (Brophy & Lowd 2022): the spread of the targets that share most leaves of a boosted ensemble with a new row."""

from typing import Any

import numpy as np
from scipy.stats import norm

from practice_parts.metrics import LEVEL, Spread, of_regression
from practice_parts.recipes import RECIPES
from practice_parts.trained import Cell

NEAREST = (3, 5, 10, 20, 40, 80, 160)
SHARE = 0.2  # of the rows that a second training leaves out, to choose how many and by how much
ADDED = np.geomspace(1e-4, 10, 60)  # to the variance, in units of the targets'
TIMES = np.geomspace(1e-2, 100, 60)  # or the variance this often,
LEAST = 0.01  # but of the mean squared residual at least


def ibug(cell: Cell) -> dict[str, Any]:
    """With the number of rows, and what is added to their variance, that suit rows left out of one more training."""
    leaves = LEAVES.get(cell.recipe)
    if leaves is None:
        return {"missing": "IBUG needs the leaves of a boosted ensemble"}
    X, y = cell.case.X.numpy(), cell.case.y.numpy().astype(float)
    order = np.random.default_rng(cell.case.split).permutation(len(y))
    out, kept = order[: round(SHARE * len(y))], order[round(SHARE * len(y)) :]
    again = RECIPES[cell.recipe].train(cell.case.X[kept], cell.case.y[kept], None, cell.case.split).net
    near, missed = _nearest(leaves(again, X[out]), leaves(again, X[kept])), (y[out] - again.predict(X[out])) ** 2
    found = []
    least = LEAST * missed.mean()
    for k in (k for k in NEAREST if k < len(kept)):
        own = y[kept][near[:, :k]].var(1)
        found += [(_nll(own + more, missed), k, 1.0, more) for more in ADDED]
        found += [(_nll(np.maximum(times * own, least), missed), k, times, 0.0) for times in TIMES]
    _, k, times, more = min(found)
    f, target = cell.outputs[:, 0], cell.case.y_test.numpy().astype(float)
    rows = _nearest(leaves(cell.net, cell.case.X_test.numpy()), leaves(cell.net, X))[:, :k]
    std = np.sqrt(np.maximum(times * y[rows].var(1) + more, least))
    reach = float(norm.ppf((1 + LEVEL) / 2)) * std
    return of_regression(Spread(std, std, norm.logpdf(target, f, std), f - reach, f + reach), f, target)


def _nearest(new: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Training rows by the number of leaves they share with each new one, most first."""
    shared = sum((new[:, tree, None] == rows[:, tree]).astype(np.int16) for tree in range(rows.shape[1]))
    return np.argsort(-shared, axis=1, kind="stable")[:, : max(NEAREST)]


def _nll(variance: np.ndarray, missed: np.ndarray) -> float:
    return float(0.5 * (np.log(variance) + missed / variance).mean())


LEAVES = {
    "LightGBM": lambda model, X: model.predict(X, pred_leaf=True),
    "XGBoost": lambda model, X: model.apply(X),
    "CatBoost": lambda model, X: model.calc_leaf_indexes(X),
}
