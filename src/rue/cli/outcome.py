"""How a command ends: what it says, on which stream, and with which code."""

import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from rue.core.errors import RueError, RueWarning
from rue.reports.plain import plain

FAILED, REFUSED = 1, 3  # codes; 2 is a wrong use of the command line, and typer's own


@contextmanager
def outcome() -> Iterator[None]:
    """Errors of rue end the command with one sentence, and its warnings are lines, both on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RueWarning)
        shown, others = set[str](), warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if not issubclass(category, RueWarning):
                others(message, category, *rest, **more)
            elif str(message) not in shown:
                shown.add(str(message))
                note(f"warning: {message}", "yellow")

        warnings.showwarning = show
        try:
            yield
        except (RueError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            note(f"{type(error).__name__}: {error}", "red")
            raise typer.Exit(FAILED) from error


def note(text: str, colour: str | None = None) -> None:
    """A line on standard error, where it is in nobody's way."""
    typer.secho(text, err=True, fg=colour)


def say(text: str, facts: Mapping[str, Any], as_json: bool) -> None:
    """What a command found, on standard output: for people, or as one JSON object."""
    typer.echo(json.dumps(plain(facts), ensure_ascii=False) if as_json else text)


def at_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def wrong_use(text: str) -> typer.BadParameter:
    """Options that make no sense together: the command ends with code 2."""
    return typer.BadParameter(text)
