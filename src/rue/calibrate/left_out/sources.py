"""Sources of left-out predictions: the model itself, its refitted tangent, a witness, and the rule that chooses."""

from dataclasses import dataclass, replace

from torch import Tensor

from rue.calibrate.crowding import LEAK, RELIED_ON, WARNED_OF, crowding, free_outputs
from rue.calibrate.left_out.evidence import AtRest, Evidence, Honest, Own, Source, Training
from rue.calibrate.left_out.folds import folded, usual
from rue.calibrate.left_out.honest import Mixed, OfTangent, mixed, share_of_first
from rue.calibrate.left_out.outside import witnessed
from rue.calibrate.left_out.rest import CLOSE, distance, is_linear, penalty_gradient, raw_steps, reweighted
from rue.calibrate.left_out.tangent import RefittedTangent, at_own, refitted_tangent
from rue.calibrate.left_out.witness import Witness, can_be_witnessed, witness
from rue.core.concepts import Facts
from rue.core.curvature import GaussNewton
from rue.core.derivatives import outputs
from rue.core.errors import ModelError, RueError, SettingError, ShapeError
from rue.core.model import Model
from rue.core.nested import joined, leaves
from rue.core.one_step import left_out
from rue.core.solve.choice import invert
from rue.data.rows import Rows

UNASKED = 30.0  # seconds that all trainings together may take if the user did not ask for them
FAR = 1.0  # resampling steps of the raw gradient above which parameters are not at rest in any metric
MUCH = 2.0  # a witness with more than so many times the tangent's left-out loss is poor (.3 to 1 on 26 networks)


@dataclass(frozen=True)
class Influence:
    """The model itself, assumed to be at rest: exact for linear models with squared error at their minimum."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Take one Newton step for each left-out unit."""
        _needs_parameters(model)
        evidence = _at_rest(model, data, own, "as asked")
        rest = evidence.rest
        assert rest is not None
        share = effective_share(rest)
        if not model.family.stationary or share <= WARNED_OF or is_linear(model, data):
            return evidence
        warning = (
            f"{rest.effective(data.n):.0f} effective parameters are {share:.0%} of the {data.n} rows': left-out "
            "errors by influence came out up to four times too large for networks with so many, so that expected "
            "errors and intervals are likely too wide; leave left_out= to the rule, or give validation= rows"
        )
        return replace(evidence, warning=warning, crowded=True)


@dataclass(frozen=True)
class Linearised:
    """The refitted tangent of a network; without an `l2`, the penalty has the least left-out loss.

    The penalty shrinks towards the `centre` given to `rue.wrap`, by default zero.
    """

    l2: float | None = None

    def __post_init__(self) -> None:
        if self.l2 is not None and not 0 < self.l2 < float("inf"):
            raise SettingError(f"l2 must be a finite number above 0, or None to have it chosen, got {self.l2!r}")

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Refit the tangent, and leave every unit out of it."""
        _needs_parameters(model)
        tangent = refitted_tangent(model, data, model.objective.centre, self.l2, seed)
        return _of_tangent(tangent, data, "as asked")


@dataclass(frozen=True)
class KernelWitness:
    """A kernel model of the same rows; the resampling of a network still comes from its refitted tangent."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Leave every unit out of the kernel model."""
        kernel = _witness(model, data, seed)
        if kernel is None:
            raise ModelError(
                "a kernel witness needs rows of one length, and squared error, yes-or-no or one-of-k classes; use "
                "left_out=Linearised()"
            )
        if model.family.outside:
            return Evidence.of(model, data.sample, "witness", "as asked", kernel.prediction, kernel.says, kernel.facts)
        tangent = refitted_tangent(model, data, model.objective.centre, None, seed)
        rest, facts = _resting(tangent, data), _facts(tangent)
        return _evidence("witness", "as asked", rest, kernel.prediction, data.sample, kernel.says, facts)


