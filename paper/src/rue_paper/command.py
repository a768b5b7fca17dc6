"""The command `rue paper`, which this distribution adds to the command line."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def paper(
    what: Annotated[
        Literal["figure1", "figure2", "table1", "claim1", "fidelity", "coverage", "beyond", "all"],
        typer.Argument(help="Which of the paper's figures and tables."),
    ] = "all",
    splits: Annotated[int, typer.Option(min=2, help="Random splits of each data set.")] = 20,
    datasets: Annotated[str, typer.Option(help="Names of data sets, with commas between; all eight if empty.")] = "",
    device: Annotated[str, typer.Option(help="cpu, or cuda for a GPU.")] = "cpu",
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and finished splits.")] = Path("paper-output"),
    data: Annotated[Path | None, typer.Option(help="Folder with the data sets as CSV; else cached or fetched.")] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes of one thread each; 0: one for each core, 8 at most.")
    ] = 0,
    split_seed: Annotated[int, typer.Option(help="Seed of the splits; 1 gives the benchmarks' own.")] = 1,
) -> None:
    """Reproduce the paper: Figures 1 and 2, Table 1, Claim 1, fidelity, coverage, and beyond. Resumes where stopped."""
    import torch
    from joblib import cpu_count
    from rich.console import Console

    from rue.core.errors import RueError
    from rue.evaluate.datasets import NAMES
    from rue_paper.run import run
    from rue_paper.work import Plan

    torch.set_num_threads(1)
    names = tuple(name.strip() for name in datasets.split(",")) if datasets else NAMES
    try:
        run(what, Plan(names, splits, out, device, workers or min(cpu_count(), 8), data, split_seed), Console())
    except (RueError, OSError) as error:
        typer.secho(f"{type(error).__name__}: {error}", err=True, fg="red")
        raise typer.Exit(1) from error
