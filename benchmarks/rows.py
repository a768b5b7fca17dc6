"""Tables with many rows: seconds, memory and quality of audits as rows grow, on this machine.

`python benchmarks/rows.py growth|trees|workers|sample [--rows N ...]` measures and replaces lines of `docs/rows/*.csv`;
`python benchmarks/rows.py plot` draws `docs/rows/growth.png`. Every measurement of memory is a process of its own.
Data are simulated: 20 columns, a smooth mean, noise that grows with one column.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy.stats import norm
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

import rue

FOLDER = Path(__file__).parent.parent / "docs" / "rows"
NEW = 2_000  # rows audited
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTHS = {1_000: 45, 5_000: 227}  # hidden units for about so many parameters
METHODS = {"LinearRUE": rue.LinearRUE, "default": rue.CalibratedRUE}


def simulated(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of 20 columns in float32."""
    source = np.random.default_rng(seed)
    X = source.normal(size=(n, 20)).astype(np.float32)
    mean = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    y = mean + 0.3 * (1 + np.abs(X[:, 4])) * source.normal(size=n)
    return torch.from_numpy(X).to(DEVICE), torch.from_numpy(y.astype(np.float32)).to(DEVICE)


def trained(X: Tensor, y: Tensor, width: int) -> nn.Module:
    """One hidden layer, AdamW for 40 epochs or 3,000 steps."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, 1)).to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for _ in range(min(3_000, 40 * len(X) // 64)):
        rows = torch.randint(0, len(X), (64,), device=DEVICE)
        optimizer.zero_grad()
        nn.functional.mse_loss(net(X[rows])[:, 0], y[rows]).backward()
        optimizer.step()
    return net


def peak() -> float:
    """GiB in use at most so far."""
    if DEVICE == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def one_size(n: int, method: str, parameters: int) -> dict[str, Any]:
    """One fit and one audit, in this process."""
    X, y = simulated(n + NEW)
    net = trained(X[:n], y[:n], WIDTHS[parameters])
    model = rue.wrap(net, loss=nn.MSELoss(), **({"l2": 1.0} if method == "LinearRUE" else {}))
    METHODS[method]().fit(model, (X[:300], y[:300])).audit(X[:5])  # what is loaded once
    before, start, processor = peak(), time.perf_counter(), time.process_time()
    auditor = METHODS[method]().fit(model, (X[:n], y[:n]))
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    fit, processor = time.perf_counter() - start, time.process_time() - processor
    start = time.perf_counter()
    auditor.audit(X[n:])
    return {
        "rows": n,
        "method": method,
        "parameters": sum(each.numel() for each in net.parameters()),
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else f"{torch.get_num_threads()} threads",
        "fit_s": round(fit, 2),
        "fit_processor_s": round(processor, 2),
        "audited_rows_per_s": round(NEW / (time.perf_counter() - start)),
        "more_gib": round(peak() - before, 3),
    }


def growth(rows: list[int]) -> list[dict[str, Any]]:
    """Every size, method and width in a process of its own."""
    found = []
    for parameters in WIDTHS if DEVICE == "cuda" else [1_000]:
        for method in METHODS:
            for n in rows or [1_000, 10_000, 100_000, 1_000_000]:
                command = [sys.executable, __file__, "one", str(n), method, str(parameters)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found.append(json.loads(done.stdout.splitlines()[-1]))
                print(found[-1], flush=True)
    return found


def boosters() -> dict[str, Callable[[bool], Any]]:
    """A regressor or a classifier of every library, 100 rounds on one thread."""
    from catboost import CatBoostClassifier, CatBoostRegressor
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from xgboost import XGBClassifier, XGBRegressor

    def of(pair: tuple[type, type], **settings: Any) -> Callable[[bool], Any]:
        return lambda classes: pair[classes](**settings)

    return {
        "LightGBM": of((LGBMRegressor, LGBMClassifier), n_jobs=1, verbose=-1),
        "XGBoost": of((XGBRegressor, XGBClassifier), n_estimators=100, n_jobs=1),
        "HistGradientBoosting": of((HistGradientBoostingRegressor, HistGradientBoostingClassifier)),
        "CatBoost": of(
            (CatBoostRegressor, CatBoostClassifier),
            iterations=100,
            verbose=0,
            thread_count=1,
            allow_writing_files=False,
        ),
    }


def trees(rows: list[int]) -> list[dict[str, Any]]:
    """Processor seconds of a training and of the default audit's fit, on one thread."""
    torch.set_num_threads(1)
    found = []
    for n in rows or [10_000, 100_000]:
        X, y = (each.cpu().numpy() for each in simulated(n + NEW))
        for name, make in boosters().items():
            for classes in (False, True):
                targets = np.digitize(y, [-0.7, 0.7]) if classes else y
                make(classes).fit(X[:500], targets[:500])
                training, model = processor_seconds(lambda: make(classes).fit(X[:n], targets[:n]))  # noqa: B023
                method = rue.ClassifierRUE() if classes else rue.CalibratedRUE()
                fit, auditor = processor_seconds(lambda: method.fit(rue.wrap(model), (X[:n], targets[:n])))  # noqa: B023
                audit, _ = processor_seconds(lambda: auditor.audit(X[n:]))  # noqa: B023
                found.append(
                    {
                        "rows": n,
                        "model": name,
                        "task": "3 classes" if classes else "numbers",
                        "training_s": round(training, 2),
                        "fit_s": round(fit, 2),
                        "beyond_12_trainings_s": round(fit - 12 * training, 2),
                        "trainings": auditor.facts.get("trainings", 0),
                        "audited_rows_per_s": round(NEW / audit),
                    }
                )
                print(found[-1], flush=True)
    return found


