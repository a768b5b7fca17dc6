"""Five small models at rest, and seven ways to set their audit up wrongly.

Run this file to rewrite the table of `docs/checks.md`.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import rue
from rue.core.errors import RueWarning


class Scaled(nn.Module):
    """A layer of the user's own that asks for the mode: in training its outputs are smaller."""

    def forward(self, x):
        return 0.7 * x if self.training else x


@dataclass(frozen=True)
class Setup:
    """Everything an audit is told, and some rows to audit."""

    net: nn.Module
    X: Tensor
    y: Tensor
    X_new: Tensor
    loss: Any
    l2: float
    reduction: str = "sum"

    def auditor(self, method=None) -> rue.Auditor:
        model = rue.wrap(self.net, loss=self.loss, l2=self.l2, reduction=self.reduction)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RueWarning)  # of what the checks say too
            return (rue.LinearRUE() if method is None else method).fit(model, (self.X, self.y))

    def check(self, method=None, **asked) -> rue.CheckUp:
        return self.auditor(method).check(self.X_new, **asked)


def train(net: nn.Module, X, y, row_loss: Callable, l2: float, *, weight=None, steps=2000) -> nn.Module:
    """Minimise Σ loss + ½ l2‖θ‖² to rest."""
    search = torch.optim.LBFGS(
        net.parameters(), max_iter=steps, line_search_fn="strong_wolfe", tolerance_grad=1e-10, tolerance_change=1e-16
    )

    def objective():
        search.zero_grad()
        losses = row_loss(net(X), y)
        value = (losses if weight is None else weight * losses).sum()
        value = value + 0.5 * l2 * sum(p.square().sum() for p in net.parameters())
        value.backward()
        return value

    search.step(objective)
    return net


def squared(outputs, y):
    return 0.5 * (outputs[:, 0] - y).square()


def logistic(outputs, y):
    return nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], y, reduction="none")


def poisson(outputs, y):
    return torch.exp(outputs[:, 0]) - y * outputs[:, 0]


def softmax(outputs, y):
    return nn.functional.cross_entropy(outputs, y, reduction="none")


@dataclass(frozen=True)
class Kind:
    """How one of the five models is made."""

    layers: Callable[[], list[nn.Module]]
    targets: Callable[[Tensor, Tensor], Tensor]  # from features and noise
    row_loss: Callable
    loss: str
    wrong_loss: Any
    l2: float


def _signal(X):
    return (X[:, 0] + 0.5 * X[:, 1] * X[:, 2]).sin() + 0.7 * X[:, 3]


def _hidden(k: int) -> list[nn.Module]:
    return [nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, k)]


KINDS = {
    "linear regression": Kind(
        lambda: [nn.Linear(4, 1)], lambda X, e: _signal(X) + 0.5 * e, squared, "squared_error", "huber", 2.0
    ),
    "logistic regression": Kind(
        lambda: [nn.Linear(4, 1)], lambda X, e: (_signal(X) + 0.7 * e > 0).double(), logistic, "bernoulli",
        "squared_error", 2.0,
    ),
    "Poisson regression": Kind(
        lambda: [nn.Linear(4, 1)], lambda X, e: (_signal(X) + 0.5 * e).exp().round(), poisson, "poisson",
        "squared_error", 2.0,
    ),
    "regression net": Kind(
        lambda: _hidden(1), lambda X, e: _signal(X) + 0.5 * e, squared, "squared_error", "huber", 10.0
    ),
    "three-class net": Kind(
        lambda: _hidden(3), lambda X, e: torch.bucketize(_signal(X) + 0.4 * e, torch.tensor([-0.5, 0.5])), softmax,
        "cross_entropy", "squared_error", 10.0,
    ),
}  # fmt: skip


def data(kind: Kind, n: int = 300, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Training rows, their targets, and 100 rows to audit."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n + 100, 4, generator=generator, dtype=torch.float64)
    y = kind.targets(X, torch.randn(n + 100, generator=generator, dtype=torch.float64))
    return X[:n], y[:n], X[n:]


def net(kind: Kind, seed: int = 1) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(*kind.layers(), Scaled()).double().eval()


@cache
def right(name: str) -> Setup:
    """Trained to rest, and stated as trained."""
    kind = KINDS[name]
    X, y, X_new = data(kind)
    return Setup(train(net(kind), X, y, kind.row_loss, kind.l2), X, y, X_new, kind.loss, kind.l2)


def _wrong_loss(name: str) -> Setup:
    found, kind = right(name), KINDS[name]
    y = found.y
    if name == "three-class net":
        y = nn.functional.one_hot(y, 3).double()
    return replace(found, loss=kind.wrong_loss, y=y)


def _training_mode(name: str) -> Setup:
    kind, found = KINDS[name], right(name)
    own = net(kind)
    own.load_state_dict(found.net.state_dict())
    return replace(found, net=own.train())


def _stale(name: str) -> Setup:
    """Weights from before the last fifth of the rows came in."""
    kind, found = KINDS[name], right(name)
    old = train(net(kind), found.X[:240], found.y[:240], kind.row_loss, kind.l2)
    return replace(found, net=old)


def _shuffled(name: str) -> Setup:
    found = right(name)
    order = torch.randperm(len(found.y), generator=torch.Generator().manual_seed(3))
    return replace(found, y=found.y[order])


WRONG: dict[str, Callable[[str], Setup]] = {
    "wrong loss": _wrong_loss,
    "l2 ten times too large": lambda name: replace(right(name), l2=10 * right(name).l2),
    "l2 ten times too small": lambda name: replace(right(name), l2=right(name).l2 / 10),
    "mean for sum": lambda name: replace(right(name), reduction="mean"),
    "training mode": _training_mode,
    "stale weights": _stale,
    "shuffled targets": _shuffled,
    "leaked rows": lambda name: replace(right(name), X_new=torch.cat([right(name).X_new, right(name).X[:10]])),
}
CAUGHT_BY = {
    "wrong loss": "at rest",
    "l2 ten times too large": "at rest",
    "l2 ten times too small": "at rest",
    "mean for sum": "at rest",
    "training mode": "mode",
    "stale weights": "at rest",
    "shuffled targets": "training fit",
    "leaked rows": "duplicates",
}


PAGE = Path(__file__).parent.parent / "docs" / "checks.md"
BEGIN, END = "<!-- measured -->", "<!-- end -->"


def measured() -> dict[str, list[rue.Check]]:
    """The check that catches each mistake, on every model; and the worst of a right set-up."""
    found = {mistake: [WRONG[mistake](name).check()[check] for name in KINDS] for mistake, check in CAUGHT_BY.items()}
    for check in dict.fromkeys(CAUGHT_BY.values()):
        found[f"none ({check})"] = [right(name).check()[check] for name in KINDS]
    return found


def table() -> str:
    """The lights and numbers of all, as the page shows them."""
    head = f"| mistake | caught by | {' | '.join(KINDS)} |\n|{'---|' * (len(KINDS) + 2)}\n"
    return head + "".join(
        f"| {mistake} | {checks[0].name} | {' | '.join(f'{c.light} {_number(c.value)}' for c in checks)} |\n"
        for mistake, checks in measured().items()
    )


def _number(value: float | None) -> str:
    assert value is not None
    return f"{value:.2g}" if abs(value) > 1e-6 or value == 0 else "below 1e-6"


if __name__ == "__main__":
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n{END}{after}")
