"""laplace-torch, as its documentation uses it: the marginal likelihood chooses prior precision and noise."""

import copy
import warnings
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.stats import norm
from torch.utils.data import DataLoader, TensorDataset

from practice_parts.metrics import LEVEL, Spread, of_classes, of_regression
from practice_parts.trained import Cell

STEPS = 100  # of Adam on the marginal likelihood, as in its regression example


def last_layer(cell: Cell) -> dict[str, Any]:
    return _measured(cell, "last_layer", "full")


def all_layers(cell: Cell) -> dict[str, Any]:
    """With its default structure: the full matrix of two layers of 64 is too large for these many cells."""
    return _measured(cell, "all", "kron")


def _measured(cell: Cell, weights: str, structure: str) -> dict[str, Any]:
    if not isinstance(cell.net, torch.nn.Module):
        return {"missing": "laplace-torch takes networks"}
    laplace = _package()
    if laplace is None:
        return {"missing": "laplace-torch is not installed"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its advice on keywords that are given
        try:
            return _fitted_and_measured(laplace, cell, weights, structure)
        except Exception as error:  # a factorisation that fails is a result of the cell
            return {"error": f"{type(error).__name__}: {error}"[:300]}


def _fitted_and_measured(laplace: Any, cell: Cell, weights: str, structure: str) -> dict[str, Any]:
    X, y = cell.rows(cell.fit_rows)
    regression = cell.case.classes is None
    rows = DataLoader(TensorDataset(X, y[:, None] if regression else y), batch_size=len(y))
    kind = "regression" if regression else "classification"
    fitted = laplace.Laplace(copy.deepcopy(cell.net), kind, subset_of_weights=weights, hessian_structure=structure)
    fitted.fit(rows)
    if regression:
        _tune(fitted)
        return _of_regression(cell, fitted)
    fitted.optimize_prior_precision(method="marglik")
    probability = fitted(cell.case.X_test, link_approx="probit").detach().double().numpy()
    return of_classes(1 - probability.max(1), probability, probability.argmax(1), cell.case.y_test.numpy())


def _of_regression(cell: Cell, fitted: Any) -> dict[str, Any]:
    mean, variance = fitted(cell.case.X_test)
    noise = float(fitted.sigma_noise.detach())
    std = (variance.detach().double().reshape(-1) + noise**2).sqrt().numpy()
    f, y = mean.detach().double().reshape(-1).numpy(), cell.case.y_test.numpy().astype(float)
    reach = float(norm.ppf((1 + LEVEL) / 2)) * std
    return of_regression(Spread(std, std, norm.logpdf((y - f) / std) - np.log(std), f - reach, f + reach), f, y)


def _tune(fitted: Any) -> None:
    log_prior, log_noise = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.Adam([log_prior, log_noise], lr=0.1)
    for _ in range(STEPS):
        optimiser.zero_grad()
        (-fitted.log_marginal_likelihood(log_prior.exp(), log_noise.exp())).backward()
        optimiser.step()


@cache
def _package() -> Any:
    try:
        import laplace
    except ImportError:
        return None
    return laplace
