"""Stored audits: their size and the seconds to write and read them, beside the model's own file and the fit.

`python benchmarks/storage.py` replaces `docs/models/storage.csv`. Data are simulated.
"""

import csv
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from rows import simulated, trained
from torch import nn

import rue

PAGE = Path(__file__).parent.parent / "docs" / "models" / "storage.csv"
COLUMNS = ("model", "rows", "method", "model_kib", "audit_kib", "fit_s", "save_s", "load_s")
NEW = 200


def network(n: int, width: int) -> tuple[Any, rue.Model, Any, Any]:
    """A trained network of so many hidden units."""
    X, y = simulated(n + NEW)
    module = trained(X[:n], y[:n], width)
    return module, rue.wrap(module, loss=nn.MSELoss()), X, y


def estimator(n: int, make: Callable[[], Any]) -> tuple[Any, rue.Model, Any, Any]:
    """A fitted estimator."""
    X, y = (each.numpy() for each in simulated(n + NEW))
    fitted = make().fit(X[:n], y[:n])
    return fitted, rue.wrap(fitted), X, y


def boosted() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(verbose=-1, n_jobs=1)


def line() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge()


CASES: dict[str, tuple[int, Callable[[int], tuple[Any, rue.Model, Any, Any]]]] = {
    "network, 991 parameters": (2_000, lambda n: network(n, 45)),
    "network, 991 parameters, many rows": (50_000, lambda n: network(n, 45)),
    "network, 22,001 parameters": (2_000, lambda n: network(n, 1_000)),
    "LightGBM, 100 trees": (2_000, lambda n: estimator(n, boosted)),
    "Ridge": (2_000, lambda n: estimator(n, line)),
}


def measured(name: str, folder: Path) -> dict[str, Any]:
    """One model: its file, and that of its default audit."""
    n, make = CASES[name]
    fitted, model, X, y = make(n)
    own = folder / "model"
    torch.save(fitted.state_dict(), own) if isinstance(fitted, nn.Module) else joblib.dump(fitted, own)
    fit, auditor = timed(lambda: rue.CalibratedRUE().fit(model, (X[:n], y[:n])))
    save, _ = timed(lambda: auditor.save(folder / "a.rue"))
    load, again = timed(lambda: rue.load(folder / "a.rue", model))
    np.testing.assert_array_equal(again.audit(X[n:]).score, auditor.audit(X[n:]).score)
    return {
        "model": name,
        "rows": n,
        "method": auditor.method,
        "model_kib": round(own.stat().st_size / 1024),
        "audit_kib": round((folder / "a.rue").stat().st_size / 1024),
        "fit_s": round(fit, 2),
        "save_s": round(save, 3),
        "load_s": round(load, 3),
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main() -> None:
    """Measure every case."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, PAGE.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        for name in CASES:
            row = measured(name, Path(folder))
            print(row, flush=True)
            table.writerow(row)


if __name__ == "__main__":
    main()
