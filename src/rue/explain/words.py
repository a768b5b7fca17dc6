"""An explanation in one or two plain sentences."""

from typing import TYPE_CHECKING

import numpy as np

from rue.explain.lens import MODEL

if TYPE_CHECKING:
    from rue.explain.explanation import Explanation, Standing

ALIKE, UNLIKE = 0.5, 0.1  # similarity above which rows are like the audited one, and below which they are not

STANDS_IN = "The model is known by its predictions alone; a forest of the same rows stands in for it. "
_ONE = ("decides", "it is", "it", "its label", "its loss")
_MANY = ("decide", "they are", "them", "their labels", "their losses")


def sentence(explanation: "Explanation") -> str:
    """The sentence: which units decide, how similar they are, how badly they were fitted, and the reason."""
    if explanation.half == 0:
        return (
            f"By this method {explanation.of} would not change with other {explanation.training.noun}: the residuals "
            "of those that bear on it are zero."
        )
    return f"{'' if explanation.whose == MODEL else STANDS_IN}{_deciders(explanation)} {_reason(explanation)}"


def _deciders(explanation: "Explanation") -> str:
    units = explanation.order[: explanation.half]
    rows = explanation.representative[units]
    like = float(np.median(explanation.similarity[rows]))
    how = "like this one" if like >= ALIKE else "unlike this one" if like < UNLIKE else "somewhat like this one"
    decide, they, them, label, loss = _ONE if explanation.half == 1 else _MANY
    count, size, weight = (
        len(explanation.contribution),
        np.abs(explanation.residual),
        explanation.training.data.weight.numpy(),
    )
    missed, usual = (
        float(np.average(size[rows], weights=explanation.share[units])),
        float(np.average(size, weights=weight)),
    )
    counted = f"{explanation.half} of {count} {explanation.training.noun}"
    deciders = f"{counted} {decide} half of how far {explanation.of} would change; {they} {how}"
    if explanation.kind == "probability":
        sure = f"{1 - missed:.2f} on average ({1 - usual:.2f} over all)"
        return f"{deciders} and {explanation.whose} gives {label} a probability of {sure}."
    if explanation.kind == "slope":
        return f"{deciders} and the slope of {loss} is {missed:.3g} on average ({usual:.3g} over all)."
    return f"{deciders} and {explanation.whose} misses {them} by {missed:.3g} on average ({usual:.3g} over all)."


def _reason(explanation: "Explanation") -> str:
    if explanation.split is None:
        return "Whether similar rows are few, or fitted badly, is not known for this model."
    few, bad, compared = explanation.split
    rows = f"{compared} training rows"
    if explanation.reason == "too few similar rows":
        return (
            f"Similar rows are few, scarcer than around {_percent(few)} of {rows}: {_times(few)} the usual variance "
            f"(misfit: {_times(bad)})."
        )
    if explanation.reason == "similar rows fitted badly":
        return (
            f"Similar rows are fitted badly, worse than around {_percent(bad)} of {rows}: {_times(bad)} the usual "
            f"variance (scarcity: {_times(few)})."
        )
    return f"Nothing is unusual: scarcity makes {_times(few)} and misfit {_times(bad)} the usual variance of {rows}."


def _percent(standing: "Standing") -> str:
    return f"{np.floor(standing.percentile):.0f} %"


def _times(standing: "Standing") -> str:
    return f"{standing.times:.2g} times"
