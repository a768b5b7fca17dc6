"""How well sketches keep the exact answer: margins of three small networks on digits, by size and classes followed.

`python benchmarks/fidelity.py` writes `docs/scale/fidelity.csv`. The exact answer is the dual form of the same
Gauss–Newton matrix, under the same stated penalty; what is compared is the variance of the margin between the two
leading classes of 400 digits that the network has not seen.
"""

import csv
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import Tensor, nn

import rue

PAGE = Path(__file__).parent.parent / "docs" / "scale" / "fidelity.csv"
ROWS, AUDITED = 700, 400
PENALTIES = (0.3, 3.0)
SKETCHES = [(1024, None), (2048, None), (4096, None), (2048, 4), (4096, 4)]


class Lines(nn.Module):
    """A transformer that reads a digit line by line."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.place = nn.Linear(8, 32), nn.Parameter(torch.zeros(1, 8, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.enter(x.view(-1, 8, 8)) + self.place).mean(1))


def dense() -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def convolutions() -> nn.Module:
    """Three convolutions with group norms."""
    parts: list[nn.Module] = [nn.Unflatten(1, (1, 8, 8))]
    for entering, leaving in ((1, 16), (16, 32), (32, 64)):
        parts += [nn.Conv2d(entering, leaving, 3, padding=1), nn.GroupNorm(4, leaving), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if leaving == 32 else []
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 10))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "dense": (dense, 15),
    "convolutions": (convolutions, 8),
    "transformer": (Lines, 15),
}


def trained(build: Callable[[], nn.Module], X: Tensor, y: Tensor, epochs: int) -> nn.Module:
    """By AdamW, some epochs."""
    torch.manual_seed(0)
    network = build()
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(X[rows]), y[rows]).backward()
            optimizer.step()
    return network.eval()


def margin_variance(audit: rue.Audit) -> np.ndarray:
    """The variance of the margin between the two leading classes."""
    first, second = np.argsort(-audit.prediction, axis=1)[:, :2].T
    rows, found = np.arange(len(first)), audit.covariance
    return found[rows, first, first] + found[rows, second, second] - 2 * found[rows, first, second]


def main() -> None:
    """Compare every sketch with the exact answer, and write the table."""
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = torch.tensor(X[order] / 8 - 1, dtype=torch.float32), torch.tensor(y[order])
    data, new = (X[:ROWS], y[:ROWS]), X[ROWS : ROWS + AUDITED]
    with PAGE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["network", "parameters", "l2", "size", "followed", "spearman", "ratio"])
        for name, (build, epochs) in NETWORKS.items():
            network = trained(build, *data, epochs)
            count = sum(p.numel() for p in network.parameters())
            for l2 in PENALTIES:
                model = rue.wrap(network, loss=nn.CrossEntropyLoss(reduction="sum"), l2=l2)
                exact = margin_variance(rue.LinearRUE(solver=rue.solve.Dual()).fit(model, data).audit(new))
                for size, followed in SKETCHES:
                    solver = rue.solve.Sketch(size, followed=followed)
                    found = margin_variance(rue.LinearRUE(solver=solver).fit(model, data).audit(new))
                    alike, ratio = spearmanr(exact, found)[0], np.median(found / exact)
                    line = [name, count, l2, size, followed or "all", f"{alike:.3f}", f"{ratio:.2f}"]
                    table.writerow(line)
                    print(*line, flush=True)


if __name__ == "__main__":
    main()
