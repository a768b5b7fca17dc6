"""All cells that are asked for, each in files of its own; what is there already is left alone.

OUT/nets/CELL.npz has the networks, OUT/rivals/CELL.json what the rivals make of them, OUT/whole/CASE.json what other
models of the same rows say by themselves, OUT/ours/LABEL/CELL.json what rue does. Only the last is made anew when the
method changes and is given another label.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from practice_parts import rivals
from practice_parts.cases import draw, sizes
from practice_parts.recipes import RECIPES
from practice_parts.stored import read_json, write_json
from practice_parts.tables import Table, chosen, halves
from practice_parts.trained import Cell, key, obtained


@dataclass(frozen=True)
class Wanted:
    """What a run is to do."""

    tables_file: Path
    out: Path
    label: str | None  # of rue's audits; without one, networks and rivals alone
    half: str | None = None
    kind: str | None = None
    recipe: str = ""  # the beginning of its name
    tables: tuple[str, ...] = ()
    n: int | None = None
    splits: tuple[int, ...] = (0, 1, 2, 3, 4)
    audit: str = ""  # the beginning of the name of one of rue's audits

    def cells(self) -> Iterator[tuple[Table, int, int, str]]:
        """Split by split, so that an early look has something of every table."""
        tables = chosen(self.half, self.kind, self.tables)
        fitting = {table.name: sizes(self.tables_file, table) for table in tables}
        for split in self.splits:
            for recipe in (name for name in RECIPES if name.startswith(self.recipe)):
                for table in tables:
                    yield from ((table, n, split, recipe) for n in fitting[table.name] if self.n in (None, n))


def run(wanted: Wanted, jobs: int) -> None:
    cells = list(wanted.cells())
    done = Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_cell)(wanted, *cell) for cell in cells)
    for count, said in enumerate(done, 1):
        print(f"{count}/{len(cells)} {said}", flush=True)


def _cell(wanted: Wanted, table: Table, n: int, split: int, recipe: str) -> str:
    os.environ["RUE_PROGRESS"] = "0"
    torch.set_num_threads(1)
    start, case = time.perf_counter(), draw(wanted.tables_file, table, n, split)
    cell, name = obtained(case, recipe, wanted.out), key(case, recipe)
    _rivals(cell, wanted.out / "rivals" / f"{name}.json", wanted.out / "whole" / f"{case.name}.json")
    if wanted.label:
        _ours(cell, wanted.out / "ours" / wanted.label / f"{name}.json", wanted.audit)
    return f"{name} {time.perf_counter() - start:.1f} s"


def _rivals(cell: Cell, path: Path, whole: Path) -> None:
    known = read_json(path)["audits"] if path.exists() else {}
    found = rivals.measured(cell, known, whole)
    if found != known:
        write_json(path, {**_described(cell), "audits": found})


def _ours(cell: Cell, path: Path, audit: str) -> None:
    from practice_parts import ours  # networks and rivals do without rue

    known = read_json(path)["audits"] if path.exists() else {}
    missing = [name for name in ours.asked(cell) if name not in known and name.startswith(audit)]
    if missing:
        write_json(path, {**_described(cell), "audits": {**known, **ours.measured(cell, missing)}})


def _described(cell: Cell) -> dict[str, Any]:
    case, y = cell.case, cell.case.y_test.numpy()
    if case.classes is None:
        error = {
            "test_rmse": float(np.sqrt(((y - cell.outputs[:, 0]) ** 2).mean())),
            "left_out_rmse": float(np.sqrt(((case.y.numpy() - cell.left_out[:, 0]) ** 2).mean())),
        }
    else:
        error = {"classes": case.classes, "test_error": float((cell.outputs.argmax(1) != y).mean())}
    return {
        "table": case.table.name,
        "kind": case.table.kind,
        "half": halves()[case.table.name],
        "n": case.n,
        "m": len(y),
        "split": case.split,
        "recipe": cell.recipe,
        "training_seconds": cell.seconds,
        **error,
        "facts": cell.facts,
    }