def processor_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def workers(rows: list[int]) -> list[dict[str, Any]]:
    """Wall-clock seconds of a fit by one and by two processes of torchrun, one thread each, and whether bits agree."""
    found = []
    for n in rows or [1_000_000]:
        seconds, bits = [], []
        for count in (1, 2):
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                [*torchrun, __file__, "shared", str(n)], env=environment, capture_output=True, text=True, check=True
            )
            line = json.loads(next(each for each in done.stdout.splitlines() if each.startswith("{")))
            seconds.append(line["fit_s"])
            bits.append(line["bits"])
        found.append(
            {
                "rows": n,
                "one_s": round(seconds[0], 1),
                "two_s": round(seconds[1], 1),
                "ratio": round(seconds[1] / seconds[0], 3),
                "same_bits": bits[0] == bits[1],
            }
        )
        print(found[-1], flush=True)
    return found


def shared(n: int) -> None:
    """One process of torchrun."""
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    X, y = simulated(n + NEW)
    net = trained(X[:n], y[:n], WIDTHS[1_000])
    model = rue.wrap(net, loss=nn.MSELoss())
    rue.CalibratedRUE().fit(model, (X[:300], y[:300]))
    dist.barrier()
    start = time.perf_counter()
    with rue.workers() if dist.get_world_size() > 1 else nullcontext():
        auditor = rue.CalibratedRUE().fit(model, (X[:n], y[:n]))
    fit = time.perf_counter() - start
    audit = auditor.audit(X[n:])
    if dist.get_rank() == 0:
        print(json.dumps({"fit_s": fit, "bits": [audit.score.tobytes().hex(), audit.std.tobytes().hex()]}))
    dist.destroy_process_group()


def sample(rows: list[int]) -> list[dict[str, Any]]:
    """Quality of the default audit by the number of rows that are left out, on 20,000 new rows."""
    (n,) = rows or [100_000]
    X, y = simulated(n + 20_000)
    model = rue.wrap(trained(X[:n], y[:n], WIDTHS[1_000]), loss=nn.MSELoss())
    found = []
    for most in (2_500, 5_000, 10_000, 20_000, 40_000):
        with mock.patch("rue.data.rows.SAMPLE", most):
            seconds, auditor = processor_seconds(lambda: rue.CalibratedRUE().fit(model, (X[:n], y[:n])))
        audit, target = auditor.audit(X[n:]), y[n:].numpy()
        missed = np.abs(audit.prediction - target)
        interval = audit.interval(0.9)
        found.append(
            {
                "rows": n,
                "left_out": most,
                "fit_processor_s": round(seconds, 1),
                "auc": round(roc_auc_score(missed > np.quantile(missed, 0.8), audit.score), 4),
                "nll": round(float(-norm.logpdf(target, audit.prediction, audit.total_std).mean()), 4),
                "coverage": round(float(((interval.lower <= target) & (target <= interval.upper)).mean()), 4),
            }
        )
        print(found[-1], flush=True)
    return found


def plot() -> None:
    """Seconds and memory against rows, on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    lines = list(csv.DictReader((FOLDER / "growth.csv").open()))
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
    for column, axis, label in (("fit_s", axes[0], "seconds of a fit"), ("more_gib", axes[1], "GiB beyond inputs")):
        for method, marker in zip(METHODS, "os", strict=True):
            for device in sorted({line["device"] for line in lines}):
                for parameters in sorted({line["parameters"] for line in lines}):
                    own = [
                        line
                        for line in lines
                        if (line["method"], line["device"], line["parameters"]) == (method, device, parameters)
                    ]
                    if own:
                        x, values = [int(line["rows"]) for line in own], [float(line[column]) for line in own]
                        axis.plot(x, values, marker=marker, label=f"{method}, {device}, {int(parameters):,} parameters")
        axis.set(xscale="log", xlabel="training rows", ylabel=label)
        axis.grid(alpha=0.3)
    axes[0].set_yscale("log")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    figure.savefig(FOLDER / "growth.png", dpi=150)


def write(name: str, lines: list[dict[str, Any]], keys: tuple[str, ...]) -> None:
    """Replace the lines of a table that have the same keys, and add the others."""
    page = FOLDER / f"{name}.csv"
    page.parent.mkdir(exist_ok=True)
    known = list(csv.DictReader(page.open())) if page.exists() else []
    new = {tuple(str(line[key]) for key in keys) for line in lines}
    kept = [line for line in known if tuple(line[key] for key in keys) not in new]
    with page.open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        table.writeheader()
        table.writerows([*kept, *lines])


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("growth", "trees", "workers", "sample", "plot", "one", "shared"))
    parser.add_argument("words", nargs="*")
    parser.add_argument("--rows", type=int, nargs="*", default=[])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.what == "one":
        print(json.dumps(one_size(int(asked.words[0]), asked.words[1], int(asked.words[2]))))
    elif asked.what == "shared":
        shared(int(asked.words[0]))
    elif asked.what == "plot":
        plot()
    else:
        measure, keys = {
            "growth": (growth, ("rows", "method", "parameters", "device")),
            "trees": (trees, ("rows", "model", "task")),
            "workers": (workers, ("rows",)),
            "sample": (sample, ("rows", "left_out")),
        }[asked.what]
        write(asked.what, measure(asked.rows), keys)


if __name__ == "__main__":
    main()
