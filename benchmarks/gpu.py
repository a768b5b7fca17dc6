"""Time of fit and audit on an accelerator, in seconds, after a warm-up: python benchmarks/gpu.py RESULTS.json."""

import json
import sys
import time
import warnings
from pathlib import Path

import torch

import rue

SIZES = {  # name: (n, hidden units, m)
    "n=600 d=501": (600, 50, 7_592),
    "n=600 d=10,001": (600, 1_000, 7_592),
    "n=20,000 d=5,001": (20_000, 500, 100_000),
    "n=2,000 d=1,000,001": (2_000, 100_000, 1_000),
}


def problem(n: int, hidden: int, m: int) -> tuple[rue.Model, tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    X, X_new = torch.randn(n, 8, generator=generator), torch.randn(m, 8, generator=generator)
    y = X[:, 0].sin() + 0.1 * torch.randn(n, generator=generator)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, hidden), torch.nn.Softplus(), torch.nn.Linear(hidden, 1)).cuda()
    return rue.wrap(net, loss="squared_error", l2=1.0), (X, y), X_new


def timed(method, model, data, inputs) -> dict[str, object]:
    for _ in range(2):  # the first is the warm-up
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        auditor = method.fit(model, data)
        torch.cuda.synchronize()
        fitted = time.perf_counter()
        auditor.audit(inputs)
        torch.cuda.synchronize()
        done = time.perf_counter()
    memory = torch.cuda.max_memory_allocated() / 2**20
    return {
        "fit_seconds": round(fitted - start, 4),
        "audit_seconds": round(done - fitted, 4),
        "peak_mib": round(memory),
        "solver": auditor.facts["solver"],
    }


def main() -> None:
    warnings.simplefilter("ignore", rue.errors.RueWarning)
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, size in SIZES.items():
        model, data, inputs = problem(*size)
        methods = {"LinearRUE": rue.LinearRUE()}
        if "1,000,001" not in name:
            sampled = rue.RUE(members=200, curvature=rue.curvature.GaussNewton(), damping=None)
            methods["RUE, 200 members, Gauss-Newton"] = sampled
        for label, method in methods.items():
            results[f"{name} {label}"] = timed(method, model, data, inputs)
            print(name, label, results[f"{name} {label}"], flush=True)
    Path(sys.argv[1] if len(sys.argv) > 1 else "gpu.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
