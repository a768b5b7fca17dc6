"""A figure of a prediction and its score along one feature."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rue.auditing.auditor import Auditor
from rue.auditing.result import Audit
from rue.core.arrays import Array
from rue.core.columns import columns
from rue.core.errors import InputError, ShapeError
from rue.core.settings import is_whole
from rue.plots.drawn import refuse_no_auditor
from rue.plots.style import COLOURS, EDGE, SMALL, STYLES, panels, remark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = 0.9  # of the wide band


def score_along(
    auditor: Auditor, row: Any, feature: int | str, values: ArrayLike, training: ArrayLike | None = None
) -> "Figure":
    """The prediction and, below, the score of one input, with one feature set to each of the values (m,).

    The row is (p,) or a data frame of one row; the feature is the number or name of a column. Bands are one standard
    deviation of resampling and the 90 % interval, where the audit has them; for a classifier, the probabilities of its
    classes are drawn. `training` has that feature's values in the training rows (n,), drawn as ticks.
    """
    refuse_no_auditor(auditor)
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
        (ticks,) = columns(training=training)
        for axes in (above, below):
            axes.plot(
                ticks, np.full(ticks.shape, 0.015), "|", color=EDGE, markersize=5, transform=axes.get_xaxis_transform()
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
        ends = np.isfinite(lower) & np.isfinite(upper)  # a guaranteed interval may be infinite
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
    """The row, repeated m times with its feature replaced by the grid (m,), and the name of the feature."""
    if hasattr(row, "columns") and hasattr(row, "iloc"):  # pandas; other frames are read as arrays
        return _varied_frame(row, feature, grid)
    values = np.asarray(row)
    if values.ndim == 2 and len(values) == 1:
        values = values[0]
    if values.ndim != 1:
        raise ShapeError(f"row has shape {values.shape}, expected one input (p,); pass one row of the inputs")
    if isinstance(feature, str):
        raise InputError(f"feature is {feature!r}, but row is an array without names; pass a column number or a frame")
    varied = np.repeat(values[None], len(grid), axis=0).astype(np.result_type(values.dtype, np.float32), copy=False)
    varied[:, _position(feature, len(values))] = grid
    return varied, f"feature {feature}"


def _varied_frame(row: Any, feature: int | str, grid: Array) -> tuple[Any, str]:
    if len(row) != 1:
        raise ShapeError(f"row has {len(row)} rows, expected one; pass frame.iloc[[i]]")
    names = list(row.columns)
    if feature not in names:
        if isinstance(feature, str):
            raise InputError(f"feature is {feature!r}, expected one of {', '.join(map(str, names))}; name a column")
        feature = names[_position(feature, len(names))]
    varied = row.iloc[[0] * len(grid)].reset_index(drop=True)
    whole = varied[feature].dtype.kind in "iu" and np.array_equal(grid, np.round(grid))
    varied[feature] = grid.astype(varied[feature].dtype) if whole else grid
    return varied, str(feature)


def _position(feature: int, features: int) -> int:
    if not is_whole(feature) or not -features <= feature < features:
        raise InputError(f"feature is {feature!r}, expected 0 to {features - 1}; pass the number of a column")
    return feature
