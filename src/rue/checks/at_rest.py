"""Is the objective at rest (its gradient zero) at these parameters, and if not, which other objective would be?"""

from math import inf

from rue.calibrate.left_out.rest import CLOSE, Distance, distance
from rue.checks.check import Check, Light, Senseless
from rue.checks.other_statements import other_statements
from rue.checks.subject import Subject
from rue.checks.wrong_loss import better_loss
from rue.core.curvature import GaussNewton

NAME = "at rest"
# Share of the Newton decrement that another penalty must explain for a red light. For nets stopped early it reached
# .954, and after five steps of gradient descent from zero, which follow the path of ridge regression, .99997.
ALL = 0.99999
ALONG = 0.9  # from this share on another penalty is mentioned
CHANCE = 1e-3  # probability that a random direction has as large a share, for few parameters
WORTH = 0.01  # nearer to rest than this part of a step, a share may be due to the last digits of slow training
FACTOR = 1.5  # penalties within this factor of the stated one count as the same
EQUAL = 1.05  # a factor that is this close to n counts as n
LIMITS = (
    f"green below {CLOSE} of a typical resampling step: being off then adds a hundredth of its square; red where "
    f"another penalty, more than {FACTOR} times off, other targets, labels, class weights or centre, or another loss "
    "are at rest here, unless they are an estimator's own; distance alone is never red, and amber only where the audit "
    "takes the model to be at rest: a net that was stopped early is no mistake"
)


def at_rest(subject: Subject, other_losses: bool = True) -> Check | str:
    """Measure the distance from rest; where it is large, look for another penalty or loss that explains it."""
    if not subject.model.family.stationary:
        return Senseless(
            "no gradient is zero here: trees are grown one after the other, and absolute values hold parameters at zero"
        )
    if subject.projected:
        return "the audit looks along a projection, where the penalty's own pull is not seen"
    away = distance(subject.model, subject.reweighted, subject.factored.inverse)
    if away.decrement <= subject.rounding**2 * _size(subject):
        text = (
            f"the parameters are at rest up to rounding (Newton decrement {away.decrement:.2g}, n = {subject.data.n})"
        )
        return Check(NAME, "green", 0.0, text, LIMITS, "")
    measured = _measured(away, subject)
    if not subject.stated_by_user:  # loss and penalty were read from an estimator: they cannot be misstated
        if away.steps <= CLOSE or (subject.may_stop_early and not subject.needs_rest):
            return _check("green", away, measured, "")
        return _check("amber", away, measured, _SEARCH_ADVICE if subject.searched else _CLOSED_FORM_ADVICE)
    other = _other_penalty(away, subject) if away.steps > WORTH else None
    if other and away.share >= ALL:
        return _check("red", away, f"{measured}; they are at rest under {other}", _PENALTY_ADVICE)
    restated = misstated(subject)
    if isinstance(restated, Check):
        return restated
    named = better_loss(subject, away.steps, CLOSE) if other_losses and away.steps > WORTH else None
    if named is not None:
        text = f"under loss={named.name!r} with the same penalty they are {named.steps:.2g} of a step away"
        return _check("red", away, f"{measured}; {text}", f"wrap the model with loss={named.name!r}, if trained so")
    if not subject.needs_rest:  # then early stopping is no mistake
        other_source = (
            "the audit is of the model's tangent, refitted"
            if subject.rested
            else (f"left-out predictions come from another source ({subject.source})")
        )
        text = f"{measured}; {other_source}, which needs no rest"
        return _check("green", away, text, "")
    if other:
        hint = f"{other} would take away {away.share:.1%} of the decrement, as after stopping early too"
        return _check("amber", away, f"{measured}; {hint}", f"{_PENALTY_ADVICE}; or train on until it rests")
    return (
        _check("green", away, measured, "") if away.steps <= CLOSE else _check("amber", away, measured, _AMBER_ADVICE)
    )


def misstated(subject: Subject) -> Check | str:
    """Red where the parameters are at rest with other targets, labels, class weights or another centre than stated.

    Nothing is said of parameters that are not at rest at all, as those of a net that was stopped early.
    """
    likely = [one for one in other_statements(subject) if one.share >= ALL]
    free = _free(subject) if likely else 0.0
    other = next((one for one in likely if one.share >= needed_share(free, one.directions)), None)
    if other is None:
        return "no other statement about targets, labels or the centre has the parameters at rest"
    away = distance(subject.model, subject.reweighted, subject.factored.inverse)
    if away.steps <= WORTH:
        return "the parameters are at rest"
    return _check("red", away, f"{_measured(away, subject)}; they are at rest with {other.words}", other.advice)


