"""Training rows, targets and weights that are not those of training."""

from collections.abc import Callable
from typing import Any

import numpy as np

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


COPIED: dict[str, Do] = {
    "every row is there twice": lambda case: _several(case, 2),
    "every row is there five times": lambda case: _several(case, 5),
    "every fourth row is there twice": _some_twice,
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
COPIES = [
    Attack(f"{kind}: {what}", lambda kind=kind, do=do: do(trained(kind)), Warned("copies"))
    for kind in BUILT
    for what, do in COPIED.items()
]
SECTIONS = {"Rows, targets and weights of training": TRAINING, "Copies of training rows": COPIES}
