"""`rue paper` on small made-up data with hardly any training; run as a script it may kill itself while it writes.

python small_run.py OUTPUT WHAT [KILL_AT]: the run is killed (-9) in the KILL_AT-th write, before the file has its name.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

from rue import datasets
from rue.cli import paper_network
from rue.core import files
from rue.methods.integrated import PBP, Adam, DeepEnsemble, MCDropout
from rue_paper import parts, protocol, work
from rue_paper.run import run

NAMES = ("wine", "yacht")  # one with two protocols, one with one
RECIPE = Adam(epochs=3, batch=16)


def made_up(name: str, folder: object = None) -> datasets.Dataset:
    random = np.random.default_rng(NAMES.index(name))
    X = random.standard_normal((70, 3))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.2 * random.standard_normal(70) * (1 + X[:, 2] ** 2)
    return datasets.Dataset(name, X, 10 * y, ("a", "b", "c"), "y", "made up", "none")


def plan(out: Path, splits: int = 3) -> work.Plan:
    return work.Plan(NAMES, splits, out, workers=1)


def shrink(set_attribute=setattr, set_item=dict.__setitem__) -> None:
    """Small data and short training, by plain assignment or by a test's monkeypatch."""
    set_attribute(datasets, "load", made_up)
    set_attribute(protocol, "SMALL_SAMPLE", 40)
    set_attribute(paper_network, "RECIPE", RECIPE)
    set_attribute(parts, "RECIPE", RECIPE)
    set_attribute(parts, "REFITS", 4)
    for name, method in {
        "pbp": PBP(epochs=2),
        "dropout": MCDropout(members=6, training=RECIPE, rates=(0.1,)),
        "ensembles": DeepEnsemble(members=2, training=RECIPE),
    }.items():
        part = parts.Part(parts.integrated(lambda _, method=method: method), repr(method), at_once=2)
        set_item(parts.PARTS, name, part)


def kill_at(write: int) -> None:
    """Die at the last moment before a finished file gets its name."""
    writes = iter(range(1, write + 1))

    def fsync(_: int) -> None:
        if next(writes) == write:
            os.kill(os.getpid(), signal.SIGKILL)

    files.os.fsync = fsync


if __name__ == "__main__":
    shrink()
    if len(sys.argv) > 3:
        kill_at(int(sys.argv[3]))
    run(sys.argv[2], plan(Path(sys.argv[1])), Console(quiet=True))
