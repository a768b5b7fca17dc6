"""Whole alternatives: models that predict a distribution themselves, instead of an audit of the model one has."""

from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor

from practice_parts.cases import Case
from practice_parts.metrics import LEVEL, Spread, of_regression, rmse

TREES, LEAF = 300, 5


def quantile_forest(case: Case) -> dict[str, Any]:
    """Meinshausen 2006: the targets of training rows, weighted by how often they share a leaf with the new one.

    Its density is a Gaussian kernel's over those weighted targets.
    """
    X, y, X_test = (part.numpy() for part in (case.X, case.y.double(), case.X_test))
    forest = RandomForestRegressor(TREES, min_samples_leaf=LEAF, max_features=1 / 3, random_state=case.split, n_jobs=1)
    here, new = forest.fit(X, y).apply(X), forest.apply(X_test)
    weight = np.zeros((len(X_test), len(X)))
    for tree in range(TREES):
        same = new[:, tree, None] == here[:, tree]
        weight += same / same.sum(1, keepdims=True)
    weight /= TREES
    order = np.argsort(y)
    below = np.cumsum(weight[:, order], axis=1)
    lower, upper = (
        y[order][np.minimum((below < share).sum(1), len(y) - 1)] for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    mean = weight @ y
    std = np.sqrt(np.maximum(weight @ y**2 - mean**2, 1e-6))
    width = 1.06 * std / np.sqrt(1 / (weight**2).sum(1)) ** 0.4  # Silverman's, of as many rows as the weights are worth
    target = case.y_test.numpy().astype(float)
    density = (weight * norm.pdf((target[:, None] - y) / width[:, None])).sum(1) / width
    spread = Spread(std, std, np.log(np.maximum(density, 1e-12)), lower, upper)
    return {**of_regression(spread, mean, target), "rmse": rmse(mean, target)}


def ngboost(case: Case) -> dict[str, Any]:
    """Natural gradient boosting of a Gaussian (Duan et al. 2020), with its own settings."""
    try:
        from ngboost import NGBRegressor
    except ImportError:
        return {"missing": "ngboost is not installed"}
    y = case.y_test.numpy().astype(float)
    made = NGBRegressor(verbose=False, random_state=case.split).fit(case.X.numpy(), case.y.double().numpy())
    law = made.pred_dist(case.X_test.numpy())
    mean, std = law.params["loc"], law.params["scale"]
    reach = float(norm.ppf((1 + LEVEL) / 2)) * std
    spread = Spread(std, std, norm.logpdf(y, mean, std), mean - reach, mean + reach)
    return {**of_regression(spread, mean, y), "rmse": rmse(mean, y)}


REGRESSION = {"quantile forest itself": quantile_forest, "NGBoost itself": ngboost}
