"""What bfloat16 and fewer classes change in a sketch: variances of margins, on networks trained on 1,000 digits.

`python benchmarks/precision.py [--out FILE]`, on a GPU: bfloat16 is used there alone.
"""

import argparse
import warnings
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

import rue

ROWS = 1000
WAYS = {  # may bfloat16 be used, the seed, the classes followed
    "float32": (False, 0, None),
    "float32, another seed": (False, 1, None),
    "bfloat16": (True, 0, None),
    "float32, 4 classes followed": (False, 0, 4),
    "float32, 2 classes followed": (False, 0, 2),
}


class Lines(nn.Module):
    """A transformer over the lines of a picture."""

    def __init__(self, width: int = 256, layers: int = 4):
        super().__init__()
        self.enter, self.places = nn.Linear(8, width), nn.Parameter(0.1 * torch.randn(8, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.enter(x[:, 0]) + self.places).mean(1))


def convolutions(batch_norms: bool) -> nn.Module:
    """Three convolutions of 1.2 million parameters."""
    parts: list[nn.Module] = []
    before = 1
    for width, pool in ((128, nn.Identity()), (256, nn.MaxPool2d(2)), (384, nn.AdaptiveAvgPool2d(2))):
        norm = nn.BatchNorm2d(width) if batch_norms else nn.GroupNorm(8, width)
        parts += [nn.Conv2d(before, width, 3, padding=1, bias=not batch_norms), norm, nn.ReLU(), pool]
        before = width
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(4 * before, 10))


NETWORKS = {
    "convolutions, group norms": lambda: convolutions(False),
    "convolutions, batch norms": lambda: convolutions(True),
    "transformer": Lines,
}


def trained(net: nn.Module, X: Tensor, y: Tensor) -> nn.Module:
    """25 epochs of AdamW."""
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.01)
    for _ in range(25):
        for part in torch.randperm(len(X), device=X.device).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(net(X[part]), y[part]).backward()
            optimizer.step()
    return net.eval()


def variances(audit: rue.Audit) -> NDArray[np.float64]:
    """Of the margin between the two leading classes."""
    first, second = np.argsort(-audit.prediction, axis=1)[:, :2].T
    rows, spread = np.arange(len(first)), audit.covariance
    assert spread is not None
    return np.asarray(spread[rows, first, first] + spread[rows, second, second] - 2 * spread[rows, first, second])


def main() -> None:
    """Compare every way with the first, and with another seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/scale/precision.csv"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    digits = load_digits()
    torch.manual_seed(0)
    order = torch.randperm(len(digits.target))
    X = (torch.tensor(digits.images, dtype=torch.float32)[order, None] / 16).to(device)
    y = torch.tensor(digits.target)[order].to(device)
    lines = []
    for name, build in NETWORKS.items():
        torch.manual_seed(1)
        net = trained(build().to(device), X[:ROWS], y[:ROWS])
        model = rue.wrap(net, loss=nn.CrossEntropyLoss(), l2=1.0)
        found: dict[str, NDArray[np.float64]] = {}
        for way, (half, seed, followed) in WAYS.items():
            never = mock.patch("rue.models.torch.drawn_layers._halved", return_value=False)
            with nullcontext() if half else never:
                method = rue.LinearRUE(solver=rue.solve.Sketch(4096, seed, followed))
                audit = method.fit(model, (X[:ROWS], y[:ROWS])).audit(X[ROWS:])
            if half and "layers_in" not in audit.facts:
                continue  # a CPU, or too coarse for this network
            found[way] = variances(audit)
            if way == "float32":
                continue
            lines.append(
                {
                    "network": name,
                    "parameters": model.theta.numel(),
                    "passes": way,
                    "spearman_with_float32": round(float(spearmanr(found[way], found["float32"])[0]), 4),
                    "spearman_with_another_seed": round(
                        float(spearmanr(found[way], found["float32, another seed"])[0]), 4
                    ),
                    "median_ratio": round(float(np.median(found[way] / found["float32"])), 3),
                }
            )
    pd.DataFrame(lines).to_csv(asked.out, index=False)


if __name__ == "__main__":
    main()
