"""Commands whose options come in groups: a parameter that is a dataclass stands for one option for each field."""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from rue.cli.outcome import outcome


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it, every option by itself; errors of rue end it as errors of a command.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int
    ...     height: int = 2
    >>> @grouped
    ... def area(size: Size, scale: int) -> None:
    ...     print(scale * size.width * size.height)
    >>> str(signature(area))
    '(*, width: int, height: int = 2, scale: int)'
    >>> area(width=3, height=2, scale=10)
    60
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    options: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        given = _fields(groups[name]) if name in groups else [parameter.replace(annotation=hints[name])]
        options += [each.replace(kind=Parameter.KEYWORD_ONLY) for each in given]

    @wraps(function)
    def command(**given: Any) -> None:
        with outcome():
            made = {
                name: kind(**{each.name: given.pop(each.name) for each in fields(kind)})
                for name, kind in groups.items()
            }
            function(**made, **given)

    shown: Any = command
    shown.__signature__ = Signature(options)
    shown.__annotations__ = {each.name: each.annotation for each in options}
    del shown.__wrapped__  # typer would look through to the groups
    return command


def _fields(kind: Any) -> list[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(kind)
    ]
