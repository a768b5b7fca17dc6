"""Time of fit and audit on a GPU, after a warm-up: `python benchmarks/gpu.py benchmarks/gpu.json`."""

import json
import sys
import time
import warnings
from pathlib import Path

import torch

import rue

SIZES = ((600, 50, 7_592), (600, 1_000, 7_592), (20_000, 500, 100_000), (2_000, 100_000, 1_000))  # n, hidden units, m


def main() -> None:
    warnings.simplefilter("ignore", rue.errors.RueWarning)
    rows = []
    for n, hidden, m in SIZES:
        model, data, inputs = problem(n, hidden, m)
        methods = {"LinearRUE": rue.LinearRUE()}
        if hidden < 100_000:
            methods["RUE, Gauss–Newton"] = rue.RUE(members=200, curvature=rue.curvature.GaussNewton(), damping=None)
        for name, method in methods.items():
            row = {"n": n, "d": model.theta.numel(), "m": m, "contender": name, **timed(method, model, data, inputs)}
            rows.append(row)
            print(row, flush=True)
    found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def problem(n: int, hidden: int, m: int) -> tuple[rue.Model, tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A network with random weights: its fit does not change what an audit costs."""
    generator = torch.Generator().manual_seed(0)
    X, X_new = torch.randn(n, 8, generator=generator), torch.randn(m, 8, generator=generator)
    y = X[:, 0].sin() + 0.1 * torch.randn(n, generator=generator)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, hidden), torch.nn.Softplus(), torch.nn.Linear(hidden, 1)).cuda()
    return rue.wrap(net, loss="squared_error", l2=1.0), (X, y), X_new


def timed(method, model, data, inputs) -> dict[str, object]:
    for _ in range(2):  # the first is the warm-up
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        start = time.perf_counter()
        auditor = method.fit(model, data)
        torch.cuda.synchronize()
        fitted = time.perf_counter()
        auditor.audit(inputs)
        torch.cuda.synchronize()
        done = time.perf_counter()
    return {
        "fit": round(fitted - start, 4),
        "audit": round(done - fitted, 4),
        "peak_mib": round(torch.cuda.max_memory_allocated() / 2**20),
        "solver": auditor.facts["solver"],
    }


if __name__ == "__main__":
    main()
