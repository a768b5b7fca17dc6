"""Plans and runs the computations, in the right order and on several processes; finished work is not repeated."""

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rue.core.errors import DataError, SettingError
from rue.evaluate import datasets
from rue.evaluate.datasets.catalogue import CATALOGUE
from rue.evaluate.datasets.splits import STANDARD_SEED
from rue_paper.parts import PARTS, Arrays
from rue_paper.protocol import SMALL_SAMPLE, Protocol, how_many, problems
from rue_paper.store import Store


@dataclass(frozen=True)
class Plan:
    """Data sets and splits, the folder of the data, the device, and the folder of the results."""

    names: tuple[str, ...]
    splits: int
    out: Path
    device: str = "cpu"
    workers: int = 2
    folder: Path | None = None
    split_seed: int = STANDARD_SEED

    def __post_init__(self) -> None:
        unknown = sorted(set(self.names) - set(datasets.NAMES))
        if unknown or not self.names:
            raise SettingError(f"there is no data set {', '.join(unknown)!r}; choose from {', '.join(datasets.NAMES)}")
        if self.device != "cpu" and not (self.device.startswith("cuda") and torch.cuda.is_available()):
            raise SettingError(
                f"device {self.device!r} is not at hand; use cpu, or cuda on a machine with an NVIDIA GPU"
            )

    @property
    def store(self) -> Store:
        """The store of finished work."""
        return Store(self.out / "splits")


class Piece(NamedTuple):
    """One part of the computation on a data set under a protocol."""

    protocol: Protocol
    name: str
    part: str

    def settings(self, plan: Plan) -> str:
        """Everything its results depend on, also through the parts it reads."""
        part = PARTS[self.part]
        before = self._replace(part=part.needs).settings(plan) if part.needs else CATALOGUE[self.name].sha256
        versions = f"rue {version('rue')}, torch {torch.__version__}"
        return f"{part.settings}, {plan.device}, splits {plan.split_seed}, {versions}; {before}"

    def splits(self, plan: Plan) -> int:
        """The number of splits."""
        return how_many(self.name, self.protocol, plan.splits, plan.folder)

    def finished(self, plan: Plan) -> dict[int, Path]:
        """The file of every finished split."""
        results, wanted = plan.store.finished(*self, self.settings(plan)), self.splits(plan)
        return {split: path for split, path in results.items() if split < wanted}

    def missing(self, plan: Plan) -> "list[Task]":
        """The unfinished splits, cut into tasks; the cuts do not depend on what was finished before."""
        done, size, splits = self.finished(plan), PARTS[self.part].at_once, self.splits(plan)
        if plan.device != "cpu" and size > 1:
            size = splits
        cuts: dict[int, list[int]] = {}
        for split in range(splits):
            if split not in done:
                cuts.setdefault(split // size, []).append(split)
        return [Task(self, tuple(cut)) for cut in cuts.values()]


class Task(NamedTuple):
    """A piece on some splits."""

    piece: Piece
    splits: tuple[int, ...]


def compute(plan: Plan, wanted: Sequence[Piece], console: Console) -> int:
    """Compute all unfinished pieces in the order of their needs, with progress; return the number of missing splits."""
    missing = sorted((task for piece in wanted for task in piece.missing(plan)), key=_longest_first)
    every, left = sum(piece.splits(plan) for piece in wanted), sum(len(task.splits) for task in missing)
    if left < every:
        console.print(f"{every - left} of {every} splits of all parts are finished already.")
    for name in dict.fromkeys(task.piece.name for task in missing):
        datasets.load(name, plan.folder)  # fetched once, before several processes need it
    wait_for = {part.needs for part in PARTS.values()}
    first = [task for task in missing if task.piece.part in wait_for]
    then = [task for task in missing if task.piece.part not in wait_for]
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        bars = {
            part: bar.add_task(part, total=sum(len(task.splits) for task in missing if task.piece.part == part))
            for part in dict.fromkeys(task.piece.part for task in missing)
        }
        for done in chain(_run(plan, first), _run(plan, then)):
            part = done.piece.part
            bar.update(bars[part], advance=len(done.splits), description=f"{part} ({done.piece.name})")
    return left


def load(plan: Plan, wanted: Sequence[Piece]) -> dict[int, Arrays]:
    """The results of finished pieces, by split."""
    results: dict[int, Arrays] = {}
    for piece in wanted:
        splits = piece.splits(plan)
        results = {split: {} for split in range(splits)} | results
        for path in dict.fromkeys(piece.finished(plan).values()):
            for split, arrays in _stored(plan, path)[0].items():
                if split < splits:
                    results[split].update(arrays)
    return results


def seconds(plan: Plan, wanted: Sequence[Piece]) -> dict[str, float]:
    """Seconds of computation by part, summed over processes and runs."""
    total: dict[str, float] = {}
    for piece in wanted:
        for path in dict.fromkeys(piece.finished(plan).values()):
            total[piece.part] = total.get(piece.part, 0.0) + float(str(_stored(plan, path)[1]["seconds"]))
    return total


def _stored(plan: Plan, path: Path) -> tuple[dict[int, Arrays], dict[str, object]]:
    stored = plan.store.load(path)
    if stored is None:
        raise DataError(f"{path} cannot be read, it was cut or changed; delete it and run the same command again")
    return stored


def _longest_first(task: Task) -> tuple[int, int]:
    """Long tasks first, so that none runs alone at the end."""
    piece = task.piece
    rows = CATALOGUE[piece.name].rows if piece.protocol == "standard" else SMALL_SAMPLE
    return list(PARTS).index(piece.part), -rows


def _run(plan: Plan, missing: Sequence[Task]) -> Iterator[Task]:
    """Finished tasks as they are completed, in processes of one thread each."""
    if plan.workers == 1:
        yield from (_do(plan, task) for task in missing)
        return
    from joblib import Parallel, delayed

    workers = Parallel(n_jobs=plan.workers, return_as="generator_unordered", pre_dispatch="all", batch_size=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped")  # a process whose memory grew is replaced by a new one
        yield from workers(delayed(_in_process)(plan, task) for task in missing)


def _in_process(plan: Plan, task: Task) -> Task:
    os.environ["RUE_PROGRESS"] = "0"  # the parent shows progress
    torch.set_num_threads(1)
    return _do(plan, task)


def _do(plan: Plan, task: Task) -> Task:
    start = time.perf_counter()
    piece, part = task.piece, PARTS[task.piece.part]
    every = problems(piece.name, piece.protocol, max(task.splits) + 1, plan.folder, plan.split_seed)
    chosen = [every[split].to(plan.device) for split in task.splits]
    needed = load(plan, [piece._replace(part=part.needs)]) if part.needs else {}
    results = part.run(chosen, [needed.get(split, {}) for split in task.splits])
    results = [{**own, "target": problem.target} for own, problem in zip(results, chosen, strict=True)]
    settings = piece.settings(plan)
    facts = {"seconds": time.perf_counter() - start, "part": piece.part, "settings": settings}
    plan.store.save(plan.store.path(*piece, settings, task.splits), results, task.splits, facts)
    return task
