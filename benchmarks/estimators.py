"""Every estimator we read: is its prediction its own, is the audit finite, and is the spread that of 50 real refits?

    python benchmarks/estimators.py

Simulated rows (400 to train on, 100 audited, 6 features). A refit is the same estimator on rows drawn with replacement.
The table goes to docs/models/estimators.csv; docs/models.md quotes it.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import xgboost
from scipy.stats import spearmanr
from sklearn import ensemble, linear_model, neural_network, svm
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rue

ROWS, AUDITED, REFITS = 400, 100, 50
OUT = Path(__file__).parent.parent / "docs/models/estimators.csv"

linear, boosted = {"tol": 1e-8, "max_iter": 10_000}, {"n_estimators": 60, "learning_rate": 0.1}
ESTIMATORS: dict[str, tuple[str, str, Any]] = {  # name: kind, target, estimator
    "LinearRegression": ("linear", "number", linear_model.LinearRegression()),
    "Ridge": ("linear", "number", linear_model.Ridge(1.0)),
    "Lasso": ("L1", "number", linear_model.Lasso(0.05)),
    "ElasticNet": ("L1", "number", linear_model.ElasticNet(0.05)),
    "HuberRegressor": ("linear", "number", linear_model.HuberRegressor()),
    "SGDRegressor": ("linear", "number", linear_model.SGDRegressor(alpha=1e-3, tol=1e-6, max_iter=5000)),
    "LinearSVR, squared": ("linear", "number", svm.LinearSVR(loss="squared_epsilon_insensitive", C=1.0, **linear)),
    "MLPRegressor": (
        "network",
        "number",
        neural_network.MLPRegressor(hidden_layer_sizes=(8,), alpha=1.0, solver="lbfgs", max_iter=2000),
    ),
    "Pipeline with a log target": (
        "linear",
        "positive",
        make_pipeline(
            StandardScaler(), TransformedTargetRegressor(linear_model.Ridge(), func=np.log, inverse_func=np.exp)
        ),
    ),
    "PoissonRegressor": ("GLM", "count", linear_model.PoissonRegressor(alpha=1e-3, **linear)),
    "GammaRegressor": ("GLM", "positive", linear_model.GammaRegressor(alpha=1e-3, **linear)),
    "TweedieRegressor": ("GLM", "count", linear_model.TweedieRegressor(power=1.5, alpha=1e-3, link="log", **linear)),
    "LogisticRegression": ("GLM", "class", linear_model.LogisticRegression(C=1.0, **linear)),
    "LogisticRegression, balanced": (
        "GLM",
        "class",
        linear_model.LogisticRegression(C=1.0, class_weight="balanced", **linear),
    ),
    "LogisticRegression, L1": (
        "L1",
        "class",
        linear_model.LogisticRegression(C=1.0, l1_ratio=1.0, solver="saga", **linear),
    ),
    "SGDClassifier": ("GLM", "class", linear_model.SGDClassifier("log_loss", alpha=1e-2, tol=1e-6, max_iter=5000)),
    "LinearSVC": ("linear", "class", svm.LinearSVC(C=0.1, **linear)),
    "RidgeClassifier": ("linear", "class", linear_model.RidgeClassifier()),
    "MLPClassifier": (
        "network",
        "class",
        neural_network.MLPClassifier(hidden_layer_sizes=(8,), alpha=1.0, solver="lbfgs", max_iter=2000),
    ),
    "LGBMRegressor": ("boosted", "number", lightgbm.LGBMRegressor(num_leaves=8, n_jobs=1, verbose=-1, **boosted)),
    "LGBMClassifier": ("boosted", "class", lightgbm.LGBMClassifier(num_leaves=8, n_jobs=1, verbose=-1, **boosted)),
    "XGBRegressor": ("boosted", "number", xgboost.XGBRegressor(max_depth=3, n_jobs=1, **boosted)),
    "XGBClassifier": ("boosted", "class", xgboost.XGBClassifier(max_depth=3, n_jobs=1, **boosted)),
    "CatBoostRegressor": (
        "boosted",
        "number",
        catboost.CatBoostRegressor(depth=3, thread_count=1, verbose=0, allow_writing_files=False, **boosted),
    ),
    "CatBoostClassifier": (
        "boosted",
        "class",
        catboost.CatBoostClassifier(depth=3, thread_count=1, verbose=0, allow_writing_files=False, **boosted),
    ),
    "GradientBoostingRegressor": ("boosted", "number", ensemble.GradientBoostingRegressor(**boosted)),
    "GradientBoostingClassifier": ("boosted", "class", ensemble.GradientBoostingClassifier(**boosted)),
    "HistGradientBoostingRegressor": (
        "boosted",
        "number",
        ensemble.HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=8),
    ),
    "HistGradientBoostingClassifier": (
        "boosted",
        "class",
        ensemble.HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8),
    ),
    "RandomForestRegressor": ("forest", "number", ensemble.RandomForestRegressor(100, random_state=0)),
    "RandomForestClassifier": ("forest", "class", ensemble.RandomForestClassifier(100, random_state=0)),
    "ExtraTreesRegressor": (
        "forest",
        "number",
        ensemble.ExtraTreesRegressor(100, bootstrap=True, random_state=0),
    ),
    "ExtraTreesClassifier": (
        "forest",
        "class",
        ensemble.ExtraTreesClassifier(100, bootstrap=True, random_state=0),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only")
    only = parser.parse_args().only
    warnings.simplefilter("ignore")
    found = []
    for name, (kind, target, estimator) in ESTIMATORS.items():
        if only and only not in name:
            continue
        row = {"estimator": name, "kind": kind, **compared(estimator, kind, target)}
        print(row, flush=True)
        found.append(row)
    if not only:
        OUT.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(found).to_csv(OUT, index=False)


def compared(estimator: Any, kind: str, target: str) -> dict[str, Any]:
    X, y = simulated(target)
    train, new = slice(0, ROWS), slice(ROWS, None)
    fitted = clone(estimator).fit(X[train], y[train])
    model = rue.wrap(fitted)
    method = rue.ForestRUE() if kind == "forest" else rue.LinearRUE()
    audit = method.fit(model, (X[train], y[train])).audit(X[new])
    default = rue.audit(fitted, train=(X[train], y[train]), inputs=X[new])
    own = fitted.predict(X[new])
    refits = np.stack([outputs(refit(estimator, X[train], y[train], seed), X[new]) for seed in range(REFITS)])
    std = audit.std if np.ndim(audit.std) == 1 else audit.std[:, -1]
    spread = refits.std(axis=0, ddof=1)
    return {
        "prediction is its own": bool(np.array_equal(np.ravel(default.prediction), np.ravel(own))),
        "finite": bool(np.isfinite(default.score).all() and np.isfinite(std).all()),
        "Spearman": round(float(spearmanr(std, spread)[0]), 3),
        "median ratio of std": round(float(np.median(std / spread)), 3),
        "default method": default.method,
    }


def refit(estimator: Any, X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    rows = np.random.default_rng(seed).integers(len(y), size=len(y))
    return clone(estimator).fit(X[rows], y[rows])


def outputs(fitted: Any, X: np.ndarray) -> np.ndarray:
    """What std is of: the prediction; a classifier's log odds, or a forest's share of the second class."""
    if hasattr(fitted, "decision_function"):
        return fitted.decision_function(X)
    if not hasattr(fitted, "predict_proba"):
        return fitted.predict(X)
    share = fitted.predict_proba(X)[:, 1]
    return share if isinstance(fitted, ensemble.BaseEnsemble) else np.log(share / (1 - share))


def simulated(target: str) -> tuple[np.ndarray, np.ndarray]:
    """A smooth mean of six features, and noise that grows with one of them."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS + AUDITED, 6))
    mean = X[:, 0] - 0.5 * X[:, 1] + 0.5 * np.sin(2 * X[:, 2]) + 0.3 * X[:, 3] * X[:, 4]
    noise = generator.normal(size=len(X)) * np.exp(0.4 * X[:, 5])
    if target == "class":
        return X, (mean + noise > 0).astype(int)
    if target == "count":
        return X, generator.poisson(np.exp(0.4 * mean)).astype(float)
    return X, mean + 0.5 * noise if target == "number" else np.exp(0.4 * mean + 0.3 * noise)


if __name__ == "__main__":
    main()