@dataclass(frozen=True)
class Chosen:
    """Influence if the model is at rest and has few effective parameters or is linear in them; else a `Mixture`."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:
        """Measure how far from rest the model is, and choose a source."""
        family = model.family
        if training is not None and training.asked:
            return usual(data).gather(model, data, own, seed, training)
        if family.outside and can_be_witnessed(model):
            return _from_outside(model, data, seed, training)
        if family.coupled or not family.joint or not family.stationary:
            return _at_rest(model, data, own, "the model minimises no smooth sum over rows that could be refitted")
        if model.objective.stated:
            rested, why = _stated(model, data, own, seed)
            rested = rested or _contradicted(model, data, seed)
        else:
            rested, why = _inferred(model, data, seed), "the penalty is not known, and no l2 has the parameters at rest"
        if rested is None:
            return _mixed(model, data, own, seed, why)
        assert rested.rest is not None
        share = effective_share(rested.rest)
        if share <= RELIED_ON or is_linear(model, data):
            return rested
        crowded = (
            f"the parameters are at rest, but their effective number is {share:.0%} of the rows': influence is then "
            "far off for a model that is not linear in them"
        )
        return _mixed(model, data, own, seed, crowded)


@dataclass(frozen=True)
class Mixture:
    """A mixture of the refitted tangent and a kernel witness, with the share that predicts left-out rows best."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Leave every unit out of both models."""
        _needs_parameters(model)
        return _mixed(model, data, own, seed, "as asked")


def _needs_parameters(model: Model) -> None:
    if not model.family.gradients:
        raise ModelError(
            f"what is known of the model is {model.describe()['known_of_it']}; it has no tangent: leave left_out= "
            "away, or give left_out=rue.left_out.Witnesses()"
        )


def _from_outside(model: Model, data: Rows, seed: int, training: Training | None) -> Evidence:
    """Refits if they are quick, else witnesses alone."""
    why = (
        "other rows would have grown other trees, which those it has do not show"
        if model.family.grown
        else "nothing is known of the model but what it predicts"
    )
    if training is None:
        return witnessed(model, data, seed, why)
    folds = usual(data)
    try:
        result = folded(model, data, folds, seed, training, why, UNASKED)
    except Exception as error:  # the user did not ask for copies, so any failure of training falls back to witnesses
        return witnessed(model, data, seed, f"{why}; copies cannot be trained ({error})")
    if isinstance(result, Evidence):
        return result
    took = (
        f"{folds.count} trainings would take {result:.0f} s or more, and no more than {UNASKED:.0f} s are spent unasked"
    )
    return witnessed(model, data, seed, f"{why}; {took}: left_out=rue.left_out.Folds() asks for them")


def rested_tangent(model: Model, data: Rows, seed: int = 0) -> RefittedTangent | None:
    """The tangent at rest, for a model whose penalty is not known; None if it cannot be refitted."""
    tangent = _under_inferred_l2(model, data, seed)
    if tangent is not None:
        return tangent
    try:
        return refitted_tangent(model, data, model.objective.centre, None, seed)
    except RueError:  # a loss that is not convex in the outputs
        return None


def effective_share(rest: AtRest) -> float:
    """Effective parameters divided by the number of free outputs of all rows (crowding)."""
    free = free_outputs(rest.objective.family, rest.left.fitted.shape[1])
    return crowding(rest.left.effective, len(rest.left.share), free)


def _at_rest(model: Model, data: Rows, own: Own, why: str) -> Evidence:
    inverted = own()
    rows = data if model.family.coupled else data.sample
    rest = AtRest(model, inverted, left_out(model, rows, inverted.inverse))
    return _evidence("influence at rest", why, rest, rest.left.prediction, rows, None, {})


def _stated(model: Model, data: Rows, own: Own, seed: int) -> tuple[Evidence | None, str]:
    """Influence if the model is at rest under its stated penalty; otherwise None and the reason."""
    gradients = reweighted(model, data, seed)
    if raw_steps(gradients, penalty_gradient(model)) > FAR:  # no need to factor anything
        return None, "under the stated penalty the parameters are far from rest"
    steps = distance(model, gradients, own().inverse).steps
    if steps <= CLOSE:
        return _at_rest(model, data, own, f"the parameters are at rest, {steps:.1g} resampling steps away"), ""
    return None, f"under the stated penalty the parameters are {steps:.2g} resampling steps from rest"


def _contradicted(model: Model, data: Rows, seed: int) -> Evidence | None:
    """Influence under another l2 than the stated one, if the parameters are at rest under it."""
    tangent = _under_inferred_l2(model, data, seed)
    if tangent is None:
        return None
    l2 = tangent.model.strength
    size = f"an l2 of {l2:.3g} on the summed loss" if l2 else "no penalty"
    warning = (
        f"the stated penalty is not the one these parameters were trained with: they are at rest under {size}, which "
        "was taken instead; a sum may have been taken for a mean (n times), the squared error for one without its ½, "
        "or AdamW's decay for a penalty"
    )
    return replace(_at_inferred(tangent, data, warning), warning=warning)


