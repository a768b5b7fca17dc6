"""The command line."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Audit the predictions of a trained model.")


@app.callback()
def main() -> None:
    """Audit the predictions of a trained model."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option(help="Seed of the split, the networks and the methods.")] = 0,
) -> None:
    """Train the paper's network on 442 diabetes patients and audit its predictions, in under a minute."""
    import torch

    from rue.experiments.demo import run

    torch.set_num_threads(1)  # the networks are small: more threads only wait for each other
    run(out, seed)


@app.command()
def version() -> None:
    """Print the version."""
    import rue

    typer.echo(rue.__version__)
