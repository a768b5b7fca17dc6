"""The commands of the command line."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Literal

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

    from rue.cli.demo import run

    torch.set_num_threads(1)  # the networks are small: more threads only wait for each other
    run(out, seed)


@app.command()
def report(
    model: Annotated[
        str, typer.Argument(help="A model file (.txt, .json, .ubj, .pt2), or a Python object as package.module:name.")
    ],
    train: Annotated[Path, typer.Argument(help="The training rows, a .csv or .parquet table.")],
    audited: Annotated[Path, typer.Argument(help="The rows to audit, with or without the target.")],
    target: Annotated[str, typer.Option(help="The column of the target.")],
    loss: Annotated[str | None, typer.Option(help="Of a torch module: the loss it was trained with.")] = None,
    l2: Annotated[float | None, typer.Option(help="The coefficient of ½‖θ‖² it was trained with.")] = None,
    reduction: Annotated[
        Literal["sum", "mean"], typer.Option(help="Whether it was trained on the sum or the mean of the losses.")
    ] = "sum",
    identity: Annotated[str | None, typer.Option("--id", help="The column of ids; no feature.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="A column to group by; may be given again.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column that is no feature; may be given again.")] = None,
    title: Annotated[str | None, typer.Option(help="The title of the report.")] = None,
    purpose: Annotated[str | None, typer.Option(help="What the predictions are used for, by whom.")] = None,
    noun: Annotated[str, typer.Option(help='What the training rows are, such as "patients".')] = "training rows",
    out: Annotated[Path, typer.Option(help="Where the page goes (.html); the JSON goes beside it (.json).")] = Path(
        "audit.html"
    ),
    previous: Annotated[Path | None, typer.Option(help="The JSON of an earlier report, to compare with.")] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.9,
) -> None:
    """Audit the predictions of a trained model and write down what was found, as a page and as JSON."""
    from rue.cli.report import Order, run
    from rue.core.errors import RueError

    order = Order(
        model=model,
        train=train,
        audited=audited,
        target=target,
        loss=loss,
        l2=l2,
        reduction=reduction,
        identity=identity,
        group=tuple(group or ()),
        drop=tuple(drop or ()),
        title=title,
        purpose=purpose,
        noun=noun,
        previous=previous,
        level=level,
        out=out,
    )
    try:
        written = run(order)
        paths = written.save(out)
    except (RueError, OSError) as error:
        typer.secho(f"{type(error).__name__}: {error}", err=True, fg="red")
        raise typer.Exit(1) from error
    for path in paths:
        typer.echo(path)
    typer.echo(written.verdict)


@app.command()
def version() -> None:
    """Print the version."""
    import rue

    typer.echo(rue.__version__)


for added in entry_points(group="rue.commands"):  # commands of other distributions, such as rue-paper's `rue paper`
    app.command(added.name)(added.load())
