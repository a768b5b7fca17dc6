"""Other libraries on the networks of `benchmarks/scale.py`: what a fit and an audit cost, as shares of an epoch.

`python benchmarks/rivals.py CASE ... [--rivals NAME ...] [--rows N] [--out FILE]`, on a GPU where there is one. A
rival is run once on a small network, untimed, and then on some of the rows of a case. Its seconds are extrapolated to
all rows: what does not grow with them is counted once, the rest in proportion. A rival that fails, or takes longer
than `--limit`, is a line that says so. What `rue` itself takes is measured by `benchmarks/scale.py`.
"""

import argparse
import copy
import gc
import json
import platform
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rival_libraries import RIVALS
from scale import CASES, DEVICE, Case, Decoder, epoch_seconds, small_convolutions, timed
from torch import Tensor, nn

PACKAGES = {"laplace": "laplace-torch", "kronfluence": "kronfluence", "dattri": "dattri"}
FEW = 16  # rows of a first, small audit


class Timing(NamedTuple):
    """Seconds that so many rows took."""

    rows: int
    seconds: float


class Prepared(NamedTuple):
    """A network after a few steps of training, its rows, and the seconds of an epoch of them."""

    network: nn.Module
    X: Tensor
    y: Tensor
    epoch: float


def prepared(case: Case, rows: int) -> Prepared:
    """The network in evaluation mode, and what an epoch of all rows of the case would take."""
    torch.manual_seed(0)
    network = case.network().to(DEVICE)
    X, y = case.rows(rows)
    epoch = epoch_seconds(network, X, y, case.batch) * case.count / rows
    return Prepared(network.eval(), X, y, epoch)


def warm_up(name: str, X: Tensor, y: Tensor) -> None:
    """Fit and audit a small network on the same kind of rows, so that libraries are loaded before anything is timed."""
    network = small_convolutions() if X.is_floating_point() else Decoder(width=48, layers=1)
    fitted = RIVALS[name].fit(network.to(DEVICE).eval(), X[:64], y[:64] % 2, 32)
    fitted.audit(X[:FEW])


def measured(case: Case, name: str, work: Prepared, audit_s: float) -> dict[str, Any]:
    """Costs of one rival on a case, from the rows at hand."""
    warm_up(name, work.X, work.y)
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    fitted = RIVALS[name].fit(copy.deepcopy(work.network), work.X, work.y, case.batch)
    few, many = _audits(fitted.audit, work.X, audit_s)
    grown = case.count / len(work.X)
    fit = fitted.fixed + (fitted.seconds - fitted.fixed) * grown
    return {
        "parameters": fitted.parameters,
        "fit_s": fitted.seconds,
        "fixed_s": fitted.fixed,
        "audit_rows": many.rows,
        "audit_s": many.seconds,
        "few_audited_s": few.seconds,
        "extrapolated": grown > 1,
        "fit_epochs": fit / work.epoch,
        "audit_epochs": read_off(case.count, few, many) / work.epoch,
        "memory_gib": torch.cuda.max_memory_allocated() / 2**30 if DEVICE == "cuda" else None,
    }


def read_off(rows: int, few: Timing, many: Timing) -> float:
    """Seconds at so many rows, on the line through two timings; neither its start nor its slope is below zero."""
    slope = max(many.seconds - few.seconds, 0) / (many.rows - few.rows)
    start = many.seconds - slope * many.rows
    return start + slope * rows if start > 0 else many.seconds * rows / many.rows


def _audits(audit: Callable[[Tensor], Any], X: Tensor, seconds: float) -> tuple[Timing, Timing]:
    """A few rows, after a warm-up, and four times as many until they take so much longer or there are no more."""
    audit(X[:FEW])
    few = many = Timing(FEW, timed(lambda: audit(X[:FEW]))[0])
    while many.rows < len(X) and (many is few or many.seconds - few.seconds < seconds):
        rows = X[: 4 * many.rows]
        many = Timing(len(rows), timed(lambda rows=rows: audit(rows))[0])
    return few, many


def line(case: str, name: str, work: Prepared, limit: int, audit_s: float) -> dict[str, Any]:
    """What was measured or what went wrong, with where it ran."""
    try:
        with at_most(limit):
            found = measured(CASES[case], name, work, audit_s)
    except Exception as error:  # whatever a library raises is a result
        found = {"error": first_sentence(error)}
    gc.collect()  # libraries hook modules in circles
    return {
        "case": case,
        "rival": name,
        "computes": RIVALS[name].computes,
        "version": _version(name.split("-")[0]),
        "rows": CASES[case].count,
        "fit_rows": len(work.X),
        "epoch_s": work.epoch,
        **found,
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else platform.machine(),
        "torch": torch.__version__,
    }


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in what takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"not finished in {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def first_sentence(error: Exception) -> str:
    """The kind of an error and how its message begins."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {re.split(r'(?<=[.!?]) ', text)[0][:200]}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(PACKAGES[package])
    except metadata.PackageNotFoundError:
        return None


def main() -> None:
    """Measure the cases and rivals that are named, and write one line of JSON for each pair."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--limit", type=int, default=60, help="seconds of a rival on a case")
    parser.add_argument("--audit", type=float, default=1.0, help="seconds of audited rows")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for case in asked.cases:
        work = prepared(CASES[case], min(asked.rows, CASES[case].count))
        for name in asked.rivals:
            text = json.dumps(line(case, name, work, asked.limit, asked.audit))
            print(text, flush=True)
            if asked.out is not None:
                with asked.out.open("a") as file:
                    file.write(text + "\n")


if __name__ == "__main__":
    main()
