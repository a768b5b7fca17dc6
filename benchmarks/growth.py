"""What every structure costs, and what it keeps, as rows, parameters and outputs grow.

`python benchmarks/growth.py` writes `docs/scale/growth.csv`, the exponents beside it and a figure. Networks with two
hidden layers are trained on simulated rows for a few steps; `LinearRUE` under a stated l2 audits 100 other rows.
Seconds are those of the processor. Exponents are slopes of log seconds over the last three sizes; fidelity is the
Spearman correlation of `std` with that of the exact structure. What would take more than `LIMIT` seconds by the last
size is left out.
"""

import csv
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from rue.errors import RueError
from scipy.stats import spearmanr
from torch import Tensor, nn

import rue

PAGE = Path(__file__).parent.parent / "docs" / "scale" / "growth.csv"
LIMIT, AUDITED, FEATURES = 25.0, 100, 20
STRUCTURES: dict[str, Callable[[], rue.LinearRUE]] = {
    "Cholesky": lambda: rue.LinearRUE(solver=rue.solve.Cholesky()),
    "Dual": lambda: rue.LinearRUE(solver=rue.solve.Dual()),
    "StreamedDual": lambda: rue.LinearRUE(solver=rue.solve.StreamedDual()),
    "Sketch(512)": lambda: rue.LinearRUE(solver=rue.solve.Sketch(512)),
    "EKFAC": lambda: rue.LinearRUE(solver=rue.solve.EKFAC()),
    "Blocks": lambda: rue.LinearRUE(solver=rue.solve.Blocks()),
    "ConjugateGradient": lambda: rue.LinearRUE(solver=rue.solve.ConjugateGradient(1e-2)),
    "last layer": rue.LinearRUE,
}
EXACT = ("Cholesky", "Dual", "StreamedDual")  # the first that ran is what others are compared with
GROWING: dict[str, list[tuple[int, int, int]]] = {  # rows, units of a hidden layer, outputs
    "rows": [(n, 32, 1) for n in (250, 500, 1000, 2000, 4000)],
    "parameters": [(500, width, 1) for width in (16, 32, 64, 128, 256)],
    "outputs": [(500, 32, k) for k in (1, 2, 4, 8, 16)],
}


def trained(n: int, width: int, k: int) -> tuple[rue.Model, tuple[Tensor, Tensor], Tensor, nn.Module]:
    """A network, its rows, and others to audit."""
    torch.manual_seed(0)
    X = torch.randn(n + AUDITED, FEATURES)
    y = torch.tanh(X @ torch.randn(FEATURES, k)) + 0.3 * torch.randn(n + AUDITED, k)
    net = nn.Sequential(nn.Linear(FEATURES, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, k))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        (net(X[:n]) - y[:n]).square().mean().backward()
        optimizer.step()
    return rue.wrap(net, loss="squared_error", l2=1.0), (X[:n], y[:n]), X[n:], net


def measured(structure: str, case: tuple[int, int, int]) -> tuple[float, float, np.ndarray, int]:
    """Seconds of the fit and of the audit, deviations, and the parameters of the network."""
    model, data, inputs, net = trained(*case)
    if structure == "last layer":
        model = rue.wrap(net, loss="squared_error", l2=1.0, select="4.*")
    start = time.process_time()
    auditor = STRUCTURES[structure]().fit(model, data)
    fitted = time.process_time()
    std = auditor.audit(inputs).std
    return fitted - start, time.process_time() - fitted, std, sum(part.numel() for part in net.parameters())


def lines() -> Iterator[dict[str, object]]:
    """One line for each structure and size that could be had."""
    for growing, sizes in GROWING.items():
        spent = dict.fromkeys(STRUCTURES, 0.0)
        for case in sizes:
            exact = None
            for structure in STRUCTURES:
                if spent[structure] > LIMIT / 6:  # the next size takes up to eight times as long
                    continue
                try:
                    fit, audit, std, parameters = measured(structure, case)
                except RueError as error:
                    print(structure, case, str(error)[:200], flush=True)
                    continue
                spent[structure] = fit + audit
                exact = std if exact is None and structure in EXACT else exact
                same = "" if exact is None else f"{spearmanr(std.ravel(), exact.ravel())[0]:.3f}"
                row = dict(zip(("rows", "units", "outputs"), case, strict=True))
                found = {"growing": growing, "structure": structure, **row, "parameters": parameters}
                yield {**found, "fit_s": f"{fit:.3g}", "audit_s": f"{audit:.3g}", "spearman": same}


def exponents(found: list[dict[str, object]]) -> list[dict[str, str]]:
    """How seconds of a fit and of an audit grow with each size, and the least that was kept."""
    table = []
    for structure in STRUCTURES:
        cells = {"structure": structure}
        for growing in GROWING:
            own = [row for row in found if (row["structure"], row["growing"]) == (structure, growing)]
            sizes = np.log([float(str(row[growing])) for row in own[-3:]])
            for what in ("fit", "audit"):
                seconds = np.log([float(str(row[f"{what}_s"])) for row in own[-3:]])
                cells[f"{what}, {growing}"] = f"{np.polyfit(sizes, seconds, 1)[0]:.1f}" if len(own) > 2 else ""
        kept = [float(str(row["spearman"])) for row in found if row["structure"] == structure and row["spearman"]]
        table.append({**cells, "least Spearman": f"{min(kept):.2f}" if kept else ""})
    return table


def draw(found: list[dict[str, object]], path: Path) -> None:
    """Seconds of a fit over what grows, one line for each structure."""
    figure, axes = plt.subplots(1, len(GROWING), figsize=(10.5, 3.8), sharey=True, layout="constrained")
    for axis, growing in zip(axes, GROWING, strict=True):
        for i, structure in enumerate(STRUCTURES):
            own = [row for row in found if (row["structure"], row["growing"]) == (structure, growing)]
            x, y = [int(str(row[growing])) for row in own], [float(str(row["fit_s"])) for row in own]
            axis.plot(x, y, marker="osD^vP*X"[i], markersize=4, label=structure)
        axis.set(xscale="log", yscale="log", xlabel=growing)
        axis.minorticks_off()
    axes[0].set_ylabel("a fit, seconds of the processor")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path, dpi=110)


def write(path: Path, rows: list[dict[str, object]] | list[dict[str, str]]) -> None:
    """A file with a line of names."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found = []
    for row in lines():
        print(*row.values(), flush=True)
        found.append(row)
    write(PAGE, found)
    write(PAGE.with_name("exponents.csv"), exponents(found))
    draw(found, PAGE.with_suffix(".png"))
