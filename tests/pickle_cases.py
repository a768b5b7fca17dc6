"""A user's module: networks, losses and models of every kind, fitted, to be sent to other processes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rue

draw = np.random.default_rng(0)
X = draw.normal(size=(48, 4)).astype(np.float32)
y = (X[:, 0] - X[:, 1] ** 2 + 0.3 * draw.normal(size=48)).astype(np.float32)
X_new = draw.normal(size=(7, 4)).astype(np.float32)
X_held, y_held = draw.normal(size=(30, 4)).astype(np.float32), draw.normal(size=30).astype(np.float32)
three = np.digitize(y, np.quantile(y, [0.3, 0.7]))
words = np.array(["low", "middle", "high"])[three]
counts = draw.poisson(np.exp(X[:, 0] / 2)).astype(np.float64)
frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(site=draw.choice(["north", "south"], 48))
frame_new = pd.DataFrame(X_new, columns=["a", "b", "c", "d"]).assign(site="north")
group = np.arange(48) // 2
weight = draw.uniform(0.5, 2.0, 48)


class Net(nn.Module):
    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, outputs))

    def forward(self, x):
        outputs = self.layers(x)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def net(outputs: int = 1) -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net(outputs)


def log_cosh(outputs, targets):
    """A loss of the user."""
    return torch.log(torch.cosh(outputs - targets))


def sizes(parameters):
    """A penalty of the user."""
    return 0.3 * sum(values.square().sum() for values in parameters.values())


class Box:
    """A model that only predicts."""

    def predict(self, table):
        return np.asarray(table)[:, 0] * 0.9


class BoxOfClasses:
    """A classifier that only predicts."""

    classes_ = np.array(["low", "middle", "high"])

    def predict_proba(self, table):
        logits = np.stack([-np.asarray(table)[:, 0], np.zeros(len(table)), np.asarray(table)[:, 0]], axis=1)
        return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)


def trained_by_adamw() -> rue.Model:
    module = net()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.05)
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.mse_loss(module(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        optimizer.step()
    return rue.wrap(module, loss=nn.MSELoss(), optimizer=optimizer)


def loader() -> DataLoader:
    return DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), batch_size=16)


def linear(estimator: Any, targets: Any = y, table: Any = X) -> Callable[[], rue.Auditor]:
    return lambda: rue.LinearRUE().fit(rue.wrap(estimator.fit(table, targets)), (table, targets))


def by_default(estimator: Any, targets: Any = y, table: Any = X) -> Callable[[], rue.Auditor]:
    return lambda: _default(rue.wrap(estimator.fit(table, targets)), (table, targets), refit=False)


def network(outputs: int, loss: Any, targets: Any, **said: Any) -> Callable[[], rue.Auditor]:
    return lambda: rue.LinearRUE().fit(rue.wrap(net(outputs), loss=loss, **said), (X, targets))


def _default(model: rue.Model, data: Any, **asked: Any) -> rue.Auditor:
    method = rue.methods.best_method(model)
    return method.fit(model, data) if isinstance(method, rue.ForestRUE) else method.fit(model, data, **asked)


def _lightgbm(classes: bool) -> rue.Auditor:
    import lightgbm

    kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    estimator = kind(n_estimators=5, min_child_samples=5, verbose=-1, n_jobs=1)
    return by_default(estimator, words if classes else y, frame.drop(columns="site"))()


def _booster(library: str) -> rue.Auditor:
    if library == "lightgbm":
        import lightgbm

        settings = {"objective": "regression", "min_data_in_leaf": 5, "verbose": -1, "num_threads": 1}
        booster: Any = lightgbm.train(settings, lightgbm.Dataset(X, y), 5)
    else:
        import xgboost

        booster = xgboost.train({"max_depth": 2, "nthread": 1}, xgboost.DMatrix(X, y), 5)
    return rue.LinearRUE().fit(rue.wrap(booster), (X, y))


def _xgboost() -> rue.Auditor:
    import xgboost

    return linear(xgboost.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1))()


def _catboost() -> rue.Auditor:
    import catboost

    return linear(
        catboost.CatBoostRegressor(
            iterations=5, depth=2, learning_rate=0.3, verbose=0, thread_count=1, allow_writing_files=False
        )
    )()


def _skorch() -> rue.Auditor:
    import skorch

    fitted = skorch.NeuralNetRegressor(net().layers, train_split=None, verbose=0, max_epochs=2, lr=0.01)
    fitted.fit(X, y[:, None])
    return rue.LinearRUE().fit(rue.wrap(fitted), (X, y[:, None]))


AUDITORS: dict[str, Callable[[], rue.Auditor]] = {
    "network by name": network(1, "squared_error", y, l2=0.5),
    "network, MSELoss and AdamW, default": lambda: rue.CalibratedRUE().fit(trained_by_adamw(), (X, y)),
    "network, HuberLoss": network(1, nn.HuberLoss(), y, l2=0.5),
    "network, own loss and penalty": network(1, log_cosh, y, penalty=sizes),
    "network, weighed classes": network(3, nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 1.0])), three, l2=0.5),
    "network, yes or no": network(1, nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0)), (y > 0) * 1.0, l2=0.5),
    "network, classes by default": lambda: rue.ClassifierRUE().fit(
        rue.wrap(net(3), loss="cross_entropy", l2=0.5), (X, three)
    ),
    "network, loader": lambda: rue.LinearRUE().fit(rue.wrap(net(), loss="squared_error", l2=0.5), loader()),
    "network, groups and weights": lambda: rue.LinearRUE().fit(
        rue.wrap(net(), loss="squared_error", l2=0.5), rue.Data(X, y, weight, group)
    ),
    "network, validation": lambda: rue.CalibratedRUE().fit(trained_by_adamw(), (X, y), validation=(X_held, y_held)),
    "network, held-out rows": lambda: network(1, "squared_error", y, l2=0.5)().calibrate(X_held, y_held),
    "network, held-out groups": lambda: network(1, "squared_error", y, l2=0.5)().calibrate(
        X_held, y_held, np.arange(30) // 15
    ),
    "network, dual solver": lambda: rue.LinearRUE(solver=rue.solve.Dual()).fit(
        rue.wrap(net(), loss="squared_error", l2=0.5), (X, y)
    ),
    "network, conjugate gradients": lambda: rue.LinearRUE(solver=rue.solve.ConjugateGradient()).fit(
        rue.wrap(net(), loss="squared_error", l2=0.5), (X, y)
    ),
    "network, projection": lambda: rue.LinearRUE(solver=rue.solve.Projection(size=8)).fit(
        rue.wrap(net(), loss="squared_error", l2=0.5), (X, y)
    ),
    "Ridge by default": lambda: rue.CalibratedRUE().fit(rue.wrap(Ridge().fit(X, y)), (X, y)),
    "LinearRegression, groups": lambda: rue.LinearRUE().fit(
        rue.wrap(LinearRegression().fit(X, y, weight)), rue.Data(X, y, weight, group)
    ),
    "Lasso": linear(Lasso(0.05)),
    "LogisticRegression": linear(LogisticRegression(class_weight="balanced"), words),
    "one against the rest": linear(SGDClassifier(loss="log_loss", class_weight={"low": 2.0}, random_state=0), words),
    "PoissonRegressor": linear(PoissonRegressor(), counts),
    "TweedieRegressor": linear(TweedieRegressor(power=1.5), counts),
    "transformed targets": linear(TransformedTargetRegressor(Ridge(), transformer=StandardScaler())),
    "MLPRegressor": linear(
        MLPRegressor(hidden_layer_sizes=3, solver="lbfgs", max_iter=2000, random_state=0, alpha=1.0)
    ),
    "MLPClassifier": linear(
        MLPClassifier(hidden_layer_sizes=3, solver="lbfgs", max_iter=2000, random_state=0, alpha=1.0), words
    ),
    "pipeline of a frame": linear(make_pipeline(StandardScaler(), Ridge()), table=frame.drop(columns="site")),
    "RandomForestRegressor": by_default(RandomForestRegressor(10, random_state=0)),
    "RandomForestClassifier": by_default(RandomForestClassifier(10, random_state=0), words),
    "HistGradientBoosting": by_default(HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5)),
    "GradientBoostingClassifier": linear(GradientBoostingClassifier(n_estimators=3, random_state=0), words),
    "LightGBM": lambda: _lightgbm(classes=False),
    "LightGBM, classes": lambda: _lightgbm(classes=True),
    "LightGBM booster": lambda: _booster("lightgbm"),
    "XGBoost": _xgboost,
    "XGBoost booster": lambda: _booster("xgboost"),
    "CatBoost": _catboost,
    "skorch": _skorch,
    "black box": lambda: rue.CalibratedRUE().fit(rue.wrap(Box()), (X, y), refit=False),
    "black box of classes": lambda: rue.ClassifierRUE().fit(rue.wrap(BoxOfClasses()), (X, words), refit=False),
}
LIBRARIES = {"LightGBM": "lightgbm", "XGBoost": "xgboost", "CatBoost": "catboost", "skorch": "skorch"}


def inputs_of(name: str) -> Any:
    """New rows in the form that the model of this name takes."""
    framed = name.startswith("pipeline") or name in ("LightGBM", "LightGBM, classes")
    return frame_new.drop(columns="site") if framed else X_new
