"""The meaning of the spread of the audit's method, in words."""

from rue.auditing.meaning import NETWORKS_OF_ITS_OWN, REWEIGHTED, UNEXPLAINED, SpreadMeaning
from rue.reports.case import Case


def spread_meaning(case: Case) -> SpreadMeaning:
    """The method's own words; for a method without any, general words that depend on whether it uses influences."""
    meaning = case.auditor.meaning.spread
    if case.own_networks:
        meaning = NETWORKS_OF_ITS_OWN
    elif meaning is None:
        meaning = UNEXPLAINED if case.auditor.trained.lens is None else REWEIGHTED
    logits = "the logits" if case.auditor.model.family.joint else "the share of votes"
    what = "the prediction" if case.audit.decision is None else logits
    return SpreadMeaning(*(text.format(method=case.auditor.method, what=what) for text in meaning))
