"""Intended use, and what the numbers of this very method mean and do not mean."""

from rue.report.blocks import Block, Section, section, table, text
from rue.report.case import Case
from rue.report.phrases import percent

UNSTATED = (
    "No purpose was stated when this report was made. The owner of the model fills it in: who uses the predictions, "
    "for whom, for which decision, and for what they must not be used."
)
COLUMNS = {"term": ("Number", "text"), "means": ("What it says", "text"), "not": ("What it does not say", "text")}
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
        "The error to expect: noise of the target is no part of it, nor is what the model misses everywhere.",
    ),
    "RUE": (
        "The standard deviation of the prediction over sampled training sets: with other training rows it would change "
        "by about so much.",
        "The error to expect: noise of the target is no part of it, nor is what the model misses everywhere.",
    ),
    "ForestRUE": (
        "For numbers the size of error to expect, weighed on rows out of the bag; for classes the share of the trees' "
        "votes against the decision.",
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
    lead = (
        f"A score ranks {case.m} predictions of one model by how much they can be relied on. It supports the decision "
        "which of them a person looks at first; it takes no decision by itself."
    )
    return section(
        "use",
        "Intended use and what the score means",
        lead,
        [text("purpose", UNSTATED if given is None else given), table("terms", _caption(case), COLUMNS, _terms(case))],
    )


def _caption(case: Case) -> str:
    return f"What the numbers of {case.auditor.method} mean for these {case.m} predictions"


def _terms(case: Case) -> list[Block]:
    audit = case.audit
    said = SCORES.get(case.auditor.method, OTHER)
    found = [_term("Score", *said), _percentile(case)]
    if audit.std is not None:
        found.append(_std(case))
    if audit.total_std is not None:
        found.append(
            _term(
                "Total std",
                "Resampling and noise together, one standard deviation in units of the target.",
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
                "Of the predicted class, averaged over the training sets that might have been.",
                "The share of such rows that belong to the class, unless the reliability chart below says so.",
            )
        )
    if audit.flip_probability is not None:
        found.append(
            _term(
                "Flip probability",
                "The chance that another training set of the same kind would have led to another decision.",
                "That the decision is wrong: it may be stable and wrong.",
            )
        )
    return [*found, _bounds(case), _tier(case)]


def _term(term: str, means: str, but: str) -> Block:
    return {"term": term, "means": means, "not": but}


def _percentile(case: Case) -> Block:
    return _term(
        "Percentile",
        f"The share of these {case.m} predictions whose score is not higher, ties by their mean.",
        "Anything beyond these rows: among easier rows the same score has a higher percentile.",
    )


def _std(case: Case) -> Block:
    what = "the logits" if case.audit.decision is not None else "the prediction"
    return _term(
        "Std",
        f"Resampling alone: {what} would change by about so much with other training rows.",
        "What training from scratch would do: parameters are re-weighted around the trained ones, to first order.",
    )


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
