"""An explanation in one plain sentence or two."""

from typing import TYPE_CHECKING

import numpy as np

from rue.explain.lens import MODEL

if TYPE_CHECKING:
    from rue.explain.explanation import Explanation, Standing

ALIKE, UNLIKE = 0.5, 0.1  # similarity above which rows are like the audited one, and below which they are not

STANDS_IN = "The model is known by its predictions alone; a forest of the same rows stands in for it. "
_ONE = ("decides", "it is", "it", "its label", "its loss")
_MANY = ("decide", "they are", "them", "their labels", "their losses")


def sentence(found: "Explanation") -> str:
    """Who decides, whether they are like this one, how badly they were fitted, and which is the reason."""
    if found.half == 0:
        return f"To this method {found.of} hangs on no choice of {found.training.noun}: no residual is left to pull."
    return f"{'' if found.whose == MODEL else STANDS_IN}{_deciders(found)} {_reason(found)}"


def _deciders(found: "Explanation") -> str:
    units = found.order[: found.half]
    rows = found.representative[units]
    like = float(np.median(found.similarity[rows]))
    how = "like this one" if like >= ALIKE else "unlike this one" if like < UNLIKE else "somewhat like this one"
    decide, they, them, label, loss = _ONE if found.half == 1 else _MANY
    count, size, weight = len(found.contribution), np.abs(found.residual), found.training.data.weight.numpy()
    missed, usual = float(np.average(size[rows], weights=found.share[units])), float(np.average(size, weights=weight))
    half = f"{found.half} of {count} {found.training.noun} {decide} half of how far {found.of} would change"
    said = f"{half}; {they} {how}"
    if found.kind == "probability":
        sure = f"{1 - missed:.2f} on average ({1 - usual:.2f} over all)"
        return f"{said} and {found.whose} gives {label} a probability of {sure}."
    if found.kind == "slope":
        return f"{said} and the slope of {loss} is {missed:.3g} on average ({usual:.3g} over all)."
    return f"{said} and {found.whose} misses {them} by {missed:.3g} on average ({usual:.3g} over all)."


def _reason(found: "Explanation") -> str:
    if found.split is None:
        return "Whether similar rows are few, or fitted badly, is not known for this model."
    few, bad, compared = found.split
    rows = f"{compared} training rows"
    if found.reason == "too few similar rows":
        return (
            f"Similar rows are few, scarcer than around {_percent(few)} of {rows}: {_times(few)} the usual variance "
            f"(misfit: {_times(bad)})."
        )
    if found.reason == "similar rows fitted badly":
        return (
            f"Similar rows are fitted badly, worse than around {_percent(bad)} of {rows}: {_times(bad)} the usual "
            f"variance (scarcity: {_times(few)})."
        )
    return f"Nothing is unusual: scarcity makes {_times(few)} and misfit {_times(bad)} the usual variance of {rows}."


def _percent(standing: "Standing") -> str:
    return f"{np.floor(standing.percentile):.0f} %"


def _times(standing: "Standing") -> str:
    return f"{standing.times:.2g} times"
