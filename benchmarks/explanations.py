"""Explanations against truth: rows really removed, and simulated regions whose trouble is known.

`python benchmarks/explanations.py` writes docs/explain/removal.csv and docs/explain/regions.csv.
"""

import copy
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import rue

OUT = Path(__file__).parent.parent / "docs" / "explain"
REMOVED = 10  # training rows at once
HIDDEN = {"linear": 0, "net, 10 hidden": 10, "net, 20 hidden": 20}


def net(features: int, hidden: int, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    if not hidden:
        return torch.nn.Linear(features, 1).double()
    return torch.nn.Sequential(
        torch.nn.Linear(features, hidden), torch.nn.Softplus(), torch.nn.Linear(hidden, 1)
    ).double()


def train(module: torch.nn.Module, X: torch.Tensor, y: torch.Tensor, l2: float) -> torch.nn.Module:
    """½ squared error and ½ l2 ‖θ‖², to rest."""
    optimiser = torch.optim.LBFGS(
        module.parameters(), max_iter=600, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def objective() -> torch.Tensor:
        optimiser.zero_grad()
        loss = 0.5 * (module(X)[:, 0] - y).square().sum()
        loss = loss + 0.5 * l2 * sum(p.square().sum() for p in module.parameters())
        loss.backward()
        return loss

    optimiser.step(objective)
    return module


class Removal(NamedTuple):
    """By how much predictions (m,) were said to change without their ten most influential rows, and did."""

    said: np.ndarray
    did: np.ndarray

    @property
    def direction(self) -> float:
        return float((np.sign(self.said) == np.sign(self.did)).mean())

    @property
    def correlation(self) -> float:
        return float(np.corrcoef(self.said, self.did)[0, 1])

    @property
    def slope(self) -> float:
        return float(self.said @ self.did / (self.said @ self.said))


def removal(hidden: int, count: int, seed: int = 0) -> Removal:
    """Diabetes: 300 patients train, others are predicted; without ten rows the network trains on from where it is."""
    X, y = load_diabetes(return_X_y=True)
    inputs, targets = torch.tensor(20 * X), torch.tensor((y - 152) / 77)
    fitted = train(net(10, hidden, seed), inputs[:300], targets[:300], 1.0)
    model = rue.wrap(fitted, loss="squared_error", l2=1.0)
    audit = rue.LinearRUE().fit(model, (inputs[:300], targets[:300])).audit(inputs[300 : 300 + count])
    said, did = [], []
    for i in range(count):
        found = audit.explain(i)
        out = found.order[:REMOVED]
        kept = np.setdiff1d(np.arange(300), out)
        again = train(copy.deepcopy(fitted), inputs[:300][kept], targets[:300][kept], 1.0)
        said.append(found.without(out))
        did.append(float(again(inputs[300 + i : 301 + i]).detach()) - audit.prediction[i])
    return Removal(np.array(said), np.array(did))


class Regions(NamedTuple):
    """Inputs whose similar training rows are few, fitted badly, or neither."""

    X: np.ndarray
    y: np.ndarray
    sparse: np.ndarray
    bad: np.ndarray
    plain: np.ndarray


def regions(features: int, seed: int, n: int = 400, few: int = 8, m: int = 50) -> Regions:
    """A sine of the first feature: 8 of 400 rows above 1.5, and noise of 0.8 instead of 0.1 below -1.5."""
    draw = np.random.default_rng(seed)
    first = np.concatenate([draw.uniform(-3, 1, n - few), draw.uniform(1.5, 3, few)])
    X = np.column_stack([first, draw.uniform(-2, 2, (n, features - 1))])
    y = np.sin(first) + 0.3 * X[:, 1:].sum(axis=1) + draw.normal(0, np.where(first < -1.5, 0.8, 0.1))

    def between(low: float, high: float) -> np.ndarray:
        return np.column_stack([draw.uniform(low, high, m), draw.uniform(-2, 2, (m, features - 1))])

    return Regions(X, y, between(1.7, 3), between(-3, -1.7), between(-1, 0.8))


def named(kind: str, features: int, seed: int) -> dict[str, float]:
    """The share of each region's inputs whose reason is the right one; of plain ones, that nothing is unusual."""
    drawn = regions(features, seed)
    if kind == "net":
        fitted = train(net(features, 20, seed), torch.tensor(drawn.X), torch.tensor(drawn.y), 0.1)
        model = rue.wrap(fitted, loss="squared_error", l2=0.1)
    else:
        degree = 4 if features < 4 else 3  # so that the model can follow the sine
        estimator = make_pipeline(PolynomialFeatures(degree), StandardScaler(), Ridge(0.1))
        model = rue.wrap(estimator.fit(drawn.X, drawn.y))
    auditor = rue.LinearRUE().fit(model, (drawn.X, drawn.y))
    wanted = {
        "sparse": (drawn.sparse, "too few similar rows"),
        "bad": (drawn.bad, "similar rows fitted badly"),
        "plain": (drawn.plain, "nothing unusual"),
    }
    return {
        name: float(np.mean([reason == right for reason in auditor.audit(inputs).explain().reason]))
        for name, (inputs, right) in wanted.items()
    }


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", rue.errors.RueWarning)
    OUT.mkdir(exist_ok=True)
    rows = []
    for name, hidden in HIDDEN.items():
        found = [removal(hidden, 50, seed) for seed in range(1 if not hidden else 3)]
        whole = Removal(*(np.concatenate(part) for part in zip(*found, strict=True)))
        shown = (whole.direction, whole.correlation, whole.slope)
        rows.append([name, len(whole.said), *(f"{value:.3f}" for value in shown)])
    columns = ["model", "predictions", "right direction", "correlation", "slope"]
    pd.DataFrame(rows, columns=columns).to_csv(OUT / "removal.csv", index=False)
    rows = []
    for features in (1, 2, 4, 8):
        for kind in ("net", "polynomial ridge"):
            found = pd.DataFrame([named(kind, features, seed) for seed in range(4)]).mean()
            rows.append([kind, features, 4 * 50, *(f"{found[name]:.3f}" for name in ("sparse", "bad", "plain"))])
    columns = ["model", "features", "inputs of each kind", "too few", "fitted badly", "nothing unusual"]
    pd.DataFrame(rows, columns=columns).to_csv(OUT / "regions.csv", index=False)


if __name__ == "__main__":
    main()
