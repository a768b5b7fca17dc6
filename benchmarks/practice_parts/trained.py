"""A cell's networks: the one that is audited, and what four refits said of the rows left out of them.

Everything that costs training, in one file: audits and rivals are made anew from it without training anything.
"""

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from practice_parts.cases import Case
from practice_parts.estimators import Estimator, said
from practice_parts.networks import predicted
from practice_parts.recipes import RECIPES, settings
from practice_parts.stored import read_arrays, write_arrays

FOLDS = 4
VERSION = 1  # raise it when a change makes stored networks stale


@dataclass(frozen=True)
class Cell:
    """A trained network, its outputs on the test rows (m, k), and those of refits: left out (n, k), test (4, m, k)."""

    case: Case
    recipe: str
    net: Any  # a module, or an estimator
    fit_rows: np.ndarray
    stop_rows: np.ndarray
    statement: dict[str, Any]
    outputs: np.ndarray
    fold: np.ndarray
    left_out: np.ndarray
    fold_outputs: np.ndarray
    seconds: float
    refit_seconds: float
    facts: dict[str, float]

    def rows(self, chosen: np.ndarray) -> tuple[Tensor, Tensor]:
        return self.case.X[chosen], self.case.y[chosen]


def key(case: Case, recipe: str) -> str:
    """The cell's name, with a hash of all that its networks depend on."""
    described = json.dumps([VERSION, FOLDS, settings(RECIPES[recipe]), case.n, case.split], sort_keys=True)
    hashed = hashlib.sha256(described.encode())
    for values in (case.X, case.y, case.X_test, case.y_test):
        hashed.update(values.numpy().tobytes())
    return f"{case.name}-{recipe.replace(', ', '-').replace(' ', '-')}-{hashed.hexdigest()[:8]}"


def obtained(case: Case, recipe: str, folder: Path) -> Cell:
    """The cell as it was stored, or trained and stored."""
    path = folder / "nets" / f"{key(case, recipe)}.npz"
    if not path.exists():
        write_arrays(path, _train(case, recipe))
    return loaded(case, recipe, path)


def loaded(case: Case, recipe: str, path: Path) -> Cell:
    held = read_arrays(path)
    made = RECIPES[recipe]
    if isinstance(made, Estimator):
        net: Any = made.train(case.X, case.y, case.classes, case.split).net
    else:
        net = made.architecture.build(case.X.shape[1], case.classes)
        net.load_state_dict({name[6:]: torch.from_numpy(held[name]) for name in held if name.startswith("state/")})
    arrays = ("fit_rows", "stop_rows", "outputs", "fold", "left_out", "fold_outputs")
    said = json.loads(str(held["said"]))
    return Cell(case=case, recipe=recipe, net=net, **{name: held[name] for name in arrays}, **said)


def _train(case: Case, recipe: str) -> dict[str, np.ndarray]:
    train, start = RECIPES[recipe].train, time.process_time()
    own = train(case.X, case.y, case.classes, case.split)
    trained = time.process_time()
    fold = np.random.default_rng([case.split, case.n, FOLDS]).permutation(case.n) % FOLDS
    left_out, fold_outputs = np.empty((case.n, case.classes or 1)), []
    for k in range(FOLDS):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        refit = train(case.X[inside], case.y[inside], case.classes, 1000 * (k + 1) + case.split).net
        left_out[outside] = _said(refit, case.X[outside], case)
        fold_outputs.append(_said(refit, case.X_test, case).numpy())
    said = {
        "statement": own.statement,
        "seconds": trained - start,
        "refit_seconds": time.process_time() - trained,
        "facts": own.facts,
    }
    return {
        **_state(own.net),
        "fit_rows": own.fit_rows,
        "stop_rows": own.stop_rows,
        "outputs": _said(own.net, case.X_test, case).numpy(),
        "fold": fold,
        "left_out": left_out,
        "fold_outputs": np.stack(fold_outputs),
        "said": np.array(json.dumps(said)),
    }


def _said(net: Any, X: Tensor, case: Case) -> Tensor:
    return predicted(net, X) if isinstance(net, nn.Module) else said(net, X, case.classes)


def _state(net: Any) -> dict[str, np.ndarray]:
    """The weights of a network; an estimator is fitted again where it is needed."""
    if not isinstance(net, nn.Module):
        return {}
    return {f"state/{name}": value.numpy() for name, value in net.state_dict().items()}
