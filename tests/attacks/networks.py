"""Networks whose rows take different ways inside, and settings of the solvers for large ones."""

from collections.abc import Callable
from functools import cache

import numpy as np
from torch import nn

import routed_cases
import rue
from attacks.attack import Attack, Right, refused
from rue.core.errors import SettingError

SKETCH, STREAMED = rue.solve.Sketch(500), rue.solve.StreamedDual()


def audit(name: str, solver: object = None) -> rue.Audit:
    net, X, y, others = routed_cases.made(name)
    model = rue.wrap(net, loss="cross_entropy", l2=routed_cases.L2)
    return rue.LinearRUE(solver=solver).fit(model, (X, y)).audit(others)


@cache
def wanted(name: str) -> np.ndarray:
    return routed_cases.deviations(*routed_cases.made(name))


def exact(name: str) -> Right:
    def check(found: rue.Audit) -> None:
        np.testing.assert_allclose(found.std, wanted(name), rtol=1e-7)

    return Right("plain gradients and an explicit matrix", check)


def numbers(solver: object) -> rue.Audit:
    _, X, y, others = routed_cases.made("bells")
    net = nn.Linear(5, 1).double()
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    return rue.LinearRUE(solver=solver).fit(model, (X, y.double())).audit(others)


WAYS = {
    "Every site has a tower of its own, and the first rows are of three of five": "towers",
    "A layer is for few rows alone": "a rare branch",
    "Experts are handed their own rows by number": "routed rows",
    "Rows of one parameter are experts": "parts of a parameter",
    "Outputs are derivatives of a network inside torch.func": "energies",
    "Outputs are forces, derivatives by a copy of the inputs that forward makes": "forces",
    "Distances are those of torch.cdist, which torch derives wrongly for several rows": "bells",
    "A function brings along a wrong rule for several rows": "wrong together",
}
SOLVERS = {"by default": None, "in a sketch": SKETCH, "in the streamed dual form": STREAMED}
SETTINGS: dict[str, tuple[Callable[[], object], str]] = {
    "A preconditioner is given as a class": (
        lambda: rue.solve.ConjugateGradient(preconditioner=rue.solve.EigenBases),  # type: ignore[arg-type]
        r"an object such as EigenBases\(\)",
    ),
    "A sketch follows minus one class": (lambda: rue.solve.Sketch(followed=-1), "at least 2 classes"),
    "A sketch follows one class": (lambda: rue.solve.Sketch(followed=1), "at least 2 classes"),
    "A sketch follows classes of numbers": (
        lambda: numbers(rue.solve.Sketch(followed=2)),
        "chooses among the classes of a softmax",
    ),
}

SECTIONS: dict[str, list[Attack]] = {
    "Networks whose rows take different ways": [
        Attack(f"{what}, {how}", lambda name=name, solver=solver: audit(name, solver), exact(name))
        for what, name in WAYS.items()
        for how, solver in SOLVERS.items()
    ],
    "Settings of solvers for large networks": [
        refused(what, do, SettingError, message) for what, (do, message) in SETTINGS.items()
    ],
}
