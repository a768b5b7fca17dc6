"""`rue paper`: compute what is missing, write tables and figures, say how they compare with the paper."""

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from rue.experiments.paper import claim1, fidelity, figure1, figure2, table1
from rue.experiments.paper.protocol import TITLES
from rue.experiments.paper.results import Results, gather
from rue.experiments.paper.work import Plan, Task, compute, seconds, tasks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

What = Literal["figure1", "figure2", "table1", "claim1", "fidelity", "all"]

AFTER_LEARNING = ("networks", "refits", "audits")
INTEGRATED = ("pbp", "dropout", "ensembles")
STANDARD = (*INTEGRATED, "networks", "likelihoods")


@dataclass(frozen=True)
class Report:
    """Where results are written, and what is said of them."""

    plan: Plan
    console: Console

    def save(self, name: str, frame: "pd.DataFrame | None" = None, figure: "Figure | None" = None) -> None:
        """A table as CSV, a figure as PNG and SVG."""
        folder = self.plan.out
        folder.mkdir(parents=True, exist_ok=True)
        if frame is not None:
            frame.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
        if figure is not None:
            figure.savefig(folder / f"{name}.png", dpi=150)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def run(what: What, plan: Plan, console: Console) -> None:
    """Make one of the paper's figures or tables, or all."""
    start = time.perf_counter()
    report = Report(plan, console)
    chosen = ("figure1", "claim1", "figure2", "fidelity", "table1") if what == "all" else (what,)
    wanted = [task for task in _needed(plan, chosen)]
    compute(plan, wanted, console)
    for name in chosen:
        MAKERS[name](report, gather(plan, wanted))
    _facts(report, wanted, time.perf_counter() - start)
    console.print(f"\nTables and figures are in {plan.out}.")
