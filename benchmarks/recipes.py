"""Ten other ways to train, none of them looked at while the method was settled, and what the audit says of each.

    python benchmarks/recipes.py run    train and audit; goes on where it stopped
    python benchmarks/recipes.py page   the tables of docs/practice.md, and all of it as docs/practice/recipes.csv

Tables are those that `practice.py prepare` wrote. OUT/recipes/LABEL/CELL.json has what came out of a cell.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from practice_parts import page
from practice_parts.cases import Case, draw, others
from practice_parts.metrics import LEVEL, Spread, nll_of_logits, of_classes, of_regression
from practice_parts.networks import Architecture, mean_loss, predicted
from practice_parts.recipes import BATCH
from practice_parts.stored import read_json, write_json
from practice_parts.tables import CLASSES, REGRESSION, Table, chosen
from scipy.stats import norm
from torch import Tensor, nn

import rue

ROWS, SPLITS = 400, (0, 1)
FIRST = {REGRESSION: 4, CLASSES: 3}  # tables of the half that is only reported, in the order of the list
LARGE_ENOUGH = 1500  # rows of a table, so that there are others to train on before
SMOOTHING = 0.1
KEPT = page.DOCS / "practice" / "recipes.csv"
LONGEST = 300  # characters of a message that are kept
Batches = Iterator[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Task:
    """Rows to train on, and other rows of the same table to train on before."""

    X: Tensor
    y: Tensor
    classes: int | None
    seed: int
    before: tuple[Tensor, Tensor]

    def network(self, activation: str = "ReLU") -> nn.Sequential:
        return Architecture(2, activation).build(self.X.shape[1], self.classes, self.seed)

    def batches(self, epochs: int, size: int = BATCH) -> Batches:
        yield from shuffled(self.X, self.y, epochs, size, self.seed)


def shuffled(X: Tensor, y: Tensor, epochs: int, size: int, seed: int) -> Batches:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(len(y), generator=generator)
        yield from zip(X[order].split(size), y[order].split(size), strict=True)


@dataclass(frozen=True)
class Made:
    """A network, and what the audits are told beside the name of the loss."""

    net: nn.Module
    told: dict[str, dict[str, Any]]


def plain(net: nn.Module) -> Made:
    return Made(net, {"nothing stated": {}})


def cosine(task: Task) -> Made:
    """AdamW, the learning rate from .005 to nothing along a cosine, 100 epochs."""
    net = task.network("SiLU")
    optimiser = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=0.01, fused=True)
    epochs = 100
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * -(-len(task.y) // BATCH))
    for X, y in task.batches(epochs):
        descend(optimiser, mean_loss(net(X), y))
        schedule.step()
    return plain(net)


def smoothed(task: Task) -> Made:
    """AdamW on labels that are smoothed by .1, 100 epochs; classes alone."""
    net, criterion = task.network(), nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01, fused=True)
    for X, y in task.batches(100):
        descend(optimiser, criterion(net(X), y))
    return Made(net, {"nothing stated": {}, "smoothing stated": {"loss": criterion}})


def mixed(task: Task) -> Made:
    """AdamW on mixtures of pairs of rows, shares of Beta(.2, .2) (Zhang et al. 2018), 100 epochs."""
    net, generator = task.network(), np.random.default_rng(task.seed)
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01, fused=True)
    for X, y in task.batches(100):
        share, other = generator.beta(0.2, 0.2), torch.from_numpy(generator.permutation(len(y)))
        outputs = net(share * X + (1 - share) * X[other])
        descend(optimiser, share * mean_loss(outputs, y) + (1 - share) * mean_loss(outputs, y[other]))
    return plain(net)


def averaged(task: Task) -> Made:
    """AdamW, 100 epochs, the weights averaged over the ends of the last 25."""
    net, epochs = task.network("SiLU"), 100
    mean = torch.optim.swa_utils.AveragedModel(net)
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01, fused=True)
    steps = -(-len(task.y) // BATCH)
    for step, (X, y) in enumerate(task.batches(epochs), 1):
        descend(optimiser, mean_loss(net(X), y))
        if step % steps == 0 and step > (epochs - 25) * steps:
            mean.update_parameters(net)
    net.load_state_dict(mean.module.state_dict())
    return plain(net)


def sharpness_aware(task: Task) -> Made:
    """SGD with momentum, by the gradient where the loss is highest within .05 (Foret et al. 2021), 100 epochs."""
    net = task.network()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for X, y in task.batches(100):
        parameters = list(net.parameters())
        slopes = torch.autograd.grad(mean_loss(net(X), y), parameters)
        length = torch.stack([slope.norm() for slope in slopes]).norm() + 1e-12
        climbed = [0.05 * slope / length for slope in slopes]
        with torch.no_grad():
            torch._foreach_add_(parameters, climbed)
        optimiser.zero_grad()
        mean_loss(net(X), y).backward()
        with torch.no_grad():
            torch._foreach_sub_(parameters, climbed)
        optimiser.step()
    return plain(net)


def rmsprop(task: Task) -> Made:
    """RMSprop, learning rate .001, 100 epochs."""
    net = task.network()
    optimiser = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for X, y in task.batches(100):
        descend(optimiser, mean_loss(net(X), y))
    return plain(net)


def all_at_once(task: Task) -> Made:
    """SGD with momentum on all rows in one batch, learning rate .02 · n / 64, 500 steps."""
    net, rows = task.network(), len(task.y)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.02 * rows / BATCH, momentum=0.9)
    for X, y in task.batches(500, rows):
        descend(optimiser, mean_loss(net(X), y))
    return plain(net)


def clipped(task: Task) -> Made:
    """SGD with momentum, learning rate .05, gradients no longer than 1, 100 epochs."""
    net = task.network("SiLU")
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for X, y in task.batches(100):
        optimiser.zero_grad()
        mean_loss(net(X), y).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
    return plain(net)


def fine_tuned(task: Task) -> Made:
    """AdamW, 40 epochs on the other rows, then 10 on the training rows with a third of the learning rate."""
    net = task.network()
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01, fused=True)
    for X, y in shuffled(*task.before, 40, BATCH, task.seed):
        descend(optimiser, mean_loss(net(X), y))
    start = {name: value.clone() for name, value in net.state_dict().items()}
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    for X, y in task.batches(10):
        descend(optimiser, mean_loss(net(X), y))
    return Made(net, {"nothing stated": {}, "centre stated": {"centre": start}})


def quantised(task: Task) -> Made:
    """AdamW through weights rounded to 8 bits for each tensor, 100 epochs; what is audited has the rounded weights."""
    net = task.network()
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01, fused=True)
    for X, y in task.batches(100):
        used = {name: value + (rounded(value) - value).detach() for name, value in net.named_parameters()}
        descend(optimiser, mean_loss(torch.func.functional_call(net, used, X), y))
    with torch.no_grad():
        for value in net.parameters():
            value.copy_(rounded(value))
    return plain(net)


def rounded(value: Tensor) -> Tensor:
    """On the grid of 255 values, zero in its middle, that reaches the largest."""
    step = value.detach().abs().max().clamp_min(1e-12) / 127
    return (value.detach() / step).round() * step


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


TRIED: dict[str, Callable[[Task], Made]] = {
    "cosine schedule": cosine,
    "label smoothing": smoothed,
    "mixup": mixed,
    "averaged weights": averaged,
    "sharpness-aware": sharpness_aware,
    "RMSprop": rmsprop,
    "full batch": all_at_once,
    "clipped gradients": clipped,
    "fine-tuned": fine_tuned,
    "8-bit weights": quantised,
}


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("command", choices=("run", "page"))
    parser.add_argument("--out", type=Path, default=Path("practice-output"), help="folder of all results")
    parser.add_argument("--tables-file", type=Path, help="what prepare wrote, if not OUT/tables.npz")
    parser.add_argument("--label", default="now", help="name of this state of rue")
    parser.add_argument("--recipe", default="", help="the beginning of a recipe's name")
    parser.add_argument("--splits", type=int, nargs="+", default=SPLITS)
    given = parser.parse_args()
    folder, tables = given.out / "recipes" / given.label, given.tables_file or given.out / "tables.npz"
    if given.command == "page":
        KEPT.parent.mkdir(exist_ok=True)
        collected(folder).to_csv(KEPT, index=False, float_format="%.5g")
        page.PAGE.write_text(renewed())
        return
    torch.set_num_threads(1)
    for split in given.splits:
        for table in wanted(tables):
            for recipe in (name for name in TRIED if name.startswith(given.recipe)):
                measured(tables, table, split, recipe, folder)


def wanted(tables: Path) -> list[Table]:
    """The first tables of each kind that are large enough: chosen by a rule, not by what came out."""
    with np.load(tables) as file:
        large = [table for table in chosen("report") if len(file[f"{table.name}/y"]) >= LARGE_ENOUGH]
    return [table for kind, first in FIRST.items() for table in [t for t in large if t.kind == kind][:first]]


def measured(tables: Path, table: Table, split: int, recipe: str, folder: Path) -> None:
    """One cell, trained and audited, unless it is there."""
    path = folder / f"{table.name}-s{split}-{recipe.replace(' ', '-')}.json"
    if path.exists() or (recipe == "label smoothing" and table.kind == REGRESSION):
        return
    start, case = time.perf_counter(), draw(tables, table, ROWS, split)
    before = others(tables, table, ROWS, split)
    made = TRIED[recipe](Task(case.X, case.y, case.classes, split, before))
    known = {"kind": table.kind, "recipe": recipe, "table": table.name, "split": split}
    write_json(path, [{**known, "told": told, **audited(case, made.net, how)} for told, how in made.told.items()])
    print(f"{path.stem} {time.perf_counter() - start:.1f} s", flush=True)


def audited(case: Case, net: nn.Module, told: dict[str, Any]) -> dict[str, Any]:
    """Numbers of one audit; an audit that raises is a result, too."""
    told = {"loss": "squared_error" if case.classes is None else "cross_entropy", **told}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            audit = rue.audit(net, train=(case.X, case.y), inputs=case.X_test, **told)
            seconds = time.process_time() - start
            numbers = _of_classes(case, net, audit) if case.classes else _of_numbers(case, audit)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:LONGEST]}
    return {**numbers, "seconds": seconds, "left_out": str(audit.facts.get("left_out", ""))}


def _of_numbers(case: Case, audit: rue.Audit) -> dict[str, Any]:
    """With the likelihood of the constant: a Gaussian whose deviation is the audit's own for rows left out."""
    y, interval = case.y_test.double().numpy(), audit.interval(LEVEL)
    parts = (audit.score, audit.total_std, audit.log_prob(y), interval.lower, interval.upper, audit.prediction)
    *spread, f = (np.asarray(part, float).reshape(len(y)) for part in parts)
    constant = norm.logpdf(y, f, audit.facts["left_out_std"][0])
    rmse = float(np.sqrt(((y - f) ** 2).mean()))
    return {**of_regression(Spread(*spread), f, y), "nll_constant": float(-constant.mean()), "rmse": rmse}


