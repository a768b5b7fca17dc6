"""Does a plan keep its word? Memory and seconds that `rue.plan` says, against those of the fit and audit it chose.

`python benchmarks/planned.py [--out FILE] [NAME ...]` runs every case, or those that are named, in a process of its own
and replaces its line of JSON. Run it on an idle machine.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import rue

AUDITED = 1000  # rows


class Case(NamedTuple):
    """A network by its kind and width, and the numbers of rows and outputs."""

    kind: str
    width: int
    rows: int
    outputs: int


CASES = {  # the constants of `core/costs.py` were settled on these
    "small dense": Case("dense", 30, 1_000, 1),
    "dense": Case("dense", 60, 4_000, 1),
    "many rows": Case("dense", 40, 20_000, 1),
    "classes": Case("dense", 40, 2_000, 5),
    "few rows": Case("dense", 150, 500, 1),
    "dual": Case("dense", 85, 2_000, 1),
    "dual, classes": Case("dense", 150, 1_000, 4),
    "wide": Case("dense", 120, 9_000, 1),
    "pictures": Case("pictures", 16, 2_000, 10),
    "more pictures": Case("pictures", 48, 1_000, 10),
    "large": Case("dense", 2_000, 1_000, 2),
    "sentences": Case("sentences", 64, 1_500, 3),
}
OTHERS = {  # and looked at on these afterwards
    "other dense": Case("dense", 50, 6_000, 1),
    "other many rows": Case("dense", 25, 50_000, 1),
    "other outputs": Case("dense", 30, 5_000, 3),
    "other few rows": Case("dense", 250, 300, 1),
    "other dual": Case("dense", 110, 3_000, 1),
    "other dual, classes": Case("dense", 200, 600, 6),
    "other wide": Case("dense", 100, 14_000, 1),
    "other pictures": Case("pictures", 24, 3_000, 5),
    "wider pictures": Case("pictures", 64, 800, 20),
    "other large": Case("dense", 1_400, 2_500, 3),
    "other sentences": Case("sentences", 96, 1_000, 4),
    "narrow sentences": Case("sentences", 32, 4_000, 2),
}


class Sentences(nn.Module):
    """Tokens through two layers of attention."""

    def __init__(self, width: int, outputs: int):
        super().__init__()
        self.words = nn.Embedding(500, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.words(x)).mean(1))


def problem(case: Case) -> tuple[nn.Module, Tensor, Tensor]:
    """A network with random weights, and rows for it."""
    torch.manual_seed(0)
    width, rows, outputs = case.width, case.rows, case.outputs
    if case.kind == "dense":
        hidden = [nn.Linear(20, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)]
        net, X = nn.Sequential(*hidden), torch.randn(rows, 20)
    elif case.kind == "pictures":
        layers = [nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        net, X = nn.Sequential(*layers, nn.Linear(32 * width, outputs)), torch.randn(rows, 3, 16, 16)
    else:
        net, X = Sentences(width, outputs), torch.randint(0, 500, (rows, 32))
    y = torch.randn(rows) if outputs == 1 else torch.randint(0, outputs, (rows,))
    return net.eval(), X, y


def measured(name: str) -> dict[str, Any]:
    """What was planned and what came of it, in this process."""
    warnings.simplefilter("ignore")
    case = (CASES | OTHERS)[name]
    net, X, y = problem(case)
    loss = "squared_error" if case.outputs == 1 else nn.CrossEntropyLoss()
    rue.LinearRUE().fit(rue.wrap(nn.Linear(3, 1), loss="squared_error", l2=1.0), (torch.randn(9, 3), torch.randn(9)))
    model = rue.wrap(net, loss=loss, l2=0.1)
    start = time.perf_counter()
    plan = rue.plan(model, (X, y), inputs=X[:AUDITED])
    planning = time.perf_counter() - start
    assert plan.chosen is not None
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark of memory starts anew
    start = time.perf_counter()
    auditor = rue.LinearRUE().fit(model, (X, y))
    fit = time.perf_counter() - start
    used = _memory("VmHWM") - before
    start = time.perf_counter()
    auditor.audit(X[:AUDITED])
    audit = time.perf_counter() - start
    return {
        "case": name,
        "rows": case.rows,
        "parameters": plan.size.d,
        "outputs": case.outputs,
        "way": plan.chosen.name,
        "planning_s": planning,
        "planned_bytes": plan.chosen.bytes,
        "bytes": used,
        "planned_fit_s": plan.chosen.seconds_fit,
        "fit_s": fit,
        "planned_audit_s": plan.chosen.seconds_audit,
        "audit_s": audit,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def _memory(entry: str) -> int:
    """Bytes of this process, as Linux counts them."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[entry].split()[0]) * 1024


def main() -> None:
    """Measure every case in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*CASES, *OTHERS, []])
    parser.add_argument("--out", type=Path, default=Path("docs/scale/plans.jsonl"))
    parser.add_argument("--here", action="store_true", help="measure one case in this process")
    asked = parser.parse_args()
    if asked.here:
        print(json.dumps(measured(asked.names[0])))
        return
    known = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    lines = {line["case"]: line for line in known}
    for name in asked.names or [*CASES, *OTHERS]:
        command = [sys.executable, __file__, name, "--here"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "RUE_PROGRESS": "0"}
        )
        row = lines[name] = json.loads(done.stdout.strip().splitlines()[-1])
        ratios = [row[f"planned_{what}"] / row[what] for what in ("bytes", "fit_s", "audit_s")]
        print(
            f"{name:16} {row['way']:14} planned over measured: memory {ratios[0]:.2f}, fit {ratios[1]:.2f}, "
            f"audit {ratios[2]:.2f}; planning took {row['planning_s']:.1f} s, the fit {row['fit_s']:.1f} s",
            flush=True,
        )
        ordered = [lines[each] for each in [*CASES, *OTHERS] if each in lines]
        asked.out.write_text("".join(json.dumps(line) + "\n" for line in ordered))


if __name__ == "__main__":
    main()
