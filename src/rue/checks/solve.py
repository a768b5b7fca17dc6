"""Were the linear systems solved precisely, and without a damping that the user did not ask for?"""

from rue.checks.check import Check, Light, Senseless
from rue.checks.subject import Subject

NAME = "solve"
GOOD, POOR = 1e-2, 1e-1  # relative residuals; up to 1e-2 RUE is within 1 % of the exact solve
LIMITS = (
    f"green up to a relative residual of {GOOD:g}, which keeps RUE within 1 %, red above {POOR:g}; amber also where "
    "the curvature could not be inverted without a damping nobody asked for"
)


def solve(subject: Subject) -> Check | str:
    """The residual of the solves in `fit`, and any damping that was necessary."""
    residual = subject.residual
    if subject.inverted is None:
        return Senseless("the method solves no linear system")
    damped = subject.inverted.damped
    light: Light = "green" if residual is None or residual <= GOOD else "amber" if residual <= POOR else "red"
    text = "no residual is known before an audit" if residual is None else f"the relative residual is {residual:.1e}"
    text += f" (d = {subject.model.theta.numel()}, damping {damped.value:.3g}: {damped.reason})"
    if light == "green" and damped.warning:
        light = "amber"
    advice = {
        "green": "",
        "amber": "state the l2 the model was trained with, choose a damping, or tighten the solver's tolerance",
        "red": "tighten the solver's tolerance, or use solver=Cholesky()",
    }[light]
    return Check(NAME, light, residual, text, LIMITS, advice)
