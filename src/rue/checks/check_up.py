"""Make every check that makes sense for a model."""

from collections.abc import Callable

import torch

from rue.checks.at_rest import at_rest
from rue.checks.check import Check, CheckUp
from rue.checks.duplicates import duplicates
from rue.checks.leverage import effective_parameters, largest_leverage
from rue.checks.linearisation import linearisation
from rue.checks.mode import mode
from rue.checks.negative_curvature import negative_curvature
from rue.checks.refits import refits
from rue.checks.sampling_error import sampling_error
from rue.checks.solve import solve
from rue.checks.subject import Subject
from rue.checks.training_fit import training_fit
from rue.errors import NumericalError
from rue.randomness import untouched
from rue.solve.choice import too_large

CHECKS: dict[str, Callable[[Subject], Check | str]] = {
    "mode": mode,
    "training fit": training_fit,
    "at rest": at_rest,
    "negative curvature": negative_curvature,
    "effective parameters": effective_parameters,
    "leverage": largest_leverage,
    "duplicates": duplicates,
    "linearisation": linearisation,
    "refits": refits,
    "sampling error": sampling_error,
    "solve": solve,
}
OBJECTIVE = ("at rest", "negative curvature", "effective parameters", "leverage", "linearisation", "solve")
FOREIGN = ("duplicates",)  # what can be said where a method predicts with networks of its own


def check_up(subject: Subject) -> CheckUp:
    """All checks in order, each made or left out with its reason."""
    made, left_out = [], {}
    with untouched(), torch.inference_mode(False):
        for name, check in CHECKS.items():
            found = _senseless(name, subject) or _made(check, subject)
            if isinstance(found, Check):
                made.append(found)
            else:
                left_out[name] = found
    return CheckUp(tuple(made), left_out)


def _senseless(name: str, subject: Subject) -> str | None:
    if subject.own_networks and name not in FOREIGN:
        return "the method predicts with networks that it trained itself"
    if name in OBJECTIVE and not subject.model.family.joint:
        return "trees of a forest minimise no one objective"
    if name in OBJECTIVE and subject.inverted is None and too_large(subject.model, subject.data):
        return "the method factors no curvature, and this model's is too large to do so for a check: fit LinearRUE()"
    return None


def _made(check: Callable[[Subject], Check | str], subject: Subject) -> Check | str:
    try:
        return check(subject)
    except NumericalError as error:  # a derivative or a factorisation that does not exist here
        return str(error)
