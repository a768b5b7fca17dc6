"""Intended use, and what the numbers of this method mean and do not mean."""

import numpy as np

from rue.auditing.meaning import NOT_THE_ERROR, RANKS, ScoreMeaning
from rue.reports.blocks import Block, Section, section, table, text
from rue.reports.case import Case
from rue.reports.phrases import percent, rows
from rue.reports.spreads import spread_meaning

UNSTATED = (
    "No purpose was stated when this report was made. The owner of the model fills it in: who uses the predictions, "
    "for whom, for which decision, and for what they must not be used."
)
COLUMNS = {"term": ("Number", "text"), "means": ("What it says", "text"), "not": ("What it does not say", "text")}


def use(case: Case) -> Section:
    """The purpose and a table of terms."""
    given = case.asked.purpose
    whose = f"networks that {case.auditor.method} trained itself" if case.own_networks else "one model"
    lead = (
        f"A score ranks {rows(case.m, 'prediction')} of {whose} by how much they can be relied on. It supports the "
        "decision which of them a person looks at first; it takes no decision by itself."
    )
    return section(
        "use",
        "Intended use and what the score means",
        lead,
        [text("purpose", UNSTATED if given is None else given), table("terms", _caption(case), COLUMNS, _terms(case))],
    )


def _caption(case: Case) -> str:
    return f"What the numbers of {case.auditor.method} mean for {rows(case.m, 'prediction')}"


def _terms(case: Case) -> list[Block]:
    audit, spread = case.audit, spread_meaning(case)
    terms = [_term("Score", *_score(case)), _percentile(case)]
    if audit.std is not None:
        terms.append(_std(case))
    if audit.total_std is not None:
        terms.append(
            _term(
                "Total std",
                f"{spread.called} spread and noise together, one standard deviation in units of the target.",
                "A bound: about one error in three is larger, more where errors have heavy tails.",
            )
        )
    if audit.axes is not None:
        terms.append(
            _term(
                "Three axes",
                "Why: noise and local misfit, resampling (other training rows), scarcity (few similar rows). Their "
                "squares sum to the square of the total std.",
                "Causes in the world. More rows lower the second and third; the first may stay.",
            )
        )
    if audit.probability is not None:
        terms.append(
            _term(
                "Probability",
                spread.probability,
                "The share of such rows that belong to the class, unless the reliability chart below says so.",
            )
        )
    if audit.flip_probability is not None:
        terms.append(
            _term(
                "Flip probability",
                spread.flip,
                "That the decision is wrong: it may be stable and wrong.",
            )
        )
    return [*terms, _bounds(case), _tier(case)]


def _score(case: Case) -> ScoreMeaning:
    """The meaning of the score; a standard deviation of logits is described as such."""
    own, audit = case.auditor.meaning.score, case.audit
    if audit.std is None:
        return own or RANKS
    deviation = np.linalg.norm(audit.std.reshape(len(audit), -1), axis=1)
    if not np.allclose(deviation, audit.score, rtol=1e-6):
        return own or RANKS
    spread = spread_meaning(case)
    if audit.decision is not None:
        return ScoreMeaning(
            f"The standard deviation of the logits. {spread.says}", "The probability that the decision is wrong."
        )
    return own or ScoreMeaning(f"The standard deviation of the prediction. {spread.says}", NOT_THE_ERROR)


def _term(term: str, means: str, but: str) -> Block:
    return {"term": term, "means": means, "not": but}


def _percentile(case: Case) -> Block:
    return _term(
        "Percentile",
        f"The share of {rows(case.m, 'prediction')} whose score is not higher, ties by their mean.",
        "Anything beyond these rows: among easier rows the same score has a higher percentile.",
    )


def _std(case: Case) -> Block:
    spread = spread_meaning(case)
    return _term("Std", spread.says, spread.does_not_say)


def _bounds(case: Case) -> Block:
    level = percent(case.asked.level)
    kind = "Set of classes" if case.audit.decision is not None else "Interval"
    if case.interval is None and case.sets is None:
        return _term(kind, "There is none in this report.", case.guarantee)
    held = "The true class" if case.sets is not None else "The true value"
    return _term(
        f"{kind} at {level}",
        f"{held} is meant to be inside for {level} of rows like the training rows. Guarantee: {case.guarantee}.",
        "Coverage for every single row or group, and nothing for rows of another kind.",
    )


def _tier(case: Case) -> Block:
    how = "by a default made of these very rows" if case.default_policy else "by the policy that was given"
    return _term(
        "Tier",
        f"Accept, review or refuse, {how}: see thresholds and sign-off.",
        "That an accepted prediction is right. It says how the prediction is handled.",
    )