def _inferred(model: Model, data: Rows, seed: int) -> Evidence | None:
    """Influence under the l2 that explains the gradient best, if the parameters are at rest under it."""
    tangent = _under_inferred_l2(model, data, seed)
    if tangent is None:
        return None
    l2 = tangent.model.strength
    return _at_inferred(tangent, data, f"no penalty was stated, and the parameters are at rest under an l2 of {l2:.3g}")


def _at_inferred(tangent: RefittedTangent, data: Rows, why: str) -> Evidence:
    rest = _resting(tangent, data)
    facts = {"l2_found": tangent.model.strength}
    return _evidence("influence at rest", why, rest, rest.left.prediction, data.sample, None, facts)


def _under_inferred_l2(model: Model, data: Rows, seed: int) -> RefittedTangent | None:
    """The tangent at the model's own parameters, if these are at rest under some l2."""
    gradients = reweighted(model, data, seed)
    away = (model.theta - model.objective.centre.to(model.theta)).double()
    size = float(away @ away)
    l2 = max(0.0, -float(gradients.whole @ away) / size) if size > 0 else 0.0
    undetermined = l2 == 0 and model.theta.numel() > data.n * outputs(model, next(data.batches()).inputs).shape[1]
    if undetermined or raw_steps(gradients, l2 * away) > FAR:
        return None
    tangent = at_own(model, model.objective.centre, l2)
    inverted = invert(GaussNewton().at(tangent, data), None, None)
    if inverted.damped.warning or distance(tangent, gradients, inverted.inverse).steps > CLOSE:
        return None
    return RefittedTangent(tangent, inverted, limit=False)


def _mixed(model: Model, data: Rows, own: Own, seed: int, why: str) -> Evidence:
    """The tangent and the witness mixed; the tangent alone if no witness is possible."""
    try:
        tangent = refitted_tangent(model, data, model.objective.centre, None, seed)
    except RueError as error:
        return _at_rest(model, data, own, f"{why}; its tangent cannot be refitted ({error})")
    kernel = _witness(model, data, seed)
    if kernel is None:
        return _of_tangent(tangent, data, why)
    rest, decision = _resting(tangent, data), model.family.decision
    rows = data.sample
    targets = leaves(joined([batch.targets for batch in rows.batches()]))[0]
    first, second = rest.left.prediction, kernel.prediction
    best = share_of_first(decision, first, second, targets, rows.weight.to(first.device))
    alone, judged = (_evidence("witness", why, rest, each, rows, None, {}).loss for each in (first, second))
    poor = judged > MUCH * alone and not model.family.turned  # there it remembers labels, under a penalty alike for all
    share = best if poor else min(best, max(0.0, 1 - LEAK * effective_share(rest)))
    prediction = mixed(decision, first, second, share)
    honest = Mixed(OfTangent(tangent.model), kernel.says, share, decision)
    facts = {**_facts(tangent), "tangent_share": share, **kernel.facts}
    source: Source = "linearised and witness" if share else "witness"
    evidence = _evidence(source, why, rest, prediction, rows, honest, facts)
    return replace(evidence, warning=_poor(judged, alone)) if poor else evidence


def _poor(witnessed: float, alone: float) -> str:
    return (
        f"a kernel model of the same rows misses left-out rows by far more (mean loss {witnessed:.3g}) than the "
        f"network's own tangent ({alone:.3g}), as it does where inputs are ids, images or texts: expected errors rest "
        "on the tangent, which is not blind to labels that the network has learnt by heart, and may be off either way; "
        "give validation= rows"
    )


def _of_tangent(tangent: RefittedTangent, data: Rows, why: str) -> Evidence:
    rest = _resting(tangent, data)
    own = OfTangent(tangent.model)
    return _evidence("linearised", why, rest, rest.left.prediction, data.sample, own, _facts(tangent))


def _resting(tangent: RefittedTangent, data: Rows) -> AtRest:
    return AtRest(tangent.model, tangent.inverted, left_out(tangent.model, data.sample, tangent.inverted.inverse))


def _facts(tangent: RefittedTangent) -> Facts:
    return {"tangent_penalty": tangent.model.strength, "tangent_penalty_at_limit": tangent.limit}


def _witness(model: Model, data: Rows, seed: int) -> Witness | None:
    """A kernel witness; None if rows have different lengths, or for losses that witnesses do not support."""
    if not can_be_witnessed(model):
        return None
    try:
        return witness(model, data.sample, seed)
    except ShapeError:  # texts that were padded batch by batch
        return None


def _evidence(
    source: Source, why: str, rest: AtRest, prediction: Tensor, rows: Rows, honest: Honest | None, facts: Facts
) -> Evidence:
    return Evidence.of(rest.objective, rows, source, why, prediction, honest, facts, rest)
