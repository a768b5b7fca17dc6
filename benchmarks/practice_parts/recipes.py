"""How people train: four recipes for networks, five with their architectures, and estimators as they come.

A recipe's `train(X, y, classes, seed)` returns a float32 network, the rows it was fitted to, the rows that stopped it,
and what there is to state of its objective. Refits call it again with fewer rows.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from practice_parts.estimators import MAKERS, Estimator
from practice_parts.networks import Architecture, mean_loss
from practice_parts.trained_model import Trained

BATCH = 64
L2 = 1.0


@dataclass(frozen=True)
class Stopped:
    """AdamW, stopped on a fifth of the rows, the best weights restored."""

    architecture: Architecture
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    share: float = 0.2
    patience: int = 20
    most_epochs: int = 200

    def train(self, X: Tensor, y: Tensor, classes: int | None, seed: int) -> Trained:
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(y), generator=generator)
        stop, fit = order[: round(self.share * len(y))], order[round(self.share * len(y)) :]
        net = self.architecture.build(X.shape[1], classes, seed)
        optimiser = torch.optim.AdamW(
            net.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        best, kept, waited, epoch = np.inf, [], 0, 0
        X_stop, y_stop = X[stop], y[stop]
        while epoch < self.most_epochs and waited < self.patience:
            _epoch(net, optimiser, X[fit], y[fit], generator, mean_loss)
            with torch.no_grad():
                loss = float(mean_loss(net(X_stop), y_stop))
            epoch, waited = epoch + 1, waited + 1
            if loss < best:
                best, kept, waited = loss, [p.detach().clone() for p in net.parameters()], 0
        with torch.no_grad():
            for parameter, value in zip(net.parameters(), kept, strict=True):
                parameter.copy_(value)
        return Trained(net, fit.numpy(), stop.numpy(), {}, {"epochs": epoch})


@dataclass(frozen=True)
class RunOn:
    """AdamW on all rows for a fixed number of epochs, longer than is good."""

    architecture: Architecture
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    epochs: int = 150

    def train(self, X: Tensor, y: Tensor, classes: int | None, seed: int) -> Trained:
        net = self.architecture.build(X.shape[1], classes, seed)
        optimiser = torch.optim.AdamW(
            net.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        generator = torch.Generator().manual_seed(seed)
        for _ in range(self.epochs):
            _epoch(net, optimiser, X, y, generator, mean_loss)
        return Trained(net, np.arange(len(y)), np.arange(0), {})


@dataclass(frozen=True)
class Penalised:
    """Adam on the mean loss plus (l2 / 2n)‖θ‖² for a fixed number of epochs."""

    architecture: Architecture
    learning_rate: float = 3e-3
    l2: float = L2
    epochs: int = 150

    def train(self, X: Tensor, y: Tensor, classes: int | None, seed: int) -> Trained:
        net = self.architecture.build(X.shape[1], classes, seed)
        parameters = list(net.parameters())
        optimiser = torch.optim.Adam(parameters, lr=self.learning_rate, fused=True)
        generator = torch.Generator().manual_seed(seed)

        def objective(outputs: Tensor, targets: Tensor) -> Tensor:
            return mean_loss(outputs, targets) + self.l2 / (2 * len(y)) * _square(parameters)

        for _ in range(self.epochs):
            _epoch(net, optimiser, X, y, generator, objective)
        return Trained(net, np.arange(len(y)), np.arange(0), _stated(self.l2))


@dataclass(frozen=True)
class ToRest:
    """L-BFGS in float64 on the summed loss plus ½ l2 ‖θ‖², until the gradient is a millionth of what it was."""

    architecture: Architecture
    l2: float = L2
    tolerance: float = 1e-6
    most_steps: int = 5000

    def train(self, X: Tensor, y: Tensor, classes: int | None, seed: int) -> Trained:
        net = self.architecture.build(X.shape[1], classes, seed).double()
        X, y = X.double(), y.double() if y.is_floating_point() else y
        theta, parameters = _as_one(net), list(net.parameters())
        norms = []

        def objective(values: np.ndarray) -> tuple[float, np.ndarray]:
            theta.copy_(torch.from_numpy(values))
            loss = len(y) * mean_loss(net(X), y)
            slopes = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, parameters)])
            slopes += self.l2 * theta
            norms.append(float(slopes.norm()))
            return loss.item() + 0.5 * self.l2 * float(theta @ theta), slopes.numpy()

        def stop_at_rest(_: np.ndarray) -> None:
            if norms[-1] < self.tolerance * norms[0]:
                raise StopIteration

        options = {"maxiter": self.most_steps, "maxfun": 2 * self.most_steps, "ftol": 0.0, "gtol": 0.0, "maxcor": 30}
        start = theta.numpy().copy()
        found = minimize(objective, start, jac=True, method="L-BFGS-B", callback=stop_at_rest, options=options)
        objective(found.x)
        facts = {"steps": int(found.nit), "gradient": norms[-1] / norms[0]}
        return Trained(net.float(), np.arange(len(y)), np.arange(0), _stated(self.l2), facts)


RECIPES = {
    "stopped, one layer": Stopped(Architecture(1, "ReLU")),
    "stopped, two layers": Stopped(Architecture(2, "ReLU")),
    "run on": RunOn(Architecture(2, "ReLU")),
    "penalised": Penalised(Architecture(1, "tanh")),
    "to rest": ToRest(Architecture(1, "tanh")),
    **{name: Estimator(name) for name in MAKERS},
}
Recipe = Stopped | RunOn | Penalised | ToRest | Estimator


def settings(recipe: Recipe) -> dict[str, Any]:
    return {"recipe": type(recipe).__name__, "batch": BATCH, **asdict(recipe)}


def _epoch(
    net: nn.Module,
    optimiser: torch.optim.Optimizer,
    X: Tensor,
    y: Tensor,
    generator: torch.Generator,
    objective: Callable[[Tensor, Tensor], Tensor],
) -> None:
    order = torch.randperm(len(y), generator=generator)
    for inputs, targets in zip(X[order].split(BATCH), y[order].split(BATCH), strict=True):
        optimiser.zero_grad()
        objective(net(inputs), targets).backward()
        optimiser.step()


def _as_one(net: nn.Module) -> Tensor:
    """One vector of which the parameters are views: writing to it writes to them."""
    theta, place = nn.utils.parameters_to_vector(net.parameters()).detach().clone(), 0
    for parameter in net.parameters():
        parameter.data = theta[place : place + parameter.numel()].view_as(parameter)
        place += parameter.numel()
    return theta


def _square(parameters: list[nn.Parameter]) -> Tensor:
    return torch.stack([parameter.square().sum() for parameter in parameters]).sum()


def _stated(l2: float) -> dict[str, Any]:
    return {"l2": l2, "reduction": "sum"}
