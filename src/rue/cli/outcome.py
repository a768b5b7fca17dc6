"""How a command ends: what it says, on which stream, and with which code."""

import json
import shutil
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import typer

from rue.core.errors import InputError, RueError, RueWarning

STREAM = "-"  # in the place of a path: standard input or output
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
            with _ended_by(signal.SIGTERM):
                yield
        except (RueError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            note(f"{type(error).__name__}: {error}", "red")
            raise typer.Exit(FAILED) from error


@contextmanager
def _ended_by(number: signal.Signals) -> Iterator[None]:
    """Let a signal that ends the process leave nothing behind that is half-written."""

    def end(*_: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(number, end) if threading.current_thread() is threading.main_thread() else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(number, before)


def note(text: str, colour: str | None = None) -> None:
    """A line on standard error, where it is in nobody's way."""
    typer.secho(_folded(text, sys.stderr), err=True, fg=colour)


def say(text: str, facts: Mapping[str, Any], as_json: bool) -> None:
    """What a command found, on standard output: for people, or as one JSON object."""
    typer.echo(json.dumps(in_json(facts), ensure_ascii=False) if as_json else _folded(text, sys.stdout))


def _folded(text: str, stream: TextIO) -> str:
    """Long lines folded where a person reads them; a pipe gets them whole."""
    if not stream.isatty():
        return text
    wide = shutil.get_terminal_size().columns
    lines = (line if _tabular(line) else textwrap.fill(line, wide) for line in text.splitlines())
    return "\n".join(lines)


def _tabular(line: str) -> bool:
    """Whether a line is one of a table, whose columns must stay where they are."""
    return line.startswith(" ") or "  " in line


def in_json(value: Any) -> Any:
    """A value as JSON has it, numbers in all their digits; what is missing or infinite is null."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): in_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [in_json(each) for each in value]
    return None if str(value) in ("<NA>", "NaT") else str(value)


def at_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def refuse_overwriting(outs: Iterable[str | Path | None], read: Iterable[str | Path | None]) -> None:
    """Raise where a file that is read would be written over, or standard input read twice."""
    given = [str(each) for each in read if each is not None]
    if given.count(STREAM) > 1:
        raise wrong_use("standard input can be read once: give one of the tables as a file")
    for out in (Path(each) for each in outs if each is not None and str(each) != STREAM):
        for source in map(Path, given):
            if out.exists() and source.exists() and out.samefile(source):
                raise InputError(f"{out} would be written over, and it is read here; choose another place")


def wrong_use(text: str) -> typer.BadParameter:
    """Options that make no sense together: the command ends with code 2."""
    return typer.BadParameter(text)
