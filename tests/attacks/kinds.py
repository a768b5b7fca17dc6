"""Small trained models of every kind, on one frame of named columns: what attacks are made on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import rue

ROWS, NEW = 160, 12
COLUMNS = ("age", "dose", "weight", "pressure")


@dataclass(frozen=True)
class Trained:
    """A model, the rows it was trained on, new rows, and what `rue.audit` is told beside them."""

    model: Any
    X: pd.DataFrame
    y: np.ndarray
    X_new: pd.DataFrame
    told: dict[str, Any] = field(default_factory=dict)

    def again(self, X: Any, y: Any) -> Any:
        """Another model of the kind, trained on these rows."""
        return (clone(self.model) if hasattr(self.model, "get_params") else type(self.model)()).fit(X, y)

    def audit(self, X: Any = None, y: Any = None, inputs: Any = None, **told: Any) -> rue.Audit:
        """An audit with something else in place of what was trained with."""
        data = (self.X if X is None else X, self.y if y is None else y)
        weight, group = told.pop("weight", None), told.pop("group", None)
        if weight is not None or group is not None:
            data = rue.Data(*data, weight=weight, group=group)
        inputs = self.X_new if inputs is None else inputs
        return rue.audit(self.model, train=data, inputs=inputs, **{**self.told, **told})


@cache
def problem() -> tuple[pd.DataFrame, np.ndarray, np.ndarray, pd.DataFrame]:
    """Rows, a number and a class for each, and new rows; columns of different units."""
    source = np.random.default_rng(5)
    table = source.normal(size=(ROWS + NEW, 4)) * [10, 2, 15, 20] + [50, 5, 70, 120]
    frame = pd.DataFrame(table, columns=list(COLUMNS))
    size = 3 * np.sin(frame.age / 10) + 2 * frame.dose + 0.02 * frame.pressure + source.normal(size=len(frame))
    y = size.to_numpy()[:ROWS]
    return frame[:ROWS].copy(), y, (y > np.median(y)).astype(int), frame[ROWS:].copy()


class Standardised(nn.Module):
    """A network that knows the mean and the scale of its columns."""

    def __init__(self, X: torch.Tensor, outputs: int = 1):
        super().__init__()
        self.register_buffer("mean", X.mean(0))
        self.register_buffer("scale", X.std(0))
        self.net = nn.Sequential(nn.Linear(X.shape[1], 8), nn.Tanh(), nn.Linear(8, outputs))

    def forward(self, x):
        return self.net((x - self.mean) / self.scale)


def _module() -> tuple[Any, dict[str, Any]]:
    X, y, _, _ = problem()
    inputs, targets = torch.tensor(X.to_numpy()), torch.tensor(y)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = Standardised(inputs).double()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
    with torch.enable_grad():
        for _ in range(300):
            optimizer.zero_grad()
            (net(inputs)[:, 0] - targets).square().mean().backward()
            optimizer.step()
    return net.eval(), {"loss": nn.MSELoss()}


def _lightgbm() -> tuple[Any, dict[str, Any]]:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=30, num_leaves=7, verbose=-1, n_jobs=1), {}


def _xgboost() -> tuple[Any, dict[str, Any]]:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=30, max_depth=3, n_jobs=1), {}


def _catboost() -> tuple[Any, dict[str, Any]]:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(iterations=30, depth=3, verbose=False, thread_count=1, allow_writing_files=False), {}


class Box:
    """A model of the user's own, known by its predictions."""

    def fit(self, X, y):
        self.inside = make_pipeline(StandardScaler(), Ridge()).fit(X, y)
        return self

    def predict(self, X):
        return self.inside.predict(X)


BUILT: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "a network": _module,
    "Ridge": lambda: (Ridge(), {}),
    "a pipeline": lambda: (make_pipeline(StandardScaler(), Ridge()), {}),
    "LogisticRegression": lambda: (make_pipeline(StandardScaler(), LogisticRegression()), {}),
    "a random forest": lambda: (RandomForestRegressor(30, random_state=0), {}),
    "extra trees": lambda: (ExtraTreesRegressor(30, random_state=0), {"refit": False}),
    "HistGradientBoosting": lambda: (HistGradientBoostingRegressor(max_iter=30, random_state=0), {"refit": False}),
    "LightGBM": _lightgbm,
    "XGBoost": _xgboost,
    "CatBoost": _catboost,
    "a black box": lambda: (Box(), {}),
}


@cache
def trained(kind: str) -> Trained:
    """A model of a kind; boosted models are audited without training copies, for the sake of time."""
    X, y, labels, X_new = problem()
    model, told = BUILT[kind]()
    targets = labels if kind == "LogisticRegression" else y
    if hasattr(model, "fit"):
        model.fit(X, targets)
    if kind in ("LightGBM", "XGBoost", "CatBoost"):
        told = {**told, "refit": False}
    return Trained(model, X, targets, X_new, told)


@cache
def sound(kind: str) -> rue.Audit:
    """The audit without any attack: the oracle of those that must not matter."""
    return trained(kind).audit()
