"""What the checks of every fit and of every audit cost, on seven models: seconds of CPU with and without them."""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVR
from torch import nn

import rue

ROWS = 1000
FIT_SHARE, FIT_SECONDS, AUDIT_SECONDS = 0.05, 0.020, 0.0005
AT_FIT = (
    "rue.methods.fitting.warnings_at_fit",
    "rue.data.opening.admit_again",
    "rue.models.admission._admit_link",
    "rue.models.torch.module.refuse_unregistered",
    "rue.models.torch.module.refuse_wrong_derivative",
    "rue.data.rows._print",
    "rue.data.opening.admit_labels",
    "rue.methods.fitting.Fitting._fingerprint",
    "rue.data.cells.SeenCells.of",
)
AT_AUDIT = (
    "rue.auditing.auditor.check_answers",
    "rue.auditing.auditor.refuse_another_model",
    "rue.data.cells.SeenCells.strange",
)
NOTHING = {"warnings_at_fit": [], "strange": [], "of": None}


def problem(p: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Rows with a signal, and their targets."""
    source = np.random.default_rng(0)
    X = source.normal(size=(ROWS, p))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * source.normal(size=ROWS)


def network(*layers: nn.Module, steps: int = 200) -> nn.Module:
    """A network trained by AdamW."""
    X, y = (torch.tensor(part, dtype=torch.float32) for part in problem())
    net = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        (net(X)[:, 0] - y).square().mean().backward()
        optimizer.step()
    return net.eval()


def cases() -> dict[str, tuple[Any, Any, Any]]:
    """A wrapped model, its method and its data, by name."""
    from lightgbm import LGBMRegressor

    torch.manual_seed(0)
    X, y = problem()
    labels = (y > 0).astype(int)
    small = network(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
    wide = network(nn.Linear(10, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1))
    mse = {"loss": nn.MSELoss()}
    tensors = (X.astype(np.float32), y.astype(np.float32))
    machine = SVR().fit(X, y)
    boosted = LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1).fit(X, y)
    return {
        "network, 385 parameters, CalibratedRUE": (rue.wrap(small, **mse), rue.CalibratedRUE(), tensors),
        "network, 3,151 parameters, LinearRUE": (rue.wrap(wide, **mse), rue.LinearRUE(), tensors),
        "Ridge, LinearRUE": (rue.wrap(Ridge().fit(X, y)), rue.LinearRUE(), (X, y)),
        "LogisticRegression, ClassifierRUE": (
            rue.wrap(LogisticRegression().fit(X, labels)),
            rue.ClassifierRUE(),
            (X, labels),
        ),
        "random forest, ForestRUE": (
            rue.wrap(RandomForestRegressor(100, random_state=0).fit(X, y)),
            rue.ForestRUE(),
            (X, y),
        ),
        "LightGBM, LinearRUE": (rue.wrap(boosted), rue.LinearRUE(), (X, y)),
        "support vectors, CalibratedRUE": (rue.wrap(machine), rue.CalibratedRUE(), (X, y)),
    }


def seconds(work: Callable[[], Any], without: tuple[str, ...]) -> float:
    """CPU seconds of some work, with some checks replaced by nothing."""
    with ExitStack() as replaced:
        for name in without:
            replaced.enter_context(mock.patch(name, return_value=NOTHING.get(name.rpartition(".")[2], 0)))
        start = time.process_time()
        work()
        return time.process_time() - start


def measured(work: Callable[[], Any], names: tuple[str, ...], repeats: int) -> tuple[float, float]:
    """Median seconds without the checks, and the median of what they add, measured in turn."""
    seconds(work, ())
    pairs = [(seconds(work, names), seconds(work, ())) for _ in range(repeats)]
    return statistics.median(a for a, _ in pairs), statistics.median(b - a for a, b in pairs)


def main() -> None:
    """Measure, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("docs/overhead.json"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = []
    for name, (model, method, data) in cases().items():
        fit, more = measured(lambda m=model, f=method, d=data: f.fit(m, d), AT_FIT, asked.repeats)
        auditor, one = method.fit(model, data), data[0][:1]
        audit, longer = measured(lambda a=auditor, x=one: [a.audit(x) for _ in range(20)], AT_AUDIT, asked.repeats)
        limit = max(FIT_SHARE * fit, FIT_SECONDS)
        rows.append(
            {"model": name, "fit": fit, "checks": more, "limit": limit, "audit": audit / 20, "in_audit": longer / 20}
        )
        print(
            f"{name:42} fit {1e3 * fit:8.1f} ms, checks {1e3 * more:6.1f} ms of {1e3 * limit:6.1f}; "
            f"one row {1e3 * audit / 20:6.2f} ms, checks {1e3 * longer / 20:6.3f}",
            flush=True,
        )
    asked.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
