"""Style of all figures: colours that most people can distinguish, plain axes, and a remark with the number of rows."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's colours, which colour-blind people can distinguish, then grey tones and dashes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#777777", "#AAAAAA")
DASHES = ("-", "-", "-", "--", "--", "--", "-.", "-.", ":")
STYLES = (*zip(COLOURS, DASHES, strict=True), ("#000000", "-"), ("#E69F00", ":"))
GREY = "#999999"  # reference lines
EDGE = "#555555"  # outlines of points, so that pale ones stay visible
SHADES = "viridis_r"  # colours of sizes: the larger, the darker
SMALL = 8  # font size of legends and remarks, in points


def one_panel(width: float = 7.0, height: float = 4.2) -> "tuple[Figure, Axes]":
    """A figure with one panel, outside Matplotlib's global state."""
    figure, (axes,) = panels((1.0,), width, height)
    return figure, axes


def panels(
    heights: tuple[float, ...], width: float = 7.0, height: float = 4.2, share: bool = True
) -> "tuple[Figure, list[Axes]]":
    """Panels above each other, of these relative heights."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    parts = list(figure.subplots(len(heights), 1, sharex=share, squeeze=False, height_ratios=heights)[:, 0])
    for axes in parts:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, parts


def remark(figure: "Figure", text: str) -> None:
    """Write the number of rows, and anything else needed to read the figure, above it."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=SMALL, color=EDGE)


def legend_beside(axes: "Axes") -> None:
    """A legend to the right of the axes."""
    axes.legend(frameon=False, fontsize=SMALL, loc="center left", bbox_to_anchor=(1.0, 0.5))


def called(values: Any, otherwise: str) -> str:
    """The name of a data frame's column; `otherwise` for values without a name."""
    name = getattr(values, "name", None)
    return otherwise if name is None else str(name)
