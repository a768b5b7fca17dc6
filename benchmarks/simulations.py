"""Intervals where the truth is known: how often each single input is covered, over new targets drawn there.

    python benchmarks/simulations.py run     models of every kind on six made-up worlds; goes on where it stopped
    python benchmarks/simulations.py page    the table of docs/practice.md from docs/practice/simulations.csv

A world is a function, a noise that may depend on the inputs, and where new inputs lie. The coverage of an interval at x
is the probability of a new target there to fall inside, from the noise's own distribution. Of 500 new inputs, the mean
and the tenth percentile are kept: an interval that is right on average may still miss a tenth of the inputs.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from practice_parts.page import PAGE, with_table
from practice_parts.recipes import RECIPES
from scipy.stats import norm, t

import rue

RESULTS = Path(__file__).parents[1] / "docs" / "practice" / "simulations.csv"
ROWS, NEW, COLUMNS, SEEDS, LEVEL = 500, 500, 6, 3, 0.9
DEGREES = 3  # of the heavy tails
WIDE = 0.75  # what the tenth percentile should reach
MODELS = (
    *("LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting", "random forest", "linear", "neighbours"),
    *("support vectors", "stacking", "stopped, one layer", "penalised"),
)
Function = Callable[[np.ndarray], np.ndarray]


def friedman1(X: np.ndarray) -> np.ndarray:
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def friedman2(X: np.ndarray) -> np.ndarray:
    a, inner = _circuit(X)
    return np.hypot(a, inner)


def friedman3(X: np.ndarray) -> np.ndarray:
    a, inner = _circuit(X)
    return np.arctan(inner / np.maximum(a, 1e-3))


def _circuit(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The resistance and reactance of Friedman's second and third functions (1991)."""
    a, b, c, d = 100 * X[:, 0], np.pi * (40 + 520 * X[:, 1]), X[:, 2], 1 + 10 * X[:, 3]
    return a, b * c - 1 / (b * d)


def even(X: np.ndarray) -> np.ndarray:
    return np.ones(len(X))


def growing(X: np.ndarray) -> np.ndarray:
    return 0.25 + 1.5 * X[:, 3]


