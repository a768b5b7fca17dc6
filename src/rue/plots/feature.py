"""How a prediction and its score go along one feature."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rue.auditing.auditor import Auditor
from rue.auditing.result import Audit
from rue.core.arrays import Array
from rue.core.columns import columns
from rue.core.errors import InputError, ShapeError
from rue.plots.style import COLOURS, EDGE, SMALL, STYLES, panels, remark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = 0.9  # of the wide band


def score_along(
    auditor: Auditor, row: Any, feature: int | str, values: ArrayLike, training: ArrayLike | None = None
) -> "Figure":
    """The prediction and, below, the score, as one feature of one input goes through values (m,).

    The row is (p,) or a data frame of one row; the feature the number or name of a column. Bands are one standard
    deviation of resampling and the 90 % interval, where the audit has them; of a classifier, the probabilities of its
    classes are drawn. `training` are that feature's values in the training rows (n,), a tick each.
    """
    (grid,) = columns(values=values)
    grid = np.sort(grid)
    inputs, name = _varied(row, feature, grid)
    audit = auditor.audit(inputs)
    figure, (above, below) = panels((3.0, 2.0), height=5.2)
    (_draw_bands if audit.probability is None else _draw_classes)(above, grid, audit)
    below.plot(grid, audit.score, color=COLOURS[0])
    below.set_ylim(bottom=min(0.0, 1.05 * audit.score.min()))
    below.set_ylabel("score")
    below.set_xlabel(name)
    if training is not None:
        (seen,) = columns(training=training)
        for axes in (above, below):
            axes.plot(
                seen, np.full(seen.shape, 0.015), "|", color=EDGE, markersize=5, transform=axes.get_xaxis_transform()
            )
    rug = "" if training is None else "; a tick for each of their values"
    remark(
        figure, f"{audit.method}; {grid.size} inputs that differ in {name}; n = {audit.facts['n']} training rows{rug}"
    )
    above.legend(frameon=False, fontsize=SMALL)
    return figure


def _draw_bands(axes: "Axes", grid: Array, audit: Audit) -> None:
    if audit.prediction.ndim != 1:
        raise ShapeError(
            f"the model has {audit.prediction.shape[1]} outputs, expected one to draw; wrap a model that returns the "
            "output you want to see"
        )
    if audit.total_std is not None:
        lower, upper, _ = audit.interval(LEVEL)
        ends = np.isfinite(lower) & np.isfinite(upper)  # a guaranteed interval may have none
        axes.fill_between(
            grid, lower, upper, where=ends, color=COLOURS[5], alpha=0.25, linewidth=0, label="90 % interval"
        )
    if audit.std is not None:
        low, high = audit.prediction - audit.std, audit.prediction + audit.std
        axes.fill_between(grid, low, high, color=COLOURS[0], alpha=0.4, linewidth=0, label="1 std of resampling")
    axes.plot(grid, audit.prediction, color=COLOURS[6], linewidth=1.2, label="prediction")
    axes.set_ylabel("prediction")


def _draw_classes(axes: "Axes", grid: Array, audit: Audit) -> None:
    share = np.asarray(audit.probability)
    if share.shape[1] > len(STYLES):
        raise ShapeError(
            f"the model has {share.shape[1]} classes, expected at most {len(STYLES)} to tell apart; draw the columns "
            "of audit.probability that matter"
        )
    names = range(share.shape[1]) if audit.classes is None else audit.classes
    for column, class_, (colour, dash) in zip(share.T, names, STYLES, strict=False):
        axes.plot(grid, column, color=colour, linestyle=dash, label=f"class {class_}")
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("probability")


def _varied(row: Any, feature: int | str, grid: Array) -> tuple[Any, str]:
    """The row (m times), its feature replaced by the grid (m,), and what the feature is called."""
    if hasattr(row, "columns") and hasattr(row, "iloc"):  # of pandas; others are read as arrays
        return _varied_frame(row, feature, grid)
    found = np.asarray(row)
    if found.ndim == 2 and len(found) == 1:
        found = found[0]
    if found.ndim != 1:
        raise ShapeError(f"row has shape {found.shape}, expected one input (p,); pass one row of the inputs")
    if isinstance(feature, str):
        raise InputError(f"feature is {feature!r}, but row is an array without names; pass a column number or a frame")
    made = np.repeat(found[None], len(grid), axis=0).astype(np.result_type(found.dtype, np.float32), copy=False)
    made[:, _position(feature, len(found))] = grid
    return made, f"feature {feature}"


def _varied_frame(row: Any, feature: int | str, grid: Array) -> tuple[Any, str]:
    if len(row) != 1:
        raise ShapeError(f"row has {len(row)} rows, expected one; pass frame.iloc[[i]]")
    names = list(row.columns)
    if feature not in names:
        if isinstance(feature, str):
            raise InputError(f"feature is {feature!r}, expected one of {', '.join(map(str, names))}; name a column")
        feature = names[_position(feature, len(names))]
    made = row.iloc[[0] * len(grid)].reset_index(drop=True)
    whole = made[feature].dtype.kind in "iu" and np.array_equal(grid, np.round(grid))
    made[feature] = grid.astype(made[feature].dtype) if whole else grid
    return made, str(feature)


def _position(feature: int, features: int) -> int:
    if not -features <= feature < features:
        raise InputError(f"feature is {feature}, expected 0 to {features - 1}; pass the number of a column")
    return feature
