"""Small trained models with data, one of every kind: a test over `CASES` covers them all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import rue

RESAMPLERS = [  # every one in the module: a new one is held to all laws of resamplers
    kind() for kind in vars(rue.resample).values() if hasattr(kind, "draw") and kind.__module__ == rue.resample.__name__
]


@dataclass(frozen=True)
class Case:
    """A module in float64, training rows, inputs to audit, and what it was trained with."""

    name: str
    module: nn.Module
    X: Any
    y: torch.Tensor
    X_new: Any
    loss: Any
    l2: float

    def wrap(self, **settings) -> rue.Model:
        return rue.wrap(self.module, **{"loss": self.loss, "l2": self.l2, **settings})

    def row_loss(self, outputs, targets):
        """The loss as the oracles take it: outputs (n, k)."""
        if self.loss == "squared_error":
            return 0.5 * (outputs - targets.reshape(outputs.shape)).square().sum(-1)
        return self.loss(outputs, targets)


def linear() -> Case:
    X, y, X_new = _table(24, 3)
    return _trained("linear", nn.Linear(3, 1), X, y, X_new)


def softplus() -> Case:
    X, y, X_new = _table(20, 2)
    return _trained("softplus", nn.Sequential(nn.Linear(2, 4), nn.Softplus(), nn.Linear(4, 1)), X, y, X_new)


def convolution() -> Case:
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(15, 1, 5, 5, generator=generator, dtype=torch.float64)
    y = torch.stack([X.mean((1, 2, 3)), X[:, 0, 2, 2].sin()], dim=1) + 0.1 * torch.randn(15, 2, generator=generator)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(18, 2))
    return _trained("convolution", net, X[:12], y[:12], X[12:])


class Squeezed(nn.Module):
    """Returns (m,) rather than (m, 1)."""

    def __init__(self, features: int):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(features, 3), nn.LayerNorm(3), nn.GELU(), nn.Linear(3, 1))

    def forward(self, x):
        return self.inner(x).squeeze(-1)


def squeezed() -> Case:
    X, y, X_new = _table(15, 2)
    return _trained("squeezed", Squeezed(2), X, y, X_new)


def batch_norm() -> Case:
    X, y, X_new = _table(18, 3)
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Dropout(0.2), nn.Linear(3, 1)).double()
    net.train()
    net(X)  # gives the running statistics something
    return _trained("batch_norm", net, X, y, X_new)


class Recurrent(nn.Module):
    """Token ids through an embedding and an LSTM."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 2)
        self.recurrent = nn.LSTM(2, 2, batch_first=True)
        self.head = nn.Linear(2, 1)

    def forward(self, tokens):
        states, _ = self.recurrent(self.embedding(tokens))
        return self.head(states[:, -1])


def recurrent() -> Case:
    generator = torch.Generator().manual_seed(5)
    X = torch.randint(5, (15, 4), generator=generator)
    y = X.double().mean(1) + 0.1 * torch.randn(15, generator=generator)
    return _trained("recurrent", Recurrent(), X[:12], y[:12], X[12:])


class Attention(nn.Module):
    """Self-attention with pooling."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        mixed, _ = self.attention(x, x, x, need_weights=False)
        return self.head(mixed.mean(1))


def attention() -> Case:
    generator = torch.Generator().manual_seed(7)
    X = torch.randn(15, 3, 4, generator=generator, dtype=torch.float64)
    return _trained("attention", Attention(), X[:12], X[:12].mean((1, 2)), X[12:])


class Tied(nn.Module):
    """One weight under two names."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


def tied() -> Case:
    X, y, X_new = _table(16, 3)
    return _trained("tied", Tied(), X, y, X_new)


def bernoulli() -> Case:
    """A callable loss whose curvature depends on the outputs."""
    X, y, X_new = _table(30, 2)

    def log_loss(outputs, targets):
        return nn.functional.softplus(outputs[:, 0]) - targets * outputs[:, 0]

    return _trained("bernoulli", nn.Linear(2, 1), X, (y > 0).double(), X_new, log_loss)


def softmax() -> Case:
    """Three logits and integer labels."""
    X, y, X_new = _table(24, 2)

    def cross_entropy(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

    labels = (y > 0).long() + (y > 0.8).long()
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 3))
    return _trained("softmax", net, X, labels, X_new, cross_entropy)


CASES: dict[str, Callable[[], Case]] = {
    make.__name__: make
    for make in (
        linear,
        softplus,
        convolution,
        squeezed,
        batch_norm,
        recurrent,
        attention,
        tied,
        bernoulli,
        softmax,
    )
}


class Branching(nn.Module):
    """Looks at its data to decide what to do; other processes can import it from here."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1)

    def forward(self, x):
        return torch.cat([self.linear(row)[None] * (2 if row[0] > 0 else 1) for row in x])


def _table(n: int, p: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n * 100 + p)
    X = torch.randn(n + 6, p, generator=generator, dtype=torch.float64)
    y = X[:, 0].sin() + 0.5 * X[:, -1] + 0.3 * torch.randn(n + 6, generator=generator, dtype=torch.float64)
    return X[:n], y[:n], X[n:]


def _trained(name, module, X, y, X_new, loss="squared_error", l2=0.3) -> Case:
    """A few steps from a fixed start: close to a minimum, not at one, like real nets."""
    state = torch.get_rng_state()
    torch.manual_seed(0)
    for part in module.modules():
        if hasattr(part, "reset_parameters") and not isinstance(part, nn.BatchNorm1d):
            part.reset_parameters()
        elif isinstance(part, nn.MultiheadAttention):
            part._reset_parameters()
    torch.set_rng_state(state)
    module = module.double().eval()
    case = Case(name, module, X, y, X_new, loss, l2)
    optimiser = torch.optim.LBFGS(module.parameters(), max_iter=30)

    def closure():
        optimiser.zero_grad()
        outputs = module(X).reshape(len(y), -1)
        penalty = 0.5 * l2 * sum(p.square().sum() for p in module.parameters())
        objective = case.row_loss(outputs, y).sum() + penalty
        objective.backward()
        return objective

    optimiser.step(closure)
    optimiser.zero_grad(set_to_none=True)
    return case
