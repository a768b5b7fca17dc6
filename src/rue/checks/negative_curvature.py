"""Does the objective have negative curvature in some direction? By the eigenvalues of its true Hessian."""

import torch

from rue.checks.check import Check, Light, Senseless
from rue.checks.subject import Subject
from rue.core.curvature import Hessian

NAME = "negative curvature"
WORK = 2e10  # the largest n·d² and d³: half a minute on one core (0.5 s for 961 parameters and 1,000 rows)
CLEAR = 0.01  # part of the mean eigenvalue from which on a negative one is more than rounding
LIMITS = (
    f"amber where the smallest eigenvalue is below −{CLEAR} of the mean one, as nets that are not at a minimum have; "
    "red where the method uses the Hessian itself and had to damp it by more than the mean eigenvalue, which changes "
    "every direction"
)


def negative_curvature(subject: Subject) -> Check | str:
    """Compare the smallest eigenvalue with the mean one."""
    n, d = subject.data.n, subject.model.theta.numel()
    if not subject.model.family.stationary:
        return Senseless("the outputs are linear in the parameters, and the loss is convex")
    if subject.linearised is not None:
        return subject.linearised
    if not (subject.by_influence or isinstance(subject.curvature, Hessian)):
        return Senseless("left-out predictions are those of other models, and the method does not use the Hessian")
    if max(n, d) * d**2 > WORK:
        return f"the Hessian of d = {d} parameters on n = {n} rows would take minutes"
    values = torch.linalg.eigvalsh(Hessian().at(subject.model, subject.data).dense())
    smallest, mean = float(values[0]), float(values.abs().mean())
    share = smallest / mean if mean > 0 else 0.0
    light: Light = "amber" if share < -CLEAR else "green"
    text = (
        f"the smallest of d = {d} eigenvalues of the Hessian (n = {n}) is {smallest:.3g}, {share:.2g} of the mean one"
    )
    damping = subject.factored.damped.value
    if light == "amber" and isinstance(subject.curvature, Hessian) and damping > mean:
        light, text = "red", f"{text}, and the audit adds {damping:.3g} to all of them"
    advice = {"green": "", "amber": _AMBER, "red": _RED}[light]
    return Check(NAME, light, share, text, LIMITS, advice)


_AMBER = "train on to a minimum; until then use curvature=GaussNewton(), which never points downwards for a convex loss"
_RED = "use LinearRUE() or curvature=GaussNewton(): a damping that large hides what the data say"
