"""Fit an audit on a Ray cluster: its sums over training rows are tasks, to the bit those of one process.

Every task reads the rows itself, here from a Parquet file that all machines can read; only sums travel. Run
`python examples/engines/on_ray.py` after `pip install ray`.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import ray
import torch
from rue.sharing import Part, Sent, Sums
from torch import nn

import rue


def rows_of(path: str) -> tuple[np.ndarray, np.ndarray]:
    """The inputs and targets in a file."""
    table = pd.read_parquet(path)
    return table.drop(columns="y").to_numpy(np.float32), table["y"].to_numpy(np.float32)


@ray.remote(num_cpus=1)
def node_sums(sent: Sent, path: str, node: range) -> Sums:
    """The sums of some blocks, in a worker."""
    torch.set_num_threads(1)
    return sent.added(rows_of(path), node)


@dataclass(frozen=True)
class RayWorkers:
    """Tasks on a Ray cluster that share the sums of a fit."""

    path: str
    count: int = 2

    def sums(self, part: Part, blocks: Sequence, nodes: Sequence[range]) -> list[Sums]:
        """Hand every node to a task."""
        sent = ray.put(Sent.of(part, blocks))
        return [
            tuple(each.clone() for each in sums)  # what Ray hands out cannot be written to
            for sums in ray.get([node_sums.remote(sent, self.path, node) for node in nodes])
        ]


def fitted_network(path: str) -> tuple[rue.Model, tuple[np.ndarray, np.ndarray]]:
    """A network trained on the rows of a file, and the rows."""
    X, y = rows_of(path)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(X.shape[1], 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for rows in torch.randperm(len(X)).split(256):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(torch.from_numpy(X[rows]))[:, 0], torch.from_numpy(y[rows])).backward()
        optimizer.step()
    return rue.wrap(net, loss=nn.MSELoss()), (X, y)


def fit(path: str, workers: int = 2) -> rue.Auditor:
    """The audit of a network on the rows of a file, by so many workers."""
    model, rows = fitted_network(path)
    with rue.workers(RayWorkers(path, workers)):
        return rue.CalibratedRUE().fit(model, rows)


def write_rows(path: str, count: int = 30_000) -> None:
    """Some rows to try it with."""
    source = np.random.default_rng(0)
    X = source.normal(size=(count, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * source.normal(size=count)
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_parquet(path)


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "rows.parquet")
        write_rows(file)
        print(fit(file).audit(rows_of(file)[0][:5]).to_frame().round(2))
    ray.shutdown()
