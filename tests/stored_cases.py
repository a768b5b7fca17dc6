"""Small models made by formulas, the same on every machine, whose stored audits later releases read.

`PYTHONPATH=tests python tests/stored_cases.py` writes `tests/stored/`; do so only when a kind is added: a file that a
release has written is never written again.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import Ridge
from torch import nn

import rue
from rue.policy import Exceeds

FOLDER = Path(__file__).parent / "stored"
number = np.arange(40.0)
X = np.stack([np.sin(number), np.cos(1.7 * number), np.sin(0.3 * number + 1)], 1)
y = X[:, 0] - X[:, 1] ** 2 + 0.1 * np.sin(5 * number)
three = np.digitize(y, [-0.6, 0.2])
X_new = np.stack([np.cos(number[:5]), np.sin(2.1 * number[:5]), np.cos(0.7 * number[:5])], 1)


def net(outputs: int) -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs)).double()
    for part in module.parameters():
        values = torch.sin(torch.arange(part.numel(), dtype=torch.float64) * 1.3 + part.numel())
        part.data = values.view(part.shape)
    return module


def line() -> Ridge:
    ridge = Ridge()
    ridge.coef_, ridge.intercept_, ridge.n_features_in_ = np.array([0.9, 0.1, -0.2]), -0.4, 3
    return ridge


class Kept(NamedTuple):
    """How a model is wrapped, and what is fitted of it."""

    wrap: Callable[[], rue.Model]
    fit: Callable[[rue.Model], rue.Auditor]


def numbers() -> rue.Model:
    return rue.wrap(net(1), loss="squared_error", l2=0.5)


KEPT = {
    "linear": Kept(numbers, lambda model: rue.LinearRUE().fit(model, (X, y))),
    "calibrated": Kept(numbers, lambda model: rue.CalibratedRUE().fit(model, (X, y))),
    "sketch": Kept(numbers, lambda model: rue.LinearRUE(solver=rue.solve.Sketch(12)).fit(model, (X, y))),
    "held_out": Kept(numbers, lambda model: rue.LinearRUE().fit(model, (X[:25], y[:25])).calibrate(X[25:], y[25:])),
    "classes": Kept(
        lambda: rue.wrap(net(3), loss="cross_entropy", l2=0.5), lambda model: rue.ClassifierRUE().fit(model, (X, three))
    ),
    "ridge": Kept(
        lambda: rue.wrap(line()), lambda model: rue.CalibratedRUE().fit(model, (X, y), left_out=rue.left_out.Folds(3))
    ),
}


def said(auditor: rue.Auditor) -> dict[str, Any]:
    """What a stored audit says of new rows."""
    audit = auditor.audit(X_new)
    return {"score": audit.score.tolist(), "prediction": np.asarray(audit.prediction).tolist()}


def policy() -> rue.Policy:
    auditor = KEPT["linear"].fit(numbers())
    return rue.Policy.by_cost(auditor.audit(X), y, Exceeds(1.0), error=10.0, review=1.0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answers = {}
    for name, kept in KEPT.items():
        fitted = kept.fit(kept.wrap())
        fitted.save(FOLDER / f"{name}.rue")
        answers[name] = said(fitted)
    policy().save(FOLDER / "policy.rue")
    (FOLDER / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
