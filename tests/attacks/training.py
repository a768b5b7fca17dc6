"""Training rows, targets and weights that are not those of training."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from attacks.attack import Attack, Refused, Warned
from attacks.kinds import BUILT, Trained, trained
from rue.core.errors import RueError

ORDER = np.random.default_rng(1).permutation(160)
FOREST = "a random forest"  # knows the means of its leaves, so that other rows are refused
CLASSIFIER = "LogisticRegression"
ALIEN = "training fit|own training rows|leaf means"

Do = Callable[[Trained], Any]

WARNED: dict[str, Do] = {
    "the targets are in another order": lambda case: case.audit(y=case.y[ORDER]),
    "the rows are in another order": lambda case: case.audit(X=case.X.iloc[ORDER]),
    "the targets are one row late": lambda case: case.audit(y=np.roll(case.y, 1)),
}
REFUSED: dict[str, tuple[Do, str]] = {
    "a target is missing": (lambda case: case.audit(y=np.where(ORDER == 4, np.nan, case.y)), "(?i)nan|finite|missing"),
    "a weight is negative": (lambda case: case.audit(weight=np.where(ORDER == 4, -1.0, 1.0)), "weights must be"),
    "all weights are zero": (lambda case: case.audit(weight=np.zeros(len(case.y))), "all example weights are zero"),
    "a weight is missing": (lambda case: case.audit(weight=np.where(ORDER == 4, np.nan, 1.0)), "weights must be"),
    "there are fewer targets than rows": (lambda case: case.audit(y=case.y[:-1]), "X has 160 rows, y has 159"),
}
NUMBERS: dict[str, tuple[Do, str]] = {
    "the targets were standardised in training": (lambda case: case.audit(y=100 * case.y + 5000), ALIEN),
    "the targets are standardised now": (
        lambda case: case.audit(y=(case.y - case.y.mean()) / case.y.std() - 30),
        ALIEN,
    ),
    "the targets are logarithms now": (lambda case: case.audit(y=np.log(case.y + 50)), ALIEN),
}


def _several(case: Trained, times: int) -> Any:
    """An audit that is told every row several times, of a model trained so."""
    X, y = case.X.loc[case.X.index.repeat(times)], np.repeat(case.y, times)
    model = case.again(X, y) if hasattr(case.model, "fit") else case.model
    return Trained(model, X, y, case.X_new, case.told).audit()


def _some_twice(case: Trained) -> Any:
    """One row in four is there twice, as after drawing some of them again."""
    rows = np.concatenate([np.arange(160), np.arange(0, 160, 4)])
    X, y = case.X.iloc[rows], case.y[rows]
    model = case.again(X, y) if hasattr(case.model, "fit") else case.model
    return Trained(model, X, y, case.X_new, case.told).audit()


def _moved(case: Trained) -> Any:
    """Every row is there again, moved by a thousandth of each column's deviation."""
    noise = np.random.default_rng(2).normal(size=case.X.shape) * 1e-3 * case.X.std().to_numpy()
    X, y = pd.concat([case.X, case.X + noise]), np.concatenate([case.y, case.y])
    model = case.again(X, y) if hasattr(case.model, "fit") else case.model
    return Trained(model, X, y, case.X_new, case.told).audit()


def _unstated(case: Trained) -> Any:
    """A model that was trained with weights, audited without them."""
    weights = np.random.default_rng(3).uniform(0.2, 3.0, len(case.y))
    model = clone(case.model).fit(case.X, case.y, sample_weight=weights)
    return Trained(model, case.X, case.y, case.X_new, case.told).audit()


def _told(case: Trained, column: Any) -> Any:
    """A model that is told the target by one more column."""
    X, X_new = case.X.assign(known=column), case.X_new.assign(known=column[: len(case.X_new)])
    return Trained(case.again(X, case.y), X, case.y, X_new, case.told).audit()


LEAKS: dict[str, Do] = {
    "a column is the target in other units": lambda case: _told(case, 7 - 3 * case.y),
    "a column has the order of the target": lambda case: _told(case, np.exp(case.y / 5)),
}
COPIED: dict[str, Do] = {
    "every row is there twice": lambda case: _several(case, 2),
    "every row is there five times": lambda case: _several(case, 5),
    "every fourth row is there twice": _some_twice,
    "every row is there again, moved by a thousandth": _moved,
}

TRAINING = [
    *(
        Attack(
            f"{kind}: {what}",
            lambda kind=kind, do=do: do(trained(kind)),
            Refused(RueError, ALIEN) if kind == FOREST else Warned("training fit"),
        )
        for kind in BUILT
        for what, do in WARNED.items()
    ),
    *(
        Attack(f"{kind}: {what}", lambda kind=kind, do=do: do(trained(kind)), Refused(RueError, message))
        for kind in BUILT
        for what, (do, message) in {**REFUSED, **({} if kind == CLASSIFIER else NUMBERS)}.items()
    ),
]
WEIGHED = [
    Attack(
        f"{kind}: weights of training are not stated", lambda kind=kind: _unstated(trained(kind)), Warned("weights:")
    )
    for kind in ("LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting")
]
LEAKED = [
    *(
        Attack(f"{kind}: {what}", lambda kind=kind, do=do: do(trained(kind)), Warned("leak: column 'known'"))
        for kind in ("Ridge", "a pipeline", FOREST, "LightGBM", "a black box")
        for what, do in LEAKS.items()
    ),
    Attack(
        f"{CLASSIFIER}: a column is a code of the class",
        lambda: _told(trained(CLASSIFIER), np.where(trained(CLASSIFIER).y == 1, 31.0, 17.0)),
        Warned("leak: column 'known'"),
    ),
]
COPIES = [
    Attack(f"{kind}: {what}", lambda kind=kind, do=do: do(trained(kind)), Warned("copies"))
    for kind in BUILT
    for what, do in COPIED.items()
]
SECTIONS = {
    "Rows, targets and weights of training": [*TRAINING, *WEIGHED, *LEAKED],
    "Copies of training rows": COPIES,
}