def _of_classes(case: Case, net: nn.Module, audit: rue.Audit) -> dict[str, Any]:
    y, parts = case.y_test.numpy(), (audit.score, audit.probability, audit.label)
    logits = predicted(net, case.X_test).numpy()
    return {**of_classes(*map(np.asarray, parts), y), "nll_softmax": nll_of_logits(logits, y)}


def collected(folder: Path) -> pd.DataFrame:
    """One row for each audit of each cell, in the order of the recipes."""
    lines = [line for path in sorted(folder.glob("*.json")) for line in read_json(path)]
    if not lines:
        raise SystemExit(f"there are no cells in {folder}; run first")
    found = pd.DataFrame(lines)
    place = found["recipe"].map(list(TRIED).index)
    return found.loc[(place + 100 * (found["kind"] == CLASSES)).sort_values(kind="stable").index]


def renewed() -> str:
    """The page with its two tables made anew."""
    found, text = pd.read_csv(KEPT), page.PAGE.read_text()
    for kind in (REGRESSION, CLASSES):
        text = page.with_table(text, f"recipes {kind}", markdown(found[found["kind"] == kind], kind))
    return text


def markdown(found: pd.DataFrame, kind: str) -> str:
    """Means over splits, then over tables; the worst coverage is that of the worst table."""
    columns = SHOWN[kind]
    lines = ["| recipe | " + " | ".join(columns) + " | raised |", "|---|" + "---:|" * (len(columns) + 1)]
    for (recipe, told), own in found.groupby(["recipe", "told"], sort=False):
        name = recipe if told == "nothing stated" else f"{recipe}, {told}"
        by_table = own.groupby("table", sort=False)[list(MEASURED[kind])].mean()
        raised = own["error"].notna().sum() if "error" in own else 0
        cells = [made(by_table) for made in columns.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {raised} of {len(own)} |")
    return "\n".join(lines) + "\n"


MEASURED = {
    REGRESSION: ("std_ratio", "coverage", "nll", "nll_constant", "auc", "rmse", "seconds"),
    CLASSES: ("nll", "nll_softmax", "gap", "auc", "accuracy", "seconds"),
}
SHOWN: dict[str, dict[str, Callable[[pd.DataFrame], str]]] = {
    REGRESSION: {
        "std / RMSE": lambda own: f"{own['std_ratio'].mean():.2f}",
        "from to": lambda own: f"{own['std_ratio'].min():.2f} to {own['std_ratio'].max():.2f}",
        "coverage": lambda own: f"{own['coverage'].mean():.3f}",
        "of the worst table": lambda own: f"{own['coverage'].min():.3f}",
        "NLL": lambda own: f"{own['nll'].mean():.3f}",
        "less the constant's": lambda own: f"{(own['nll'] - own['nll_constant']).mean():+.3f}",
        "AUC": lambda own: f"{own['auc'].mean():.3f}",
        "RMSE": lambda own: f"{own['rmse'].mean():.3f}",
        "seconds": lambda own: f"{own['seconds'].mean():.1f}",
    },
    CLASSES: {
        "NLL": lambda own: f"{own['nll'].mean():.3f}",
        "less the softmax's": lambda own: f"{(own['nll'] - own['nll_softmax']).mean():+.3f}",
        "score against error rate": lambda own: f"{own['gap'].mean():.3f}",
        "AUC": lambda own: f"{own['auc'].mean():.3f}",
        "accuracy": lambda own: f"{own['accuracy'].mean():.3f}",
        "seconds": lambda own: f"{own['seconds'].mean():.1f}",
    },
}


if __name__ == "__main__":
    main()
