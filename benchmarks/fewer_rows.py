"""How many training rows does an audit need? `FewerRows` beside all rows, on three networks.

`python benchmarks/fewer_rows.py FOLDER` writes `docs/scale/fewer_rows.csv` and its figure; FOLDER has power.csv and
kin8nm.csv, target last. Digits: the dense network of `fidelity.py` under an l2 of 3; ranks and ratios are those of the
deviation of the margin between the two leading classes. Power and Kin8nm: 2,000 rows and the paper's network, trained
to rest under its l2 of 1. `covered` is the share of deviations within two standard errors of the exact ones.
"""

import csv
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from fidelity import dense, margin_variance, trained
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import Tensor, nn

import rue

PAGE = Path(__file__).parent.parent / "docs" / "scale" / "fewer_rows.csv"
SHARES = (0.05, 0.1, 0.2, 0.5)
ROWS, AUDITED, L2 = 2000, 500, 1.0
Deviation = Callable[[rue.Audit], np.ndarray]


def digits() -> tuple[rue.Model, tuple[Tensor, Tensor], Tensor, Deviation, int]:
    """A classifier of 17,226 parameters, 700 rows, and 200 others to audit."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = torch.tensor(X[order] / 8 - 1, dtype=torch.float32), torch.tensor(y[order])
    data = (X[:700], y[:700])
    model = rue.wrap(trained(dense, *data, 15), loss=nn.CrossEntropyLoss(reduction="sum"), l2=3.0)
    return model, data, X[700:900], lambda audit: np.sqrt(margin_variance(audit)), 3


def table(path: Path) -> tuple[rue.Model, tuple[Tensor, Tensor], Tensor, Deviation, int]:
    """The paper's network on 2,000 standardised rows."""
    values = np.loadtxt(path, delimiter=",", skiprows=1)
    values = values[np.random.default_rng(0).permutation(len(values))]
    values = torch.tensor((values - values[:ROWS].mean(0)) / values[:ROWS].std(0))
    X, y, new = values[:ROWS, :-1], values[:ROWS, -1], values[ROWS : ROWS + AUDITED, :-1]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(X.shape[1], 50), nn.Softplus(), nn.Linear(50, 1)).double()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=1500, history_size=50, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        optimizer.zero_grad()
        penalty = sum(p.square().sum() for p in net.parameters())
        value = 0.5 * (net(X)[:, 0] - y).square().sum() + 0.5 * L2 * penalty
        value.backward()
        return value

    optimizer.step(objective)
    return rue.wrap(net, loss="squared_error", l2=L2), (X, y), new, lambda audit: audit.std, 10


def measured(name: str, made: tuple[rue.Model, tuple[Tensor, Tensor], Tensor, Deviation, int]) -> list[dict[str, str]]:
    """The lines of one network."""
    model, data, new, deviation, draws = made
    exact = rue.LinearRUE().fit(model, data).audit(new)
    lines = []
    for share in SHARES:
        for by in ("uniform", "leverage"):
            audits = [rue.FewerRows(share, by=by, seed=seed).fit(model, data).audit(new) for seed in range(draws)]
            alike = [spearmanr(deviation(audit), deviation(exact))[0] for audit in audits]
            ratios = [np.median(deviation(audit) / deviation(exact)) for audit in audits]
            off = np.concatenate([np.ravel(np.abs(audit.std - exact.std) / audit.std) for audit in audits])
            said = np.concatenate([np.ravel(audit.std_error / audit.std) for audit in audits])
            numbers = {
                "spearman": np.mean(alike),
                "spearman_sd": np.std(alike, ddof=1),
                "ratio": np.mean(ratios),
                "ratio_sd": np.std(ratios, ddof=1),
                "error": np.median(off),
                "stated_error": np.median(said),
                "covered": np.mean(off <= 2 * said),
            }
            line = {"network": name, "share": str(share), "by": by, "draws": str(draws)}
            lines.append({**line, **{key: f"{value:.3f}" for key, value in numbers.items()}})
            print(*lines[-1].values(), flush=True)
    return lines


def drawn(lines: list[dict[str, str]], path: Path) -> None:
    """Correlation and ratio against the share, one column for each network."""
    names = list(dict.fromkeys(line["network"] for line in lines))
    figure, axes = plt.subplots(2, len(names), figsize=(3.2 * len(names), 5), sharex=True, sharey="row")
    for column, name in enumerate(names):
        for by, shape in (("uniform", "o--"), ("leverage", "s-")):
            rows = [line for line in lines if line["network"] == name and line["by"] == by]
            for row, key in enumerate(("spearman", "ratio")):
                value, error = ([float(line[of]) for line in rows] for of in (key, f"{key}_sd"))
                axes[row][column].errorbar([float(line["share"]) for line in rows], value, error, fmt=shape, label=by)
        axes[0][column].set_title(name)
        axes[1][column].axhline(1, color="grey", linewidth=0.5)
        axes[1][column].set_xlabel("share of the training rows")
    axes[0][0].set_ylabel("Spearman with all rows")
    axes[1][0].set_ylabel("std over that of all rows")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(folder: Path) -> None:
    """Compare every share with all rows, write the table and draw the figure."""
    warnings.simplefilter("ignore")
    tables = {name: lambda name=name: table(folder / f"{name.lower()}.csv") for name in ("Power", "Kin8nm")}
    lines = [line for name, make in {**tables, "Digits": digits}.items() for line in measured(name, make())]
    with PAGE.open("w", newline="") as file:
        page = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        page.writeheader()
        page.writerows(lines)
    drawn(lines, PAGE.with_suffix(".png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
