"""Makes every check that makes sense for a model."""

from collections.abc import Callable

import torch

from rue.checks.at_rest import at_rest
from rue.checks.check import Check, CheckUp
from rue.checks.copies import copies
from rue.checks.duplicates import duplicates
from rue.checks.interpolation import interpolation
from rue.checks.leak import leak
from rue.checks.leverage import effective_parameters, largest_leverage
from rue.checks.linearisation import linearisation
from rue.checks.mode import mode
from rue.checks.negative_curvature import negative_curvature
from rue.checks.refits import refits
from rue.checks.sampling_error import sampling_error
from rue.checks.solve import solve
from rue.checks.subject import Subject
from rue.checks.training_fit import training_fit
from rue.checks.weights import weights
from rue.core.errors import NumericalError, RueError
from rue.core.memory import derivatives_kept
from rue.core.resample import untouched

Made = Callable[[Subject], Check | str]

CHECKS: dict[str, Made] = {
    "mode": mode,
    "training fit": training_fit,
    "weights": weights,
    "interpolation": interpolation,
    "at rest": at_rest,
    "negative curvature": negative_curvature,
    "effective parameters": effective_parameters,
    "leverage": largest_leverage,
    "copies": copies,
    "leak": leak,
    "duplicates": duplicates,
    "linearisation": linearisation,
    "refits": refits,
    "sampling error": sampling_error,
    "solve": solve,
}
OBJECTIVE = ("at rest", "negative curvature", "effective parameters", "leverage", "linearisation", "solve")
FOREIGN = (
    "copies",
    "leak",
    "duplicates",
)  # the checks that make sense where a method predicts with networks it trained itself


def check_up(subject: Subject) -> CheckUp:
    """All checks in order; each is made, or skipped with a reason."""
    checks, skipped = [], {}
    with untouched(), torch.inference_mode(False), derivatives_kept(subject.data):
        subject.data.refuse_changed_source()
        for _ in subject.data.batches():  # raises if the rows have changed since the fit
            pass
        for name, check in CHECKS.items():
            outcome = _senseless(name, subject) or attempted(check, subject)
            if isinstance(outcome, Check):
                checks.append(outcome)
            else:
                skipped[name] = outcome
    return CheckUp(tuple(checks), skipped)


def _senseless(name: str, subject: Subject) -> str | None:
    if subject.own_networks and name not in FOREIGN:
        return "the method predicts with networks that it trained itself"
    return subject.without_objective if name in OBJECTIVE else None


def attempted(check: Made, subject: Subject) -> Check | str:
    """The check, or the reason why it cannot be made: one that fails does not stop the others."""
    try:
        return check(subject)
    except RueError as error:
        if check is refits and not isinstance(error, NumericalError):
            raise  # the error is in the user's refit function
        return str(error)
