"""What the spread of a method is made of, in words: re-weighted rows, a posterior, networks of its own, or nothing."""

from typing import NamedTuple

from rue.reports.case import Case


class Words(NamedTuple):
    """Of one kind of spread."""

    called: str  # beside the total
    std: str  # what it says of {what}
    but: str  # what it does not say
    limit: str  # for the limitations
    flip: str = "The chance that the decision would be another, by the spread of the logits."
    probability: str = "Of the predicted class, averaged over the spread of the logits."


REWEIGHTED = Words(
    "Resampling",
    "Resampling alone: {what} would change by about so much with other training rows.",
    "What training from scratch would do: parameters are re-weighted around the trained ones, to first order.",
    "The spread is that of re-weighting the training rows around the trained parameters, to first order. It is not "
    "training from scratch: another start, other settings or another search are no part of it.",
    "The chance that another training set of the same kind would have led to another decision.",
    "Of the predicted class, averaged over the training sets that might have been.",
)
FOREST = REWEIGHTED._replace(
    but="What other splits of the trees would do: their structure is held fixed.",
    limit="The spread is that of re-weighting the training rows in the leaves of grown trees. Other splits, other "
    "settings or another search are no part of it.",
    probability="Of the predicted class: the trees' votes, as sure as rows out of the bag were told.",
)
POSTERIOR = Words(
    "Posterior",
    "The posterior: {what} would change by about so much were the parameters drawn from a Gaussian around the trained "
    "ones, with the inverse curvature as its covariance.",
    "What other training rows, or training from scratch, would do.",
    "The spread is that of a Gaussian around the trained parameters with the inverse curvature as its covariance. "
    "Other minima, and a model that is wrong, are no part of it.",
)
OWN = Words(
    "Members'",
    "The spread of the members, or of the weights, of networks that the method trained itself.",
    "How far the wrapped module would move: its trained weights take no part.",
    "{method} trained networks of its own: predictions, errors and spread are theirs, and the weights of the wrapped "
    "module take no part.",
)
REFITTED = Words(
    "Members'",
    "The spread of the members: networks trained again, each on resampled training rows.",
    "What other settings of the training would do.",
    "The spread is that of networks that {method} trained again on resampled rows; the predictions are those of the "
    "wrapped module. Other settings of the training are no part of it.",
)
STEPPED = Words(
    "Members'",
    "The spread of {what} after one gradient step on resampled training rows.",
    "How far training would go: the size goes by the length of the step, and only the order has a meaning.",
    "The spread is that of one gradient step on resampled training rows: its size goes by the length of the step.",
)
NONE = Words(
    "The method's",
    "The spread that {method} gives to {what}.",
    "What other training rows, or training from scratch, would do.",
    "{method} trains nothing again: what other training rows, or training from scratch, would change is no part of its "
    "score.",
    probability="Of the predicted class: the model's own.",
)
BY_METHOD = {"Laplace": POSTERIOR, "RefitBootstrap": REFITTED, "BootstrapSGD": STEPPED, "ForestRUE": FOREST}


def words(case: Case) -> Words:
    """Of the method of this audit."""
    found = OWN if case.own_networks else BY_METHOD.get(case.auditor.method)
    if found is None:
        found = NONE if case.auditor.trained.lens is None else REWEIGHTED
    logits = "the logits" if case.auditor.model.family.joint else "the share of votes"
    what = "the prediction" if case.audit.decision is None else logits
    return Words(*(one.format(method=case.auditor.method, what=what) for one in found))
