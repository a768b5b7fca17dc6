"""Is the objective at rest at these parameters, and if not, which one would be?"""

from math import inf

from rue.calibrate.left_out.rest import CLOSE, Distance, distance
from rue.checks.check import Check, Light, Senseless
from rue.checks.subject import Subject
from rue.checks.wrong_loss import better_loss
from rue.core.curvature import GaussNewton

NAME = "at rest"
# Share of the decrement that another penalty takes away where parameters rest under it; for nets stopped early it
# reached .954, after five steps of gradient descent from zero, which is a ridge regression's path, .99997
ALL = 0.99999
ALONG = 0.9  # share from which on another penalty is worth a word
CHANCE = 1e-3  # of a direction at random sharing as much, in few parameters
WORTH = 0.01  # of a step: below it, a share may come from the last digits of slow training
FACTOR = 1.5  # penalties within it of the stated one are not told apart
EQUAL = 1.05  # a factor this close to n is n
LIMITS = (
    f"green below {CLOSE} of a typical resampling step: being off then adds a hundredth of its square; red where "
    f"another penalty, more than {FACTOR} times off, or another loss is at rest here, unless they are an estimator's "
    "own; distance alone is never red, and amber only where the audit takes the model to be at rest: a net that was "
    "stopped early is no mistake"
)


def at_rest(subject: Subject) -> Check | str:
    """Measure, and where something is off, look for what would be at rest."""
    if not subject.model.family.stationary:
        return Senseless(
            "no gradient is zero here: trees are grown one after the other, and absolute values hold parameters at zero"
        )
    if subject.projected:
        return "the audit looks along a projection, where the penalty's own pull is not seen"
    seen = distance(subject.model, subject.reweighted, subject.factored.inverse)
    if seen.decrement <= subject.rounding**2 * _size(subject):
        told = (
            f"the parameters are at rest up to rounding (Newton decrement {seen.decrement:.2g}, n = {subject.data.n})"
        )
        return Check(NAME, "green", 0.0, told, LIMITS, "")
    measured = (
        f"the parameters are {seen.steps:.2g} of a typical resampling step away from rest (Newton decrement "
        f"{seen.decrement:.2g}, n = {subject.data.n}, d = {subject.model.theta.numel()})"
    )
    if not subject.told:  # nobody can have told it another penalty or loss
        light: Light = "green" if seen.steps <= CLOSE else "amber"
        return _check(light, seen, measured, "" if light == "green" else _ESTIMATOR_ADVICE)
    other = _other_penalty(seen, subject) if seen.steps > WORTH else None
    if other and seen.share >= ALL:
        return _check("red", seen, f"{measured}; they are at rest under {other}", _PENALTY_ADVICE)
    named = better_loss(subject, seen.steps, CLOSE) if seen.steps > WORTH else None
    if named is not None:
        said = f"under loss={named.name!r} with the same penalty they are {named.steps:.2g} of a step away"
        return _check("red", seen, f"{measured}; {said}", f"wrap the model with loss={named.name!r}, if trained so")
    if not subject.needs_rest:  # stopping early is no mistake
        said = f"{measured}; left-out predictions come from another source ({subject.source}), which needs no rest"
        return _check("green", seen, said, "")
    if other:
        hint = f"{other} would take away {seen.share:.1%} of the decrement, as after stopping early too"
        return _check("amber", seen, f"{measured}; {hint}", f"{_PENALTY_ADVICE}; or train on until it rests")
    return (
        _check("green", seen, measured, "") if seen.steps <= CLOSE else _check("amber", seen, measured, _AMBER_ADVICE)
    )


_PENALTY_ADVICE = (
    'state the l2 and the reduction of the objective that was trained: J = Σ loss + ½ l2‖θ‖², or reduction="mean" '
    "for an averaged loss; or hand over the torch.nn loss object and optimizer=; a decay inside AdamW is no penalty"
)
_AMBER_ADVICE = (
    "train on until it rests, or read the audit as one of re-weighting around these parameters; if training had "
    "converged, these are other weights, other rows, row weights that were left out, AdamW's decay, or another loss"
)
_ESTIMATOR_ADVICE = (
    "the loss and the penalty are the estimator's own, so that its search stopped before it was at rest: scale the "
    "columns, raise max_iter or lower tol; if it had converged, these are other rows, or row weights that were left out"
)


def _other_penalty(seen: Distance, subject: Subject) -> str | None:
    """The penalty that explains most of the distance, in words; None where it is as stated, or explains too little."""
    if seen.share < needed_share(subject.model.theta.numel()):
        return None
    if not seen.stated:
        return f"an l2 of {seen.factor:.3g} on the summed loss, where none was stated" if seen.factor > 0 else None
    n, total = subject.data.n, float(subject.data.weight.sum())
    none = 0.01 / total
    if _alike(seen.factor, 1.0, FACTOR) or seen.factor < -none:  # nobody trains with a negative penalty
        return None
    if seen.factor < none:
        return "no penalty at all"
    said = f"a penalty {seen.factor:.3g} times as large as stated"
    for size in (n, total):
        if _alike(seen.factor, size, EQUAL) or _alike(seen.factor, 1 / size, EQUAL):
            return f"{said} (n = {size:g}, or 1/n: a mean was taken for a sum, or a sum for a mean)"
    if abs(seen.factor - 0.5) < 0.02:
        return f"{said} (as for a loss twice as large: the squared error without its ½)"
    return said


def _size(subject: Subject) -> float:
    """θᵀHθ, what a decrement is rounded from: parameters off by ε of themselves have one of ε² of it."""
    theta = subject.model.theta.double()
    return float(theta @ GaussNewton().at(subject.model, subject.data).product(theta[None])[0])


def _alike(factor: float, other: float, within: float) -> bool:
    """The same penalty, up to a factor."""
    return 1 / within <= factor / other <= within


def needed_share(d: int) -> float:
    """What a random direction among d would explain with a probability of `CHANCE`; at least `ALONG`.

    >>> needed_share(1), round(needed_share(3), 3), needed_share(100)
    (inf, 0.998, 0.9)
    """
    from scipy.stats import beta

    return inf if d == 1 else max(ALONG, float(beta.isf(CHANCE, 0.5, (d - 1) / 2)))


def _check(light: Light, seen: Distance, found: str, advice: str) -> Check:
    return Check(NAME, light, seen.steps, found, LIMITS, advice)
