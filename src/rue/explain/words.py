"""An explanation in one plain sentence or two."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rue.explain.explanation import Explanation, Standing

ALIKE, UNLIKE = 0.5, 0.1  # similarity above which rows are like the audited one, and below which they are not

_ONE = ("decides", "it is", "it", "its label")
_MANY = ("decide", "they are", "them", "their labels")


def sentence(found: "Explanation") -> str:
    """Who decides, whether they are like this one, how badly they were fitted, and which is the reason."""
    if found.half == 0:
        return f"No choice of {found.training.noun} would change {found.of}."
    return f"{_deciders(found)} {_reason(found)}"


def _deciders(found: "Explanation") -> str:
    units = found.order[: found.half]
    rows = found.representative[units]
    like = float(np.median(found.similarity[rows]))
    kind = "like this one" if like >= ALIKE else "unlike this one" if like < UNLIKE else "somewhat like this one"
    count, noun = len(found.contribution), found.training.noun
    decide, they, them, their = _ONE if found.half == 1 else _MANY
    said = f"{found.half} of {count} {noun} {decide} half of how far {found.of} would change; {they} {kind}"
    missed = float(np.average(np.abs(found.residual[rows]), weights=found.share[units]))
    overall = found.training.typical
    if found.training.classes:
        sure, usual = 1 - missed, 1 - overall
        return f"{said} and the model gives {their} a probability of {sure:.2f} on average ({usual:.2f} over all)."
    return f"{said} and the model misses {them} by {missed:.3g} on average ({overall:.3g} over all)."


def _reason(found: "Explanation") -> str:
    if found.density is None or found.misfit is None:
        return "Whether similar rows are few, or fitted badly, is not known for this model."
    few, bad = found.density, found.misfit
    rows = f"{found.compared} training rows"
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
