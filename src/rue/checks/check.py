"""Check: one traffic light with its number and its reason. CheckUp: all checks of a model."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rue.core.errors import SettingError

if TYPE_CHECKING:
    import pandas as pd

Light = Literal["green", "amber", "red"]
ORDER: tuple[Light, ...] = ("green", "amber", "red")
ROWS = 10  # a check names at most so many rows
WIDTH = 110  # of a printed line, in characters


@dataclass(frozen=True)
class Check:
    """What was measured, how that is judged, and what to do."""

    name: str
    light: Light
    value: float | None
    found: str  # what was measured, in one sentence with its n
    threshold: str  # the limits, and the reason for them
    advice: str  # what to do; empty where green
    rows: tuple[Any, ...] = ()  # the user's ids of the rows it is about, at most ten


class Senseless(str):
    """The reason why a check makes no sense for this model or method: it is skipped, but not missing."""


@dataclass(frozen=True)
class CheckUp:
    """All checks that were made of a model, and why the others were not.

    >>> solve = Check("solve", "green", 1e-9, "the residual is 1e-9", "below 0.01", "")
    >>> CheckUp((solve,), {"refits": "no refit was given"}).light
    'green'
    """

    checks: tuple[Check, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)  # checks that were not made, and why
    auditor: str = ""  # the fingerprint of the fit that was checked

    @property
    def light(self) -> Light:
        """The worst light of all checks."""
        return ORDER[max((ORDER.index(check.light) for check in self.checks), default=0)]

    @property
    def left_out(self) -> Mapping[str, str]:
        """Another name of `skipped`."""
        return self.skipped

    @property
    def missing(self) -> dict[str, str]:
        """The checks that make sense for this model but were not made, and why."""
        return {name: why for name, why in self.skipped.items() if not isinstance(why, Senseless)}

    def __getitem__(self, name: str) -> Check:
        check = next((check for check in self.checks if check.name == name), None)
        if check is not None:
            return check
        if name in self.skipped:
            raise SettingError(f"the check {name!r} was not made: {self.skipped[name]}; `name in checkup` tells before")
        raise SettingError(f"there is no check {name!r}; made were {', '.join(check.name for check in self.checks)}")

    def __contains__(self, name: object) -> bool:
        return any(check.name == name for check in self.checks)

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def to_frame(self) -> "pd.DataFrame":
        """One line for each check that was made."""
        import pandas as pd

        names = ("name", "light", "value", "found", "threshold", "advice", "rows")
        return pd.DataFrame([[getattr(check, name) for name in names] for check in self.checks], columns=list(names))

    def __str__(self) -> str:
        parts = [_paragraph(check) for check in sorted(self.checks, key=lambda check: -ORDER.index(check.light))]
        parts += [_indented(f"{'—':6} {name}: not made, {reason}") for name, reason in self.skipped.items()]
        return "\n".join(parts)


def _paragraph(check: Check) -> str:
    lines = [_indented(f"{check.light.upper():6} {check.name}: {check.found}")]
    if check.light != "green":
        lines += [_indented(f"       {text}") for text in (f"Limits: {check.threshold}", f"What to do: {check.advice}")]
        lines += [_indented(f"       Rows: {', '.join(map(str, check.rows))}")] if check.rows else []
    return "\n".join(lines)


def _indented(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * 9)
