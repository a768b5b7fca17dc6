"""How well sketches and other structures keep the exact answer: margins of three small networks on digits.

`python benchmarks/fidelity.py` writes `docs/scale/fidelity.csv`; `python benchmarks/fidelity.py EKFAC "last layer"`
measures these structures anew and keeps the other lines. The exact answer is the dual form of the same Gauss–Newton
matrix, under the same stated penalty; what is compared is the variance of the margin between the two leading classes of
400 digits that the network has not seen.
"""

import csv
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rue.errors import NotConvergedError
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import Tensor, nn

import rue

PAGE = Path(__file__).parent.parent / "docs" / "scale" / "fidelity.csv"
ROWS, AUDITED = 700, 400
PENALTIES = (0.3, 3.0)
COLUMNS = ("network", "parameters", "l2", "size", "followed", "spearman", "ratio")
STRUCTURES: dict[tuple[str, str], rue.LinearRUE] = {  # size and classes followed: the audit
    **{
        (str(size), str(followed or "all")): rue.LinearRUE(solver=rue.solve.Sketch(size, followed=followed))
        for size, followed in ((1024, None), (2048, None), (4096, None), (2048, 4), (4096, 4))
    },
    ("EKFAC", "all"): rue.LinearRUE(solver=rue.solve.EKFAC()),
    ("Blocks", "all"): rue.LinearRUE(solver=rue.solve.Blocks()),
    ("CG, Nyström", "all"): rue.LinearRUE(solver=rue.solve.ConjugateGradient(1e-2)),
    ("CG, EK-FAC", "all"): rue.LinearRUE(
        solver=rue.solve.ConjugateGradient(1e-2, preconditioner=rue.solve.EigenBases())
    ),
    ("LiSSA", "all"): rue.LinearRUE(solver=rue.solve.LiSSA(steps=300, rows=100, tolerance=0.1)),
    ("last layer", "all"): rue.LinearRUE(),
}

ITERATIVE = {"CG, Nyström", "CG, EK-FAC", "LiSSA"}  # on the dense network alone: they solve for every row of training


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


def measured(network: nn.Module, l2: float, wanted: set[str], data: tuple[Tensor, Tensor], new: Tensor) -> list[dict]:
    """The lines of these structures for one network under one penalty."""
    loss, head = nn.CrossEntropyLoss(reduction="sum"), list(network.named_modules())[-1][0]
    whole = rue.wrap(network, loss=loss, l2=l2)
    exact = margin_variance(rue.LinearRUE(solver=rue.solve.Dual()).fit(whole, data).audit(new))
    lines = []
    for (size, followed), method in STRUCTURES.items():
        if size not in wanted:
            continue
        model = rue.wrap(network, loss=loss, l2=l2, select=f"{head}.*") if size == "last layer" else whole
        try:
            found = margin_variance(method.fit(model, data).audit(new))
            alike, ratio = f"{spearmanr(exact, found)[0]:.3f}", f"{np.median(found / exact):.2f}"
        except NotConvergedError as error:
            print(error, flush=True)
            alike = ratio = "not converged"
        lines.append({"l2": str(l2), "size": size, "followed": followed, "spearman": alike, "ratio": ratio})
    return lines


def main(wanted: set[str]) -> None:
    """Compare every wanted structure with the exact answer, and write the table."""
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = torch.tensor(X[order] / 8 - 1, dtype=torch.float32), torch.tensor(y[order])
    data, new = (X[:ROWS], y[:ROWS]), X[ROWS : ROWS + AUDITED]
    known = list(csv.DictReader(PAGE.open())) if PAGE.exists() else []
    lines = [line for line in known if line["size"] not in wanted]
    for name, (build, epochs) in NETWORKS.items():
        network = trained(build, *data, epochs)
        count = sum(p.numel() for p in network.parameters())
        for l2 in PENALTIES:
            for line in measured(network, l2, wanted if name == "dense" else wanted - ITERATIVE, data, new):
                lines.append({"network": name, "parameters": str(count), **line})
                print(*lines[-1].values(), flush=True)
    names, structures = list(NETWORKS), list(STRUCTURES)
    lines.sort(key=lambda of: (names.index(of["network"]), of["l2"], structures.index((of["size"], of["followed"]))))
    with PAGE.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(lines)


if __name__ == "__main__":
    main(set(sys.argv[1:]) or {size for size, _ in STRUCTURES})