def _measured(away: Distance, subject: Subject) -> str:
    return (
        f"the parameters are {away.steps:.2g} of a typical resampling step away from rest (Newton decrement "
        f"{away.decrement:.2g}, n = {subject.data.n}, d = {subject.model.theta.numel()})"
    )


def _free(subject: Subject) -> float:
    """The dimensions that gradients of re-weighted rows have, in the metric of the inverse curvature; at most d.

    Those of a network whose units are dead, or of logits that only differ, have fewer than it has parameters. Of b
    independent vectors in d dimensions (tr K)²/tr K², K their inner products, is about b·d/(b + d).
    """
    inner = subject.reweighted.drawn @ subject.steps.T
    spread, b = float(inner.trace() ** 2 / inner.square().sum()), len(inner)
    return min(float(subject.model.theta.numel()), spread * b / (b - spread) if spread < b else inf)


_PENALTY_ADVICE = (
    'state the l2 and the reduction of the objective that was trained: J = Σ loss + ½ l2‖θ‖², or reduction="mean" '
    "for an averaged loss; or hand over the torch.nn loss object and optimizer=; a decay inside AdamW is no penalty"
)
_AMBER_ADVICE = (
    "train on until it rests, or read the audit as one of re-weighting around these parameters; if training had "
    "converged, these are other weights, other rows, row weights that were left out, AdamW's decay, or another loss"
)
_CLOSED_FORM_ADVICE = (
    "the loss and the penalty are the estimator's own, and its fit solves them exactly: these are other rows, targets "
    "or row weights than those of its training, or coefficients or settings that were changed since; give "
    "rue.Data(X, y, weight=...) as in its fit"
)
_SEARCH_ADVICE = (
    "the loss and the penalty are the estimator's own: these are other rows, targets or row weights than those of its "
    "training, or settings that were changed since; or its search stopped before it was at rest: scale the columns, "
    "raise max_iter or lower tol"
)


def _other_penalty(away: Distance, subject: Subject) -> str | None:
    """The penalty that explains the distance from rest, in words; None where it is as stated or explains little."""
    if away.share < needed_share(subject.model.theta.numel()):
        return None
    if not away.stated:
        return f"an l2 of {away.factor:.3g} on the summed loss, where none was stated" if away.factor > 0 else None
    n, total = subject.data.n, float(subject.data.weight.sum())
    none = 0.01 / total
    if _alike(away.factor, 1.0, FACTOR) or away.factor < -none:  # nobody trains with a negative penalty
        return None
    if away.factor < none:
        return "no penalty at all"
    text = f"a penalty {away.factor:.3g} times as large as stated"
    for size in (n, total):
        if _alike(away.factor, size, EQUAL) or _alike(away.factor, 1 / size, EQUAL):
            return f"{text} (n = {size:g}, or 1/n: a mean was taken for a sum, or a sum for a mean)"
    if abs(away.factor - 0.5) < 0.02:
        return f"{text} (as for a loss twice as large: the squared error without its ½)"
    return text


def _size(subject: Subject) -> float:
    """θᵀHθ: parameters with a relative rounding error of ε have a decrement of about ε² of it."""
    theta = subject.model.theta.double()
    return float(theta @ GaussNewton().at(subject.model, subject.data).product(theta[None])[0])


def _alike(factor: float, other: float, within: float) -> bool:
    """Whether two penalties are equal up to the factor `within`."""
    return 1 / within <= factor / other <= within


def needed_share(d: float, directions: int = 1) -> float:
    """The share that random directions among d explain with a probability of `CHANCE`; at least `ALONG`.

    >>> needed_share(1), round(needed_share(3), 3), needed_share(100)
    (inf, 0.998, 0.9)
    """
    from scipy.stats import beta

    if d <= directions:
        return inf
    return max(ALONG, float(beta.isf(CHANCE, directions / 2, (d - directions) / 2)))


def _check(light: Light, away: Distance, measured: str, advice: str) -> Check:
    return Check(NAME, light, away.steps, measured, LIMITS, advice)
