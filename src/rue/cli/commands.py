"""The commands of the command line."""

import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from rue.auditing.storage import KeptRows
from rue.cli.auditing import BadRow, RowsAudit
from rue.cli.fitting import Extras, Recipe, about, all_usable, held_out, source
from rue.cli.grouped import grouped
from rue.cli.outcome import REFUSED, STREAM, at_terminal, note, refuse_overwriting, say, wrong_use
from rue.cli.roles import Roles, Units
from rue.cli.tables import Table, TableForm
from rue.cli.trained import Statement

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,  # help keeps its lines, and fits into 80 columns
    pretty_exceptions_enable=False,  # they would show what is in the tables
    context_settings={"help_option_names": ["-h", "--help"]},
)
Train = Annotated[
    str,
    Argument(metavar="TRAIN", help="The training rows: .csv, .parquet, .arrow, .jsonl; - is standard input."),
]
NewRows = Annotated[str, Argument(metavar="ROWS", help="The rows to audit, in the same forms.")]
FromTable = Annotated[str | None, Option("--train", help="The training rows, to fit an audit of them first.")]
Fitted = Annotated[Path | None, Option(help="The audit that rue fit stored.")]
Format = Annotated[
    TableForm | None, Option("--format", help="Of a table whose ending does not tell, and of - (csv unless given).")
]
Noun = Annotated[str, Option(help='What the training rows are, such as "patients".')]
Level = Annotated[float, Option(help="Of the intervals.")]
AsJson = Annotated[bool, Option("--json", help="Say what was found as JSON, for programs.")]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """List a function among the commands."""
    return app.command()(grouped(function))


def _version(asked: bool) -> None:
    if asked:
        _print_version()
        raise typer.Exit


