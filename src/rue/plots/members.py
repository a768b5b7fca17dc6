"""A figure of the predictions of resampled members."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rue.auditing.auditor import Auditor
from rue.core.arrays import Array
from rue.core.columns import columns
from rue.core.errors import InputError, ShapeError
from rue.plots.drawn import refuse_no_auditor
from rue.plots.style import COLOURS, SMALL, called, one_panel, remark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = 40  # more strips could not be distinguished


def members_spread(auditor: Auditor, inputs: Any, x: ArrayLike | None = None) -> "Figure":
    """The predictions of each of the b resampled members for m inputs, and the prediction itself.

    Lines along x (m,) if it is given, else a strip of dots for each of up to 40 inputs.
    """
    refuse_no_auditor(auditor)
    members = auditor.members(inputs)  # (b, m)
    if members.ndim != 2:
        raise ShapeError(
            f"the members predict {members.shape[2]} outputs, expected one to draw; draw one of "
            "auditor.members(inputs)[:, :, k] yourself"
        )
    place = _places(x, members.shape[1])
    audit = auditor.audit(inputs)
    own = audit.prediction if audit.decision is None else np.asarray(audit.outputs)[:, 0]
    figure, axes = one_panel()
    (_strips if x is None else _lines)(axes, place, members, own)
    axes.set_xlabel("input" if x is None else called(x, "x"))
    axes.set_ylabel("prediction" if audit.decision is None else "logit")
    rows = f"m = {len(own)} inputs, b = {len(members)} members of {audit.method}"
    remark(figure, f"{rows}, n = {audit.facts['n']} training rows")
    legend = axes.legend(frameon=False, fontsize=SMALL)
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)  # type: ignore[union-attr]  # a single faint line would be invisible
    return figure


def _places(x: ArrayLike | None, m: int) -> Array:
    """The place of each input on the axis: its x, or its number."""
    if x is None:
        if m > ROWS:
            raise InputError(
                f"there are {m} inputs, expected at most {ROWS} strips; pass fewer rows, or x to draw lines along it"
            )
        return np.arange(m, dtype=np.float64)
    (place,) = columns(x=x)
    if place.size != m:
        raise InputError(f"x has {place.size} rows and inputs have {m}, expected as many; pass the same rows")
    return place


def _lines(axes: "Axes", place: Array, members: Array, own: Array) -> None:
    order = np.argsort(place, kind="stable")
    faint = max(0.1, min(0.7, 30 / len(members)))
    lines = axes.plot(place[order], members[:, order].T, color=COLOURS[0], linewidth=0.6, alpha=faint)
    lines[0].set_label("one member")
    axes.plot(place[order], own[order], color=COLOURS[1], linewidth=1.6, label="the prediction")


def _strips(axes: "Axes", place: Array, members: Array, own: Array) -> None:
    from matplotlib.ticker import MaxNLocator

    where = np.broadcast_to(place, members.shape)
    axes.scatter(where, members, s=6, color=COLOURS[0], alpha=0.2, linewidths=0, label="one member")
    axes.scatter(place, own, marker="_", s=90, color=COLOURS[1], linewidths=2, label="the prediction")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(-0.6, own.size - 0.4)
