"""The cheap checks, made in every fit: nobody has to ask for them."""

from functools import partial

from rue.checks.at_rest import at_rest, misstated
from rue.checks.check import Check
from rue.checks.check_up import attempted
from rue.checks.copies import copies
from rue.checks.interpolation import interpolation
from rue.checks.leak import leak
from rue.checks.mode import mode
from rue.checks.subject import Subject
from rue.checks.training_fit import training_fit
from rue.checks.weights import weights

DATA = ("copies", "leak", "interpolation")  # do not tell whether these are the rows of training
DRAWS = 16  # re-weightings to tell a typical resampling step by: fewer than where checks are asked for


def warnings_at_fit(subject: Subject) -> list[str]:
    """A sentence for each thing that is not as it should be; a model that was stopped early gets none."""
    return [f"{check.name}: {check.found}; {check.advice}" for check in _made(subject) if check.light != "green"]


def _made(subject: Subject) -> list[Check]:
    checks = (copies, leak) if subject.own_networks else (copies, leak, mode, training_fit, weights, interpolation)
    made = [check for check in (attempted(check, subject) for check in checks) if isinstance(check, Check)]
    if not _has_objective(subject):
        return made
    wrong = any(check.light == "red" for check in made if check.name not in DATA)
    whole = _should_rest(subject) and not wrong  # rows that are not those of training are not at rest either
    rest = attempted(partial(at_rest, other_losses=False) if whole else misstated, subject)
    return [*made, rest] if isinstance(rest, Check) else made


def _has_objective(subject: Subject) -> bool:
    """Whether there is an objective to be at rest, and its curvature is factored already."""
    return not subject.own_networks and subject.without_objective is None and subject.inverted is not None


def _should_rest(subject: Subject) -> bool:
    """Whether being away from rest would be a mistake."""
    return subject.needs_rest or not (subject.stated_by_user or subject.may_stop_early)