@app.callback()
def main(
    _: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Audit the predictions of a trained model: which may be acted on, and why.

    Exit codes: 0 done, 1 a file or setting cannot be used, 2 a wrong command
    line, 3 more rows were refused than --max-share-refused allows.
    """


@command
def demo(
    out: Annotated[Path, Option(help="Folder for the figures.")] = Path("demo-output"),
    seed: Annotated[int, Option(help="Seed of the split, the networks and the methods.")] = 0,
) -> None:
    """Train the paper's network on 442 diabetes patients and audit its predictions, in under a minute.

    \b
    Example:
      rue demo --out demo-output
    """
    import torch

    from rue.cli.demo import run

    torch.set_num_threads(1)  # the networks are small: more threads only wait for each other
    run(out, seed)


@command
def fit(
    statement: Statement,
    train: Train,
    roles: Roles,
    units: Units,
    extras: Extras,
    held: Annotated[
        str | None, Option("--held-out", help="Rows that nothing was trained on: intervals get a guarantee.")
    ] = None,
    policy: Annotated[Path | None, Option(help="Where a policy goes, which half of the held-out rows choose.")] = None,
    share: Annotated[float, Option(help="Of the rows that people can review, for the policy.")] = 0.2,
    rows: Annotated[KeptRows, Option(help="What is kept of training rows: see docs/stored-audits.md.")] = "ids",
    out: Annotated[Path, Option(help="Where the fitted audit goes.")] = Path("model.rue"),
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Fit the audit of a model to its training rows, and store it.

    \b
    Examples:
      rue fit model.txt train.csv --target y --id patient --out model.rue
      rue fit model.txt train.csv --target y --id patient --held-out held.csv \\
          --policy accept.rue --share 0.2 --out checked.rue
      rue fit net.pt2 train.csv --target y --drop patient --loss MSELoss --out net.rue
    """
    if policy is not None and held is None:
        raise wrong_use("--policy is chosen by rows that nothing was trained on: give them as --held-out")
    refuse_overwriting((out, policy), (statement.model, train, held, extras.validation))
    start = time.perf_counter()
    recipe = Recipe(statement, roles, units, Table.at(train, form), extras)
    auditor, chosen = recipe.fitted(), None
    if held is not None:
        auditor, chosen = held_out(auditor, recipe, Table.at(held), None if policy is None else share)
    auditor.save(out, rows=rows)
    if chosen is not None and policy is not None:
        chosen.save(policy)
    seconds = time.perf_counter() - start
    facts = {"audit": str(out), "method": auditor.method, "n": auditor.facts["n"], "seconds": seconds}
    facts |= {"policy": policy and str(policy), "warnings": auditor.facts["warnings"]}
    lines = [f"{out}: {auditor.method} of {auditor.facts['n']} training rows, in {seconds:.1f} s"]
    lines += [f"{policy}: {chosen}"] if chosen is not None else []
    lines.append(f"Audit new rows: rue audit {statement.model} ROWS --fitted {out}")
    say("\n".join(lines), facts, as_json)


@command
def audit(
    statement: Statement,
    rows: NewRows,
    roles: Roles,
    units: Units,
    extras: Extras,
    fitted: Fitted = None,
    train: FromTable = None,
    out: Annotated[
        str, Option(help="Where the rows go: .csv, .parquet, .arrow, .jsonl; - is standard output.")
    ] = STREAM,
    policy: Annotated[Path | None, Option(help="A stored policy: every row gets a tier.")] = None,
    max_share_refused: Annotated[
        float | None, Option(min=0, max=1, help="End with code 3 if a larger share of the rows is refused.")
    ] = None,
    on_bad_row: Annotated[BadRow, Option(help="A row that cannot be audited stops, or is marked.")] = "refuse",
    keep: Annotated[list[str] | None, Option(help="A column that goes along; may be given again.")] = None,
    level: Level = 0.9,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Audit the rows of a table, in their order and in bounded memory; no row is dropped.

    With --fitted, what was said to rue fit need not be said again.

    \b
    Examples:
      rue audit model.txt new.csv --fitted model.rue --out audited.csv
      rue audit model.txt new.csv --train train.csv --target y --id patient > audited.csv
      rue audit model.txt - --fitted model.rue --keep a < new.csv | sort > sorted.csv
      rue audit model.txt new.csv --fitted checked.rue --policy accept.rue \\
          --max-share-refused 0.5 --out audited.csv
    """
    from rue.cli.show import summary, table_of_rows
    from rue.cli.writing import rows_written
    from rue.policy import Policy

    if max_share_refused is not None and policy is None:
        raise wrong_use("--max-share-refused counts the tiers of a policy: give one as --policy")
    if as_json and out == STREAM:
        raise wrong_use("--json says what was found on standard output: give the rows a file, --out")
    refuse_overwriting((out,), (statement.model, rows, train, fitted, policy, extras.validation))
    start = time.perf_counter()
    made_by = source(statement, roles, units, extras, train, fitted)
    asked = made_by.asked
    job = RowsAudit(
        made_by.fitted(),
        Table.at(rows, form),
        roles.identity or asked.get("identity"),
        roles.target or asked.get("target"),
        tuple(keep or ()),
        None if policy is None else Policy.load(policy),
        level,
        on_bad_row,
    )
    if out == STREAM and at_terminal():
        for _ in job.parts():
            pass
        table_of_rows(job.tally)
    else:
        with rows_written(out, form) as writer:
            for part in job.parts():
                writer.add(part)
    for warned in job.tally.warned:
        note(f"warning: {warned}", "yellow")
    text, facts = summary(job, None if out == STREAM else out, time.perf_counter() - start)
    say(text, facts, as_json) if out != STREAM else note(text)
    if max_share_refused is not None and job.tally.share_refused > max_share_refused:
        note(
            f"{job.tally.share_refused:.1%} of the rows are refused, and at most {max_share_refused:.1%} may be", "red"
        )
        raise typer.Exit(REFUSED)


@command
def explain(
    statement: Statement,
    rows: NewRows,
    roles: Roles,
    units: Units,
    extras: Extras,
    fitted: Fitted = None,
    train: FromTable = None,
    row: Annotated[int | None, Option(min=0, help="The number of the row; the first is 0.")] = None,
    who: Annotated[str | None, Option(help="The id of the row, in the column of ids.")] = None,
    top: Annotated[int, Option(min=1, help="So many training rows are listed.")] = 10,
    noun: Noun = "training rows",
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Say which training rows a prediction rests on, and why it is uncertain.

    \b
    Examples:
      rue explain model.txt new.csv --fitted model.rue --train train.csv --row 12
      rue explain model.txt new.csv --train train.csv --target y --id patient \\
          --who P103 --top 5 --noun patients
    """
    from rue.cli.show import explained

    refuse_overwriting((), (rows, train))
    if (row is None) == (who is None):
        raise wrong_use("say which row: --row NUMBER or --who ID")
    if train is None and fitted is not None and about(fitted).get("rows") != "all":
        raise wrong_use("an explanation names training rows: give them as --train, or fit with --rows all")
    made_by = source(statement, roles, units, extras, train, fitted)
    column = roles.identity or made_by.asked.get("identity")
    if who is not None and column is None:
        raise wrong_use("--who looks in the column of ids: name it by --id")
    text, facts = explained(made_by.fitted(), Table.at(rows, form), row, (column, who), top, noun)
    say(text, facts, as_json)


@command
def check(
    statement: Statement,
    train: Train,
    roles: Roles,
    units: Units,
    extras: Extras,
    rows: Annotated[str | None, Option(help="The rows to audit: looked for among the training rows.")] = None,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Say whether this model is fit for this audit: traffic lights, each with its reason.

    \b
    Example:
      rue check model.txt train.csv --target y --drop patient --rows new.csv
    """
    refuse_overwriting((), (rows, train))
    auditor, inputs = Recipe(statement, roles, units, Table.at(train, form), extras).fitted(), None
    if rows is not None:
        table = Table.at(rows)
        inputs = all_usable(table.whole(roles.texts), auditor, table.name)
    found = auditor.check(inputs)
    facts = {"light": found.light, "checks": found.to_frame().to_dict("records"), "skipped": dict(found.skipped)}
    say(str(found), facts, as_json)


@command
def plan(
    statement: Statement,
    train: Train,
    roles: Roles,
    units: Units,
    rows: Annotated[str | None, Option(help="The rows to audit, to count what they cost.")] = None,
    seconds: Annotated[float | None, Option("--time", help="Seconds that fit and audit may take.")] = None,
    gib: Annotated[float | None, Option("--memory", help="GiB that may be used. Default: what is free.")] = None,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Say what every way to fit the audit of a network or linear model would cost, before anything long begins.

    \b
    Example:
      rue plan net.pt2 train.csv --target y --drop patient --loss MSELoss --time 60
    """
    import rue

    trained = statement.wrapped()
    data = roles.read(Table.at(train, form), units, trained).data
    inputs = None if rows is None else Table.at(rows).whole(roles.texts)[list(data.X.columns)]
    made = rue.plan(trained.model, data, inputs=inputs, time=seconds, memory=None if gib is None else gib * 2**30)
    say(str(made), made.to_dict(), as_json)


@command
def report(
    statement: Statement,
    train: Train,
    rows: Annotated[str, Argument(metavar="ROWS", help="The rows to audit, with or without the target.")],
    roles: Roles,
    extras: Extras,
    by: Annotated[
        list[str] | None,
        Option("--by", "--group", help="A column whose groups are looked at apart; may be given again."),
    ] = None,
    title: Annotated[str | None, Option(help="The title of the report.")] = None,
    purpose: Annotated[str | None, Option(help="What the predictions are used for, by whom.")] = None,
    noun: Noun = "training rows",
    out: Annotated[Path, Option(help="Where the page goes (.html); the JSON goes beside it (.json).")] = Path(
        "audit.html"
    ),
    previous: Annotated[Path | None, Option(help="The JSON of an earlier report, to compare with.")] = None,
    level: Level = 0.9,
    fitted: Fitted = None,
    as_json: AsJson = False,
) -> None:
    """Audit the predictions of a trained model and write down what was found, as a page and as JSON.

    \b
    Examples:
      rue report model.txt train.csv new.csv --target y --id patient --noun patients --out audit.html
      rue report model.txt train.csv new.csv --fitted model.rue --noun patients
    """
    from rue.cli.report import Order, run

    refuse_overwriting((), (rows, train))
    made_by = source(statement, roles, Units(), extras, train, fitted)
    order = Order(
        source=made_by,
        audited=Table.at(rows),
        target=roles.target or made_by.asked.get("target"),
        identity=roles.identity or made_by.asked.get("identity"),
        by=tuple(by or ()),
        title=title,
        purpose=purpose,
        noun=noun,
        previous=previous,
        level=level,
        out=out,
    )
    written = run(order)
    paths = [str(path) for path in written.save(out)]
    facts = {"page": paths[0], "data": paths[1], "verdict": written.document["verdict"]}
    say("\n".join([*paths, written.verdict]), facts, as_json)


@command
def info(statement: Statement, as_json: AsJson = False) -> None:
    """Say what is in a file: a fitted audit or policy (.rue), a model, or a table.

    \b
    Examples:
      rue info model.rue
      rue info model.txt
      rue info train.csv --json
    """
    from rue.cli.information import in_lines, information

    facts = information(statement)
    say(in_lines(facts), facts, as_json)


@command
def version() -> None:
    """Print the version.

    \b
    Example:
      rue version
    """
    _print_version()


def _print_version() -> None:
    import rue

    typer.echo(rue.__version__)


for added in entry_points(group="rue.commands"):  # commands of other distributions, such as rue-paper's `rue paper`
    app.command(added.name)(added.load())
