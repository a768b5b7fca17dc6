"""Boosted trees on the eight UCI sets: do audits find errors as well as 50 refits do, and how much sooner?

    python benchmarks/boosted.py FOLDER

FOLDER has the sets as CSV, target last. 90 % of the rows train, at most 2,000; three splits, pooled. The table goes to
docs/models/boosted.csv. A second part trains on 10,740 rows of Naval and takes the time: docs/models/speed.csv.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import xgboost
from scipy.stats import spearmanr
from sklearn import ensemble
from sklearn.base import clone

import rue

SETS = ("housing", "concrete", "energy", "kin8nm", "naval", "power", "wine", "yacht")
SPLITS, REFITS, MOST = 3, 50, 2_000
OUT = Path(__file__).parent.parent / "docs/models"

BOOSTED = {
    "LightGBM": lightgbm.LGBMRegressor(n_estimators=100, num_leaves=15, reg_lambda=1.0, n_jobs=1, verbose=-1),
    "XGBoost": xgboost.XGBRegressor(n_estimators=100, max_depth=4, learning_rate=0.1, n_jobs=1),
    "HistGradientBoosting": ensemble.HistGradientBoostingRegressor(max_iter=100, max_leaf_nodes=15),
}
LARGE = {
    "LightGBM, 100 trees of 15 leaves": BOOSTED["LightGBM"],
    "XGBoost, 100 trees of depth 4": BOOSTED["XGBoost"],
    "HistGradientBoosting, 100 trees of 15 leaves": BOOSTED["HistGradientBoosting"],
    "GradientBoosting, 100 trees of depth 3": ensemble.GradientBoostingRegressor(),
    "CatBoost, 500 trees of depth 6": catboost.CatBoostRegressor(
        n_estimators=500, depth=6, thread_count=1, verbose=0, allow_writing_files=False
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", choices=["errors", "speed", "both"], default="both")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    OUT.mkdir(parents=True, exist_ok=True)
    if chosen.part in ("errors", "both"):
        found = [
            one_set(name, model, chosen.folder / f"{name}.csv", label)
            for label, model in BOOSTED.items()
            for name in SETS
        ]
        pd.DataFrame(found).to_csv(OUT / "boosted.csv", index=False)
    if chosen.part in ("speed", "both"):
        X, y = table(chosen.folder / "naval.csv")
        found = [timed(name, model, X, y) for name, model in LARGE.items()]
        pd.DataFrame(found).to_csv(OUT / "speed.csv", index=False)


def one_set(name: str, estimator: Any, path: Path, label: str) -> dict[str, Any]:
    X, y = table(path)
    scores: dict[str, list[np.ndarray]] = {"refits": [], "LinearRUE": [], "nothing retrained": [], "CalibratedRUE": []}
    errors, ratio, ranks, covered = [], [], [], []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(y))
        n = min(MOST, round(0.9 * len(y)))
        train, test = order[:n], order[n : n + 2000]
        fitted = clone(estimator).fit(X[train], y[train])
        model, data = rue.wrap(fitted), (X[train], y[train])
        spread = refit_std(estimator, X[train], y[train], X[test])
        plain = rue.LinearRUE().fit(model, data).audit(X[test])
        alone, calibrated = (
            rue.CalibratedRUE().fit(model, data, refit=refit).audit(X[test]) for refit in (False, None)
        )
        found = (spread, plain.score, alone.score, calibrated.score)
        for method, score in zip(scores, found, strict=True):
            scores[method].append(score)
        lower, upper, _ = calibrated.interval(0.9)
        covered.append((lower <= y[test]) & (y[test] <= upper))
        errors.append(np.abs(y[test] - fitted.predict(X[test])))
        ratio.append(np.median((plain.std / spread) ** 2))
        ranks.append(spearmanr(plain.std, spread)[0])
    row = {
        "model": label,
        "set": name,
        "training rows": n,
        **{m: round(rue.evaluate.mean_auc(np.concatenate(s), np.concatenate(errors)), 3) for m, s in scores.items()},
        "Spearman with refits": round(float(np.mean(ranks)), 2),
        "variance over refits'": round(float(np.mean(ratio)), 2),
        "coverage of 90 %": round(float(np.concatenate(covered).mean()), 3),
    }
    print(row, flush=True)
    return row


def timed(name: str, estimator: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Seconds of processor time: ten refits, five times over, against one fit of an audit."""
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:10_740], order[10_740:]
    fitted = clone(estimator).fit(X[train], y[train])
    refits = 5 * seconds(lambda: refit_std(estimator, X[train], y[train], X[test], 10))
    model = rue.wrap(fitted)
    linear = seconds(lambda: rue.LinearRUE().fit(model, (X[train], y[train])).audit(X[test]))
    alone = seconds(lambda: rue.CalibratedRUE().fit(model, (X[train], y[train]), refit=False).audit(X[test]))
    calibrated = seconds(lambda: rue.CalibratedRUE().fit(model, (X[train], y[train])).audit(X[test]))
    found = {
        "model": name,
        "training rows": len(train),
        "50 refits": round(refits, 1),
        "LinearRUE": round(linear, 1),
        "nothing retrained": round(alone, 1),
        "CalibratedRUE": round(calibrated, 1),
        "times faster, LinearRUE": round(refits / linear, 1),
        "times faster, CalibratedRUE": round(refits / calibrated, 1),
    }
    print(found, flush=True)
    return found


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def refit_std(estimator: Any, X: np.ndarray, y: np.ndarray, new: np.ndarray, count: int = REFITS) -> np.ndarray:
    predicted = []
    for seed in range(count):
        rows = np.random.default_rng(1000 + seed).integers(len(y), size=len(y))
        predicted.append(clone(estimator).fit(X[rows], y[rows]).predict(new))
    return np.std(predicted, axis=0, ddof=1)


def table(path: Path) -> tuple[np.ndarray, np.ndarray]:
    values = pd.read_csv(path).to_numpy(float)
    return values[:, :-1], (values[:, -1] - values[:, -1].mean()) / values[:, -1].std()


if __name__ == "__main__":
    main()
