"""How long `auditor.audit` takes on a CPU: one row at a time, and a thousand rows at once.

    python benchmarks/latency.py [--calls 1000] [--case NAME ...] [--out docs/rows/latency.csv]

Networks trained with AdamW and no stated penalty, linear models, and boosters of a hundred trees, each on 2,000 rows of
20 columns. Times are wall clock; the model's own prediction, by its own library and its default threads, is timed
beside the audit of the same row.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("RUE_PROGRESS", "0")

import numpy as np
import pandas as pd
import torch
from torch import nn

import rue

ROWS, COLUMNS, CLASSES, TREES = 2_000, 20, 3, 100
BATCH = 1_000  # rows that are audited at once
REPEATS = 15  # of the audit of a whole batch, of which the fastest counts
PATIENCE = 20.0  # seconds after which no further call of a kind is made
WARM = 20  # calls before the clock starts
OUT = Path(__file__).parents[1] / "docs" / "rows" / "latency.csv"
WIDTHS = {"network of 1,000": (45,), "network of 10,000": (90, 85)}


class Case(NamedTuple):
    """A fitted auditor, and the model's own prediction."""

    auditor: rue.Auditor
    predict: Callable[[np.ndarray], Any]
    inputs: np.ndarray


def rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (n, 20), noisy numbers (n,) and classes (n,)."""
    drawn = np.random.default_rng(seed)
    X = drawn.normal(size=(ROWS + BATCH, COLUMNS)).astype(np.float32)
    smooth = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3:8].sum(1)
    y = (smooth + 0.5 * drawn.normal(size=len(X))).astype(np.float32)
    return X, y, np.digitize(y, np.quantile(y, (1 / 3, 2 / 3)))


def network(widths: tuple[int, ...], outputs: int) -> nn.Module:
    """Layers with tanh between them."""
    sizes = (COLUMNS, *widths)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def trained(net: nn.Module, X: torch.Tensor, y: torch.Tensor, loss: nn.Module, epochs: int = 60) -> nn.Module:
    """Train with AdamW, in batches of 64."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for _ in range(epochs):
        for part in torch.randperm(len(X)).split(64):
            optimizer.zero_grad()
            loss(net(X[part]), y[part]).backward()
            optimizer.step()
    return net.eval()


def of_network(name: str, classes: bool) -> Case:
    """A network that was trained without a stated penalty."""
    torch.manual_seed(0)
    X, y, labels = rows(0)
    targets = torch.from_numpy(labels if classes else y[:, None])
    inputs = torch.from_numpy(X)
    loss = nn.CrossEntropyLoss() if classes else nn.MSELoss()
    net = trained(network(WIDTHS[name], CLASSES if classes else 1), inputs[:ROWS], targets[:ROWS], loss)
    method = rue.ClassifierRUE() if classes else rue.CalibratedRUE()
    wrapped = rue.wrap(net, loss="cross_entropy" if classes else "squared_error", reduction="mean")
    auditor = method.fit(wrapped, (inputs[:ROWS], targets[:ROWS]))

    def predict(part: np.ndarray) -> torch.Tensor:
        with torch.inference_mode():
            return net(torch.from_numpy(part))

    return Case(auditor, predict, X[ROWS:])


def of_estimator(make: Callable[[], Any], classes: bool) -> Case:
    """An estimator of another library."""
    X, y, labels = rows(0)
    targets = labels if classes else y
    estimator = make().fit(X[:ROWS], targets[:ROWS])
    method = rue.ClassifierRUE() if classes else rue.CalibratedRUE()
    auditor = method.fit(rue.wrap(estimator), (X[:ROWS], targets[:ROWS]))
    return Case(auditor, estimator.predict_proba if classes else estimator.predict, X[ROWS:])


def linear(classes: bool) -> Any:
    """Ridge or logistic regression."""
    from sklearn.linear_model import LogisticRegression, Ridge

    return LogisticRegression() if classes else Ridge()


def lightgbm(classes: bool) -> Any:
    """LightGBM."""
    import lightgbm

    return (lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor)(n_estimators=TREES, verbose=-1)


def xgboost(classes: bool) -> Any:
    """XGBoost."""
    import xgboost

    return (xgboost.XGBClassifier if classes else xgboost.XGBRegressor)(n_estimators=TREES)


def histograms(classes: bool) -> Any:
    """scikit-learn's own boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(max_iter=TREES, early_stopping=False)


def catboost(classes: bool) -> Any:
    """CatBoost."""
    import catboost

    kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    return kind(iterations=TREES, verbose=0, allow_writing_files=False)


MAKERS = {"linear": linear, "LightGBM": lightgbm, "XGBoost": xgboost, "HistGradient": histograms, "CatBoost": catboost}
CASES: dict[str, Callable[[], Case]] = {
    **{
        f"{name}, {kind}": partial(of_network, name, kind == "classes")
        for name in WIDTHS
        for kind in ("numbers", "classes")
    },
    **{
        f"{name}, {kind}": partial(of_estimator, partial(make, kind == "classes"), kind == "classes")
        for name, make in MAKERS.items()
        for kind in ("numbers", "classes")
    },
}


def seconds(call: Callable[[np.ndarray], Any], inputs: np.ndarray, calls: int) -> np.ndarray:
    """Wall-clock seconds (calls,) for one row at a time."""
    single = [inputs[i % BATCH][None] for i in range(max(calls, WARM))]
    for row in single[:WARM]:
        call(row)
    taken: list[float] = []
    while len(taken) < calls and sum(taken) < PATIENCE:
        start = time.perf_counter()
        call(single[len(taken)])
        taken.append(time.perf_counter() - start)
    return np.array(taken)


def rate(call: Callable[[np.ndarray], Any], inputs: np.ndarray) -> float:
    """Rows per second for a whole batch: the best of several calls."""
    call(inputs)
    taken: list[float] = []
    while len(taken) < REPEATS and sum(taken) < PATIENCE:
        start = time.perf_counter()
        call(inputs)
        taken.append(time.perf_counter() - start)
    return len(inputs) / min(taken)


def measured(name: str, calls: int) -> dict[str, Any]:
    """The row of the table for one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = CASES[name]()
        own, audit = (seconds(call, case.inputs, calls) * 1e3 for call in (case.predict, case.auditor.audit))
        return {
            "case": name,
            "own_p50_ms": np.median(own),
            "own_p99_ms": np.quantile(own, 0.99),
            "audit_p50_ms": np.median(audit),
            "audit_p99_ms": np.quantile(audit, 0.99),
            "calls": len(audit),
            "beyond_p50_ms": np.median(audit) - np.median(own),
            "own_rows_per_s": rate(case.predict, case.inputs),
            "audit_rows_per_s": rate(case.auditor.audit, case.inputs),
            "source": case.auditor.facts.get("left_out"),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--case", nargs="*", default=list(CASES), help="beginnings of names")
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    names = [name for name in CASES if any(name.startswith(start) for start in chosen.case)]
    table = []
    for name in names:
        table.append(measured(name, chosen.calls))
        print(pd.DataFrame(table[-1:]).round(3).to_string(index=False), flush=True)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(table).round(3).to_csv(chosen.out, index=False)


if __name__ == "__main__":
    main()
