"""Intended use, and what the numbers of this very method mean and do not mean."""

import numpy as np

from rue.reports.blocks import Block, Section, section, table, text
from rue.reports.case import Case
from rue.reports.phrases import percent, rows
from rue.reports.spreads import words

UNSTATED = (
    "No purpose was stated when this report was made. The owner of the model fills it in: who uses the predictions, "
    "for whom, for which decision, and for what they must not be used."
)
COLUMNS = {"term": ("Number", "text"), "means": ("What it says", "text"), "not": ("What it does not say", "text")}
UNSEEN = "The error to expect: noise of the target is no part of it, nor is what the model misses everywhere."
SCORES = {
    "CalibratedRUE": (
        "The size of error to expect, one standard deviation in units of the target: noise, rows nearby that are "
        "fitted badly, how far the prediction would change with other training rows, and scarcity, weighed on the "
        "training rows, each left out.",
        "Whether this prediction is wrong. Among rows of one score some errors are small and some are large.",
    ),
    "ClassifierRUE": (
        "The estimated probability that the predicted class is wrong, averaged over the training sets that might have "
        "been and weighed on the training rows, each left out.",
        "Whether this decision is wrong, or what a wrong one costs.",
    ),
    "LinearRUE": (
        "The standard deviation of the prediction over the training sets that might have been: with other training "
        "rows it would change by about so much.",
        UNSEEN,
    ),
    "RUE": (
        "The standard deviation of the prediction over sampled training sets: with other training rows it would change "
        "by about so much.",
        UNSEEN,
    ),
    "ForestRUE": (
        "For numbers the size of error to expect, weighed on rows out of the bag; for classes the probability "
        "that the decision is wrong: the trees' votes, as sure as rows out of the bag were told.",
        "What other splits of the trees would do: their structure is held fixed.",
    ),
}
OTHER = (
    "The higher it is, the less reliable the prediction is held to be by this method; only its order has a meaning.",
    "A probability, or an error to expect.",
)


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
    audit = case.audit
    found = [_term("Score", *_score(case)), _percentile(case)]
    if audit.std is not None:
        found.append(_std(case))
    if audit.total_std is not None:
        found.append(
            _term(
                "Total std",
                f"{words(case).called} spread and noise together, one standard deviation in units of the target.",
                "A bound: about one error in three is larger, more where errors have heavy tails.",
            )
        )
    if audit.axes is not None:
        found.append(
            _term(
                "Three axes",
                "Why: noise and local misfit, resampling (other training rows), scarcity (few similar rows). Their "
                "squares sum to the square of the total std.",
                "Causes in the world. More rows lower the second and third; the first may stay.",
            )
        )
    if audit.probability is not None:
        found.append(
            _term(
                "Probability",
                words(case).probability,
                "The share of such rows that belong to the class, unless the reliability chart below says so.",
            )
        )
    if audit.flip_probability is not None:
        found.append(
            _term(
                "Flip probability",
                words(case).flip,
                "That the decision is wrong: it may be stable and wrong.",
            )
        )
    return [*found, _bounds(case), _tier(case)]


def _score(case: Case) -> tuple[str, str]:
    """Of this method; a deviation of logits is none of a prediction."""
    known, audit = SCORES.get(case.auditor.method), case.audit
    if audit.std is None:
        return known or OTHER
    deviation = np.linalg.norm(audit.std.reshape(len(audit), -1), axis=1)
    if not np.allclose(deviation, audit.score, rtol=1e-6):
        return known or OTHER
    if audit.decision is not None:
        return f"The standard deviation of the logits. {words(case).std}", "The probability that the decision is wrong."
    return known or (f"The standard deviation of the prediction. {words(case).std}", UNSEEN)


def _term(term: str, means: str, but: str) -> Block:
    return {"term": term, "means": means, "not": but}


def _percentile(case: Case) -> Block:
    return _term(
        "Percentile",
        f"The share of {rows(case.m, 'prediction')} whose score is not higher, ties by their mean.",
        "Anything beyond these rows: among easier rows the same score has a higher percentile.",
    )


def _std(case: Case) -> Block:
    said = words(case)
    return _term("Std", said.std, said.but)


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
    made = "by a default made of these very rows" if case.default_policy else "by the policy that was given"
    return _term(
        "Tier",
        f"Accept, review or refuse, {made}: see thresholds and sign-off.",
        "That an accepted prediction is right. It says how the prediction is handled.",
    )
