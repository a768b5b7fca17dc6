"""What `audit.std` means for a network that is not at rest: beside fifty refits on resampled rows.

    python benchmarks/refits.py run    refit and audit; goes on where it stopped
    python benchmarks/refits.py page   the table of docs/practice.md, and all of it as docs/practice/refits.csv

Tables are those that `practice.py prepare` wrote. OUT/refits/CELL.npz has the predictions of the refits, made once;
OUT/refits/LABEL/CELL.json what the audits say beside them.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from practice_parts import page
from practice_parts.cases import Case, draw
from practice_parts.networks import predicted
from practice_parts.recipes import RECIPES, Recipe, Stopped
from practice_parts.stored import read_arrays, read_json, write_arrays, write_json
from practice_parts.tables import chosen
from practice_parts.trained_model import Trained
from scipy.stats import spearmanr

import rue

TABLES = ("quakes", "gapminder", "dietox")  # of the half that is only reported
CHOSEN = ("stopped, two layers", "run on", "to rest")
SEEDS = ("same", "others")  # of initial weights, order of the batches and division of the rows
ROWS, TESTED, SPLIT = 400, 200, 0
KEPT = page.DOCS / "practice" / "refits.csv"
NAME = "refits"


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("command", choices=("run", "page"))
    parser.add_argument("--out", type=Path, default=Path("practice-output"), help="folder of all results")
    parser.add_argument("--tables-file", type=Path, help="what prepare wrote, if not OUT/tables.npz")
    parser.add_argument("--label", default="now", help="name of this state of rue; refits are made once for all labels")
    parser.add_argument("--tables", type=lambda text: tuple(text.split(",")), default=TABLES)
    parser.add_argument("--refits", type=int, default=50)
    given = parser.parse_args()
    if given.command == "page":
        KEPT.parent.mkdir(exist_ok=True)
        collected(given.out / "refits" / given.label).to_csv(KEPT, index=False, float_format="%.4g")
        page.PAGE.write_text(renewed())
        return
    torch.set_num_threads(1)
    for table in given.tables:
        case = draw(given.tables_file or given.out / "tables.npz", chosen(names=(table,))[0], ROWS, SPLIT)
        for recipe in CHOSEN:
            measured(case, recipe, given.refits, given.out / "refits", given.label)


def measured(case: Case, recipe: str, refits: int, folder: Path, label: str) -> None:
    """One cell: the refits if they are not there, then the audits if this label has none."""
    start, name = time.perf_counter(), f"{case.name}-{recipe.replace(', ', '-').replace(' ', '-')}-{refits}"
    arrays, said = folder / f"{name}.npz", folder / label / f"{name}.json"
    if not arrays.exists():
        write_arrays(arrays, {seeds: refitted(case, RECIPES[recipe], refits, seeds) for seeds in SEEDS})
    if not said.exists():
        known = {"table": case.table.name, "recipe": recipe, "refits": refits}
        beside = compared(audited(case, RECIPES[recipe].train(case.X, case.y, None, SPLIT)), read_arrays(arrays))
        write_json(said, [{**known, **line} for line in beside])
    print(f"{name} {time.perf_counter() - start:.1f} s", flush=True)


def refitted(case: Case, recipe: Recipe, refits: int, seeds: str) -> np.ndarray:
    """Predictions (refits, m) of the same recipe on resampled rows."""
    found = []
    for k in range(refits):
        seed = SPLIT if seeds == "same" else 1000 + k
        rows = resampled(recipe, len(case.y), seed, np.random.default_rng([SPLIT, k]))
        net = recipe.train(case.X[rows], case.y[rows], None, seed).net
        found.append(predicted(net, case.X_test[:TESTED])[:, 0].numpy())
    return np.stack(found)


def resampled(recipe: Recipe, n: int, seed: int, generator: np.random.Generator) -> np.ndarray:
    """Rows (n,) drawn with replacement among those to fit and, apart, among those that stop the training.

    Drawn together, half of the stopping rows would have copies among the fitted ones and would stop nothing.
    """
    share = recipe.share if isinstance(recipe, Stopped) else 0.0
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).numpy()  # as the recipe divides them
    rows = np.empty(n, int)
    for part in (order[: round(share * n)], order[round(share * n) :]):
        rows[part] = generator.choice(part, len(part)) if len(part) else part
    return rows


def audited(case: Case, own: Trained) -> dict[str, np.ndarray | str]:
    """Standard deviations (m,) by audit, or why there are none."""
    found: dict[str, np.ndarray | str] = {}
    for method in (rue.LinearRUE(), rue.CalibratedRUE()):
        for what, stated in {"nothing stated": {}, "penalty stated": own.statement}.items():
            if what == "nothing stated" or stated:
                found[f"{type(method).__name__}, {what}"] = _std(method, case, own, stated)
    return found


def _std(method: Any, case: Case, own: Trained, stated: dict[str, Any]) -> np.ndarray | str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not at rest is said so; that is what is measured here
        try:
            model = rue.wrap(own.net, loss="squared_error", **stated)
            fitted = method.fit(model, (case.X[own.fit_rows], case.y[own.fit_rows]))
            return np.asarray(fitted.audit(case.X_test[:TESTED]).std, float)
        except rue.errors.RueError as error:
            return f"{type(error).__name__}: {error}"[:300]


def compared(audits: dict[str, np.ndarray | str], refits: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """One line for each audit and each way to seed the refits."""
    found = []
    for audit, std in audits.items():
        for seeds in SEEDS:
            spread = refits[seeds].std(axis=0, ddof=1)
            line: dict[str, Any] = {"audit": audit, "seeds": seeds, "refits_std": float(np.median(spread))}
            if isinstance(std, str):
                line |= {"error": std}
            else:
                line |= {
                    "std": float(np.median(std)),
                    "ratio": float(np.median(std) / np.median(spread)),
                    "spearman": float(spearmanr(std, spread).statistic),
                }
            found.append(line)
    return found


def collected(folder: Path) -> pd.DataFrame:
    """Every line of every cell, in the order of the tables and recipes."""
    lines = [line for path in sorted(folder.glob("*.json")) for line in read_json(path)]
    if not lines:
        raise SystemExit(f"there are no cells in {folder}; run first")
    found = pd.DataFrame(lines)
    place = found["recipe"].map(CHOSEN.index) * len(TABLES) + found["table"].map(TABLES.index)
    return found.loc[place.sort_values(kind="stable").index]


def renewed() -> str:
    """The page with its table made anew."""
    return page.with_table(page.PAGE.read_text(), NAME, markdown(pd.read_csv(KEPT)))


def markdown(found: pd.DataFrame) -> str:
    """Means over tables with their range: the order of rows, and the ratio of medians, for both ways to seed."""
    columns = [f"{what}, {seeds}" for what in SHOWN for seeds in ("same seed", "other seeds")]
    lines = ["| recipe | audit | tables | " + " | ".join(columns) + " |", "|---|---|---:|" + "---:|" * len(columns)]
    for (recipe, audit), own in found.groupby(["recipe", "audit"], sort=False):
        cells = [_range(own[own["seeds"] == seeds][column]) for column in SHOWN.values() for seeds in SEEDS]
        lines.append(f"| {recipe} | {audit} | {own['table'].nunique()} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


SHOWN = {"Spearman": "spearman", "ratio of medians": "ratio"}


def _range(values: pd.Series) -> str:
    if values.isna().all():
        return "raised"
    return f"{values.mean():.2f} ({values.min():.2f} to {values.max():.2f})"


if __name__ == "__main__":
    main()
