"""How far apart the predictions of the resampled members lie."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rue.auditor import Auditor
from rue.columns import columns
from rue.errors import InputError, ShapeError
from rue.plots.style import COLOURS, SMALL, called, one_panel, remark
from rue.result import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = 40  # strips that can be told apart


def members_spread(auditor: Auditor, inputs: Any, x: ArrayLike | None = None) -> "Figure":
    """What each of the b resampled members predicts for m inputs, beside the prediction itself.

    Lines along x (m,) where it is given, else a strip of dots for each of up to 40 inputs.
    """
    members = auditor.members(inputs)  # (b, m)
    if members.ndim != 2:
        raise ShapeError(
            f"the members predict {members.shape[2]} outputs, expected one to draw; draw one of "
            "auditor.members(inputs)[:, :, k] yourself"
        )
    audit = auditor.audit(inputs)
    own = audit.prediction if audit.decision is None else np.asarray(audit.outputs)[:, 0]
    figure, axes = one_panel()
    if x is None:
        _strips(axes, members, own)
    else:
        _lines(axes, members, own, x)
    axes.set_ylabel("prediction" if audit.decision is None else "logit")
    rows = f"m = {len(own)} inputs, b = {len(members)} members of {audit.method}"
    remark(figure, f"{rows}, n = {audit.facts['n']} training rows")
    legend = axes.legend(frameon=False, fontsize=SMALL)
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)  # type: ignore[union-attr]  # faint lines are not seen alone
    return figure


def _lines(axes: Any, members: Array, own: Array, x: ArrayLike) -> None:
    (place,) = columns(x=x)
    if place.size != own.size:
        raise InputError(f"x has {place.size} rows and inputs have {own.size}, expected as many; pass the same rows")
    order = np.argsort(place, kind="stable")
    faint = max(0.1, min(0.7, 30 / len(members)))
    lines = axes.plot(place[order], members[:, order].T, color=COLOURS[0], linewidth=0.6, alpha=faint)
    lines[0].set_label("one member")
    axes.plot(place[order], own[order], color=COLOURS[1], linewidth=1.6, label="the prediction")
    axes.set_xlabel(called(x, "x"))


def _strips(axes: Any, members: Array, own: Array) -> None:
    if own.size > ROWS:
        raise InputError(
            f"there are {own.size} inputs, expected at most {ROWS} strips; pass fewer rows, or x to draw lines along it"
        )
    place = np.arange(own.size)
    where = np.broadcast_to(place, members.shape)
    axes.scatter(where, members, s=6, color=COLOURS[0], alpha=0.2, linewidths=0, label="one member")
    axes.scatter(place, own, marker="_", s=90, color=COLOURS[1], linewidths=2, label="the prediction")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlim(-0.6, own.size - 0.4)
    axes.set_xlabel("input")