@dataclass(frozen=True)
class World:
    truth: Function
    noise: Function = even  # times a fifth of the function's own spread
    heavy: bool = False
    corner: float = 1.0  # new inputs are uniform ones to this power

    def spread(self, X: np.ndarray) -> np.ndarray:
        """The noise's standard deviation (m,)."""
        usual = self.truth(np.random.default_rng(0).random((10_000, COLUMNS))).std()
        return 0.2 * usual * self.noise(X)

    def draw(self, X: np.ndarray, source: np.random.Generator) -> np.ndarray:
        """Targets (n,)."""
        drawn = source.standard_t(DEGREES, len(X)) / t(DEGREES).std() if self.heavy else source.normal(size=len(X))
        return self.truth(X) + self.spread(X) * drawn

    def coverage(self, X: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Of intervals at each input (m,)."""
        law: Any = t(DEGREES, scale=1 / t(DEGREES).std()) if self.heavy else norm()
        middle, spread = self.truth(X), self.spread(X)
        return law.cdf((upper - middle) / spread) - law.cdf((lower - middle) / spread)


WORLDS = {
    "Friedman 1": World(friedman1),
    "Friedman 2": World(friedman2),
    "Friedman 3": World(friedman3),
    "uneven noise": World(friedman1, growing),
    "heavy tails": World(friedman1, heavy=True),
    "shifted inputs": World(friedman1, corner=0.4),
}


def measured(world: str, model: str, refits: bool, seed: int) -> dict[str, Any]:
    os.environ["RUE_PROGRESS"] = "0"
    torch.set_num_threads(1)
    source, made = np.random.default_rng(seed), WORLDS[world]
    X, X_new = source.random((ROWS, COLUMNS)), source.random((NEW, COLUMNS)) ** made.corner
    y = made.draw(X, source)
    middle, scale = y.mean(), y.std()
    rows = [torch.tensor(part, dtype=torch.float32) for part in (2 * X - 1, (y - middle) / scale, 2 * X_new - 1)]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interval = _audit(model, refits, seed, *rows).interval(LEVEL)
    seconds = time.process_time() - start
    lower, upper = (middle + scale * np.asarray(end, float) for end in (interval.lower, interval.upper))
    found = made.coverage(X_new, lower, upper)
    return {
        "world": world,
        "model": model,
        "refits": refits,
        "seed": seed,
        "coverage": found.mean(),
        "tenth": np.quantile(found, 0.1),
        "width": np.mean(upper - lower) / scale,
        "seconds": seconds,
    }


def _audit(model: str, refits: bool, seed: int, X: torch.Tensor, y: torch.Tensor, X_new: torch.Tensor) -> rue.Audit:
    trained = RECIPES[model].train(X, y, None, seed)
    if not isinstance(trained.net, torch.nn.Module):
        stated = {} if refits else {"refit": False}
        return rue.audit(trained.net, train=(X.numpy(), y.numpy()), inputs=X_new.numpy(), **stated)
    X, y = X[trained.fit_rows], y[trained.fit_rows]
    again = {"refit": partial(_again, model, X, y)} if refits else {}
    return rue.audit(trained.net, train=(X, y), inputs=X_new, loss="squared_error", **again)


def _again(model: str, X: torch.Tensor, y: torch.Tensor, rows: np.ndarray) -> torch.nn.Module:
    return RECIPES[model].train(X[rows], y[rows], None, int(rows.sum()) % 10_000).net


def run(jobs: int, models: tuple[str, ...]) -> None:
    """Every world, model and seed that the results lack."""
    known = pd.read_csv(RESULTS) if RESULTS.exists() else pd.DataFrame(columns=["world", "model", "refits", "seed"])
    done = set(known[["world", "model", "refits", "seed"]].itertuples(index=False, name=None))
    wanted = [
        (world, model, refits, seed)
        for model in models
        for refits in (False, True)
        for world in WORLDS
        for seed in range(SEEDS)
        if (world, model, refits, seed) not in done
    ]
    made = Parallel(n_jobs=jobs, return_as="generator")(delayed(measured)(*one) for one in wanted)
    found = []
    for count, one in enumerate(made, 1):
        found.append(one)
        print(f"{count}/{len(wanted)} {one['model']}, {one['world']}: {one['tenth']:.2f}", flush=True)
        if count % 18 == 0 or count == len(wanted):
            whole = pd.concat([known, pd.DataFrame(found)]) if len(known) else pd.DataFrame(found)
            whole.to_csv(RESULTS, index=False, float_format="%.4g")


def markdown(results: pd.DataFrame) -> str:
    """Mean coverage and tenth percentile over inputs, means over the seeds."""
    means = results.groupby(["model", "refits", "world"])[["coverage", "tenth"]].mean()
    lines = ["| model | " + " | ".join(WORLDS) + " |", "|---|" + "---:|" * len(WORLDS)]
    for model in MODELS:
        for refits in (False, True):
            if (model, refits) not in means.index.droplevel("world"):
                continue
            cells = [means.loc[(model, refits, world)] for world in WORLDS]
            name = f"{model}{', refits' if refits else ''}"
            lines.append(f"| {name} | " + " | ".join(f"{c['coverage']:.2f} ({c['tenth']:.2f})" for c in cells) + " |")
    return "\n".join(lines) + "\n"


def renewed() -> str:
    """The page with its table made anew."""
    return with_table(PAGE.read_text(), "simulations", markdown(pd.read_csv(RESULTS)))


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("command", choices=("run", "page"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--models", type=lambda text: tuple(text.split(";")), default=MODELS)
    chosen = parser.parse_args()
    if chosen.command == "run":
        run(chosen.jobs, chosen.models)
    else:
        PAGE.write_text(renewed())


if __name__ == "__main__":
    main()
