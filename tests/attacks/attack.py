"""An attack: what is done, and what is expected of it."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rue.core.errors import RueError, RueWarning


@dataclass(frozen=True)
class Refused:
    """An error of this class; `message` is a regular expression for what was found and the advice."""

    error: type[RueError]
    message: str


@dataclass(frozen=True)
class Warned:
    """A result with a warning, which stands in the audit's facts too, if the result is an audit."""

    message: str


@dataclass(frozen=True)
class Right:
    """A right result: `check` asserts it, by what is said in `by`."""

    by: str
    check: Callable[[Any], None]


@dataclass(frozen=True)
class Attack:
    """A sentence for what is done, a function that does it, and what must come of it."""

    name: str
    do: Callable[[], Any]
    expected: Refused | Warned | Right


class Outcome(NamedTuple):
    """What came of an attack: a result or an error of rue, and all its warnings."""

    result: Any
    error: RueError | None
    warned: list[str]

    @property
    def said(self) -> str:
        """The error or the warnings, as a user reads them."""
        return str(self.error) if self.error is not None else " ".join(self.warned)


def refused(name: str, do: Callable[[], Any], error: type[RueError], message: str) -> Attack:
    """A mistake that gets an error."""
    return Attack(name, do, Refused(error, message))


def tried(attack: Attack) -> Outcome:
    """Do it. An error that is not of rue passes through: that is a defect."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result, error = attack.do(), None
        except RueError as found:
            result, error = None, found
    return Outcome(result, error, [str(one.message) for one in seen if issubclass(one.category, RueWarning)])


def judge(attack: Attack, outcome: Outcome) -> None:
    """Assert that what came of it is what was expected."""
    expected = attack.expected
    if isinstance(expected, Refused):
        assert outcome.error is not None, f"{attack.name}: not refused; {outcome.warned}"
        assert isinstance(outcome.error, expected.error), repr(outcome.error)
        assert re.search(expected.message, str(outcome.error)), str(outcome.error)
        assert len(str(outcome.error)) >= 40  # a sentence
        return
    assert outcome.error is None, f"{attack.name}: {outcome.error!r}"
    if isinstance(expected, Right):
        expected.check(outcome.result)
        return
    assert any(re.search(expected.message, text) for text in outcome.warned), f"{attack.name}: {outcome.warned}"
    facts = getattr(outcome.result, "facts", {"warnings": outcome.warned})
    assert any(re.search(expected.message, text) for text in facts["warnings"]), f"{attack.name}: {facts['warnings']}"
