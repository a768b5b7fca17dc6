"""What is to be computed, in which order, on how many processes: finished work is found in the store and left alone."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rue import datasets
from rue.datasets.catalogue import CATALOGUE
from rue.datasets.splits import STANDARD_SEED
from rue.errors import DataError, SettingError
from rue.experiments.paper.parts import PARTS, Arrays
from rue.experiments.paper.protocol import SMALL_SAMPLE, Problem, Protocol, problems, protocols
from rue.experiments.paper.store import Store


@dataclass(frozen=True)
class Plan:
    """Which data sets and splits, where they are found, on which device, and where results go."""

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
        """Where finished work is kept."""
        return Store(self.out / "splits")


@dataclass(frozen=True)
class Task:
    """One part on some splits of a data set."""

    protocol: Protocol
    name: str
    part: str
    splits: tuple[int, ...]

    def path(self, plan: Plan) -> Path:
        """Its file in the store."""
        versions = f"rue {version('rue')}, torch {torch.__version__}"
        settings = f"{PARTS[self.part].settings}, {plan.device}, splits {plan.split_seed}, {versions}"
        return plan.store.path(self.protocol, self.name, self.part, self.splits, settings)


def tasks(plan: Plan, protocol: Protocol, part: str) -> list[Task]:
    """A part cut into what is computed at once. The cuts do not depend on what is finished already."""
    size = plan.splits if plan.device != "cpu" else PARTS[part].at_once
    cuts = [tuple(range(a, min(a + size, plan.splits))) for a in range(0, plan.splits, size)]
    names = [name for name in plan.names if protocol in protocols(name)]
    return [Task(protocol, name, part, cut) for name in names for cut in cuts]


def compute(plan: Plan, wanted: Sequence[Task], console: Console) -> int:
    """Do what is not done yet, what others need first; show how far it is. Returns how much there was to do."""
    missing = [task for task in wanted if not task.path(plan).exists()]
    if len(missing) < len(wanted):
        console.print(f"{len(wanted) - len(missing)} of {len(wanted)} pieces of work are finished already.")
    for name in plan.names:
        datasets.load(name, plan.folder)  # fetched once, before several processes want it
    wait_for = {part.needs for part in PARTS.values()}
    order = sorted(missing, key=_longest_first)
    first = [task for task in order if task.part in wait_for]
    then = [task for task in order if task.part not in wait_for]
    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        bars = {
            part: bar.add_task(part, total=sum(len(task.splits) for task in missing if task.part == part))
            for part in dict.fromkeys(task.part for task in missing)
        }
        for done in chain(_run(plan, first), _run(plan, then)):
            bar.advance(bars[done.part], len(done.splits))
    return len(missing)


def load(plan: Plan, wanted: Sequence[Task]) -> dict[int, Arrays]:
    """The results of finished tasks, by split."""
    found: dict[int, Arrays] = {}
    for task in wanted:
        stored = plan.store.load(task.path(plan))
        if stored is None:
            raise DataError(f"{task.path(plan)} is missing or cut; delete it and run the same command again")
        for split, arrays in stored[0].items():
            found.setdefault(split, {}).update(arrays)
    return found


def _longest_first(task: Task) -> tuple[int, int]:
    """So that no process is left alone with a long task at the end."""
    rows = CATALOGUE[task.name].rows if task.protocol == "standard" else SMALL_SAMPLE
    return list(PARTS).index(task.part), -rows


def _run(plan: Plan, missing: Sequence[Task]) -> Iterator[Task]:
    """Finished tasks as they come, in processes of one thread each."""
    if plan.workers == 1:
        yield from (_do(plan, task) for task in missing)
        return
    from joblib import Parallel, delayed

    workers = Parallel(n_jobs=plan.workers, return_as="generator_unordered", pre_dispatch="all", batch_size=1)
    yield from workers(delayed(_in_process)(plan, task) for task in missing)


def _in_process(plan: Plan, task: Task) -> Task:
    os.environ["RUE_PROGRESS"] = "0"  # the parent shows progress
    torch.set_num_threads(1)
    return _do(plan, task)


def _do(plan: Plan, task: Task) -> Task:
    start = time.perf_counter()
    part = PARTS[task.part]
    chosen = [problem.to(plan.device) for problem in _problems(plan, task)]
    needed = load(plan, tasks_of(plan, task, part.needs)) if part.needs else {}
    found = part.run(chosen, [needed.get(split, {}) for split in task.splits])
    found = [{**own, "target": problem.target} for own, problem in zip(found, chosen, strict=True)]
    facts = {"seconds": time.perf_counter() - start, "part": task.part, "settings": part.settings}
    plan.store.save(task.path(plan), found, task.splits, facts)
    return task


def tasks_of(plan: Plan, task: Task, part: str) -> list[Task]:
    """The tasks of another part on the same data set."""
    return [other for other in tasks(plan, task.protocol, part) if other.name == task.name]


def _problems(plan: Plan, task: Task) -> list[Problem]:
    every = problems(task.name, task.protocol, max(task.splits) + 1, plan.folder, plan.split_seed)
    return [every[split] for split in task.splits]


def seconds(plan: Plan, wanted: Sequence[Task]) -> dict[str, float]:
    """Seconds of computation by part, summed over processes and runs."""
    total: dict[str, float] = {}
    for task in wanted:
        stored = plan.store.load(task.path(plan))
        if stored is not None:
            total[task.part] = total.get(task.part, 0.0) + float(str(stored[1]["seconds"]))
    return total
