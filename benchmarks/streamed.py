"""Seconds of a fit and an audit by the streamed dual form and by the plain one, on one thread.

`python benchmarks/streamed.py` prints one line for each network: 500 rows of two classes, 100 audited ones.
"""

import time
import warnings

import torch
from torch import nn

import rue

ROWS, AUDITED = 500, 100


def dense(width: int) -> tuple[nn.Module, torch.Tensor]:
    """Layers at one position of a row."""
    net = nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
    return net, torch.randn(ROWS + AUDITED, 64)


def convolutions(width: int) -> tuple[nn.Module, torch.Tensor]:
    """Layers at many positions."""
    net = nn.Sequential(
        nn.Conv2d(3, width, 3, stride=2), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 2),
    )  # fmt: skip
    return net, torch.randn(ROWS + AUDITED, 3, 16, 16)


def seconds(solver: object, net: nn.Module, X: torch.Tensor) -> tuple[float, float]:
    """Seconds of fit and audit."""
    model = rue.wrap(net.eval(), loss="cross_entropy", l2=1.0)
    y = torch.arange(ROWS) % 2
    start = time.perf_counter()
    auditor = rue.LinearRUE(solver=solver).fit(model, (X[:ROWS], y))
    middle = time.perf_counter()
    auditor.audit(X[ROWS:])
    return middle - start, time.perf_counter() - middle


def main() -> None:
    """Print the lines."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for make, width in ((dense, 285), (dense, 968), (convolutions, 105), (convolutions, 333)):
        torch.manual_seed(0)
        net, X = make(width)
        d = sum(part.numel() for part in net.parameters())
        for solver in (rue.solve.StreamedDual(), rue.solve.Dual()):
            fit, audit = seconds(solver, net, X)
            print(f"{make.__name__:13} d = {d:9,} {solver!r:15} fit {fit:6.1f} s, audit {audit:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
