"""Twelve models set up and audited as they should be, networks stopped early among them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from torch import nn

import rue


@cache
def tables() -> dict[str, tuple[np.ndarray, ...]]:
    """Training, validation and new rows with their targets; inputs and numbers are standardised."""
    found = {}
    for name, load in {"numbers": load_diabetes, "classes": load_breast_cancer}.items():
        X, y = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(X))[:420]
        X, y = X[order], y[order]
        X = (X - X[:250].mean(0)) / X[:250].std(0)
        y = (y - y[:250].mean()) / y[:250].std() if name == "numbers" else y
        found[name] = (X[:250], y[:250], X[250:320], y[250:320], X[320:], y[320:])
    return found


def stopped(loss: nn.Module, outputs: int, kind: type[torch.optim.Optimizer], **settings: Any) -> nn.Module:
    """A network that was stopped when its validation loss had not fallen for twenty steps."""
    name = "numbers" if outputs == 1 else "classes"
    X, y, X_val, y_val, _, _ = (torch.tensor(part) for part in tables()[name])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(X.shape[1], 16), nn.Tanh(), nn.Linear(16, outputs)).double()
    optimizer, best, since = kind(net.parameters(), **settings), float("inf"), 0
    state = {}
    while since < 20:
        for part, targets, step in ((X, y, True), (X_val, y_val, False)):
            found = net(part)
            value = loss(found[:, 0] if outputs == 1 else found, targets)
            if step:
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
        since += 1
        if value.item() < best:
            best, since, state = value.item(), 0, {k: v.clone() for k, v in net.state_dict().items()}
    net.load_state_dict(state)
    return net.eval()


def _network(loss: nn.Module, outputs: int, kind: type[torch.optim.Optimizer], **settings: Any) -> Any:
    return stopped(loss, outputs, kind, **settings), {"loss": loss}


def _estimator(estimator: Any, name: str = "numbers") -> Any:
    X, y, *_ = tables()[name]
    return estimator.fit(X, y), {}


def _poisson() -> Any:
    X, y, *_ = tables()["numbers"]
    return PoissonRegressor(alpha=0.1, max_iter=1000, tol=1e-8).fit(X, counts(y)), {}


def counts(y: np.ndarray) -> np.ndarray:
    """Whole numbers that grow with y."""
    return np.random.default_rng(1).poisson(np.exp(0.5 * y)).astype(float)


def _boosted(library: str) -> Any:
    if library == "LightGBM":
        from lightgbm import LGBMRegressor

        return _estimator(LGBMRegressor(n_estimators=60, num_leaves=7, learning_rate=0.05, verbose=-1, n_jobs=1))
    if library == "XGBoost":
        from xgboost import XGBRegressor

        return _estimator(XGBRegressor(n_estimators=60, max_depth=3, learning_rate=0.05, n_jobs=1))
    from catboost import CatBoostRegressor

    settings = {"iterations": 100, "depth": 4, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    return _estimator(CatBoostRegressor(**settings))


SETUPS: dict[str, Callable[[], Any]] = {
    "a network by AdamW, stopped early": lambda: _network(nn.MSELoss(), 1, torch.optim.AdamW, lr=0.01),
    "a network by SGD with momentum, stopped early": lambda: _network(
        nn.MSELoss(), 1, torch.optim.SGD, lr=0.05, momentum=0.9
    ),
    "a classifier by AdamW, stopped early": lambda: _network(nn.CrossEntropyLoss(), 2, torch.optim.AdamW, lr=0.01),
    "Ridge": lambda: _estimator(Ridge(alpha=5.0)),
    "logistic regression in a pipeline": lambda: _estimator(
        make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8, max_iter=1000)), "classes"
    ),
    "a Poisson regression": _poisson,
    "scikit-learn's network, stopped early": lambda: _estimator(
        MLPRegressor(hidden_layer_sizes=(16,), early_stopping=True, max_iter=500, random_state=0)
    ),
    "a random forest": lambda: _estimator(RandomForestRegressor(300, min_samples_leaf=5, random_state=0)),
    "HistGradientBoosting": lambda: _estimator(HistGradientBoostingRegressor(max_iter=60, learning_rate=0.05)),
    "LightGBM": lambda: _boosted("LightGBM"),
    "XGBoost": lambda: _boosted("XGBoost"),
    "CatBoost": lambda: _boosted("CatBoost"),
    "a support vector machine": lambda: _estimator(SVR()),
}


def auditor_of(name: str) -> tuple[rue.Auditor, np.ndarray]:
    """The default auditor of a set-up, and new rows."""
    model, told = SETUPS[name]()
    classes = "class" in name or "logistic" in name
    X, y, _, _, X_new, _ = tables()["classes" if classes else "numbers"]
    targets = counts(y) if "Poisson" in name else y
    method = rue.ClassifierRUE() if classes else rue.CalibratedRUE()
    if "Poisson" in name:
        method = rue.LinearRUE()
    if "forest" in name:
        method = rue.ForestRUE()
    return method.fit(rue.wrap(model, **told), (X, targets)), X_new
