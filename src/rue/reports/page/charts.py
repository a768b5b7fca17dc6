"""A chart block as an SVG drawing, without a library; colours come from the style sheet, with a shape for each."""

from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from math import ceil
from typing import Any

from rue.reports.blocks import Block
from rue.reports.page.axis import Axis, numeric, width, wrapped
from rue.reports.page.numbers import readable

WIDTH, PLOT = 640.0, 230.0
LINE = 15.0  # pixels from one line of text to the next
SLANTED = 22  # at most so many letters of a slanted name; the read-out has the whole name
COLOURS = 6  # after so many series the colours repeat, with other shapes
TITLED = 400  # a series of more marks is drawn small and without a title for each, which would be slow
TOGETHER = 100
SMALL = "m-1.6 0a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0-3.2 0"
SHAPES = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
    "m-2.7-2.7h5.4v5.4h-5.4z",
    "m0-3.7l3.5 6h-7z",
    "m0-3.9l3.9 3.9l-3.9 3.9l-3.9-3.9z",
    "m0 3.7l3.5-6h-7z",
    "m-1-3.4h2v2.4h2.4v2h-2.4v2.4h-2v-2.4h-2.4v-2h2.4z",
    "m-3-1h6v2h-6z",
)


@dataclass(frozen=True)
class Frame:
    """The two axes of a drawing and the names along x where it has categories."""

    x: Axis
    y: Axis
    categories: tuple[str, ...]

    def across(self, value: float | str) -> float:
        """The pixel of a number or of a category."""
        return self.x.at(self.categories.index(str(value)) if self.categories else float(value))

    def band(self, series: Block) -> float:
        """The pixels between neighbouring values along x: room for a bar."""
        places = sorted({self.across(value) for value in series["x"]})
        gaps = [after - before for before, after in pairwise(places)]
        if self.categories or not gaps:
            return (self.x.end - self.x.start) / max(len(self.categories), 1)
        return min(gaps)


def svg(block: Block) -> str:
    """The drawing of a chart block, with its legend above the plot."""
    legend, top = _legend(block["series"])
    above, top = _lines_above(block, top)
    frame, bottom = _frame(block, top)
    dodges = [_dodge(block["series"], place, frame) for place in range(len(block["series"]))]
    parts = [
        *legend,
        *_axes(block, frame),
        *_references(block, frame, above),
        *(_series(one, place, frame, dodges[place]) for place, one in enumerate(block["series"])),
    ]
    name = escape(f"Chart: {block['title']}. {block['x']['label']} against {block['y']['label']}.", quote=True)
    size = f'viewBox="0 0 {WIDTH:.0f} {bottom:.0f}"'
    return f'<svg class="plot" {size} role="img" aria-label="{name}">{"".join(parts)}</svg>'


def words(series: Block, index: int) -> str:
    """The title of one mark, for pages without the script."""
    text = f"{series['name']}: {readable(series['x'][index])}, {readable(series['y'][index])}"
    low, high = (series.get(end) or [None] * len(series["x"]) for end in ("low", "high"))
    return text if low[index] is None else f"{text} ({readable(low[index])} to {readable(high[index])})"


def _legend(series: list[Block]) -> tuple[list[str], float]:
    if len(series) < 2:
        return [], LINE + 12
    parts, x, y = [], 0.0, 12.0
    for place, one in enumerate(series):
        name = wrapped(one["name"], WIDTH - 50)[0]
        needed = 30 + width(name) + 14
        if x and x + needed > WIDTH:
            x, y = 0.0, y + LINE + 3
        parts.append(f'<g class="{_look(one, place)}">{_swatch(one, place, x, y - 4)}</g>{_text(x + 30, y, name)}')
        x += needed
    return parts, y + LINE + 22


def _swatch(series: Block, place: int, x: float, y: float) -> str:
    if series["type"] == "bars":
        return f'<path class="bar" d="M{x + 6:.1f} {y - 5:.1f}h12v10h-12z"/>'
    mark = f'<path class="mark" d="M{x + 12:.1f} {y:.1f}{_shape(place)}"/>'
    if series["type"] == "points":
        return mark
    stroke = f"M{x:.1f} {y:.1f}h24" if series["type"] == "line" else f"M{x + 12:.1f} {y - 7:.1f}v14"
    return f'<path class="line" d="{stroke}"/>{"" if series.get("dashed") else mark}'


def _lines_above(block: Block, top: float) -> tuple[list[tuple[Block, float]], float]:
    """Labels of reference lines on x are above the plot, one row for each; the label of y is above them."""
    top += LINE * (len(wrapped(block["y"]["label"], WIDTH)) - 1)
    lines = [line for line in block.get("lines") or [] if line["axis"] == "x"]
    placed = [(line, top + LINE * (row + 1) - 2) for row, line in enumerate(lines)]
    return placed, top + LINE * len(lines) + (4 if lines else 0)


def _frame(block: Block, top: float) -> tuple[Frame, float]:
    y = _y_axis(block)
    left = max(map(width, y.labels), default=0.0) + 12
    beside = [line["label"] for line in block.get("lines") or [] if line["axis"] == "y"]
    right = WIDTH - max([20.0, *(min(width(label), 120) + 10 for label in beside)])
    categories = _categories(block)
    if categories:
        left = max(left, _reach(categories, right - left))
        ticks = tuple(float(place) for place in range(len(categories)))
        x = Axis(-0.5, len(categories) - 0.5, left, right, ticks, categories)
    else:
        x = _x_axis(block, right - left)
        half = max(map(width, x.labels), default=0.0) / 2  # the outer labels are centred on the ends
        x = replace(x, start=max(left, half), end=min(right, WIDTH - half))
    frame = Frame(x, replace(y, start=top + PLOT, end=top), categories)
    return frame, top + PLOT + _depth(frame) + LINE * len(wrapped(block["x"]["label"], WIDTH)) + 14


def _categories(block: Block) -> tuple[str, ...]:
    """The names along x in their order of appearance; empty where x is a number."""
    values = [x for one in block["series"] for x in one["x"]]
    return tuple(dict.fromkeys(map(str, values))) if any(isinstance(x, str) for x in values) else ()


def _y_axis(block: Block) -> Axis:
    values = [v for one in block["series"] for key in ("y", "low", "high") for v in one.get(key) or [] if v is not None]
    values += [line["at"] for line in block.get("lines") or [] if line["axis"] == "y"]
    if any(one["type"] == "bars" for one in block["series"]):
        values.append(0.0)
    return numeric(values, block["y"].get("low"), block["y"].get("high"), 6)


def _x_axis(block: Block, room: float) -> Axis:
    values = [float(x) for one in block["series"] for x in one["x"]]
    values += [line["at"] for line in block.get("lines") or [] if line["axis"] == "x"]
    low, high = block["x"].get("low"), block["x"].get("high")
    bars = [one for one in block["series"] if one["type"] == "bars"]
    if bars and len(values) > 1:  # half a bar beyond the outer values
        half = min((b - a for a, b in pairwise(sorted({float(x) for x in bars[0]["x"]}))), default=1.0) / 2
        values += [min(values) - half, max(values) + half]
    for most in (10, 8, 6, 5, 4, 3, 2):
        axis = numeric(values, low, high, most)
        if sum(width(label) + 10 for label in axis.labels) < room:
            break
    return axis


def _depth(frame: Frame) -> float:
    """The height in pixels of the labels below the plot."""
    if not frame.categories:
        return LINE + 6
    lines = _upright(frame.categories, frame.x.end - frame.x.start)
    return LINE * max(map(len, lines)) + 6 if lines else 0.65 * max(width(_cut(name)) for name in frame.categories) + 14


def _upright(categories: tuple[str, ...], room: float) -> list[list[str]]:
    """The names along x in up to three lines each; empty where they must be slanted."""
    lines = [wrapped(name, room / len(categories) - 6) for name in categories]
    whole = all("…" not in "".join(parts) and len(parts) <= 3 for parts in lines)
    return lines if whole else []


def _reach(categories: tuple[str, ...], room: float) -> float:
    """How far the first slanted name extends to the left of its place."""
    return 0.0 if _upright(categories, room) else 0.78 * width(_cut(categories[0]))


def _cut(name: str) -> str:
    """A long name without its middle, because names often differ at their end."""
    return name if len(name) <= SLANTED else f"{name[: SLANTED // 2 - 1]}…{name[-SLANTED // 2 :]}"


def _axes(block: Block, frame: Frame) -> list[str]:
    x, y = frame.x, frame.y
    parts = [
        f'<path class="grid" d="M{x.start:.1f} {y.at(tick):.1f}H{x.end:.1f}"/>'
        + _text(x.start - 8, y.at(tick) + 4, label, "end")
        for tick, label in zip(y.ticks, y.labels, strict=True)
    ]
    ground = y.at(0.0) if any(one["type"] == "bars" for one in block["series"]) else y.start
    parts.append(f'<path class="axis" d="M{x.start:.1f} {ground:.1f}H{x.end:.1f}"/>')
    over = y.end - 16 - LINE * sum(one["axis"] == "x" for one in block.get("lines") or [])
    for row, line in enumerate(reversed(wrapped(block["y"]["label"], WIDTH))):
        parts.append(_text(0, over - row * LINE, line, name="label"))
    parts += _category_labels(frame) if frame.categories else _tick_labels(frame)
    below = y.start + _depth(frame) + LINE + 2
    for row, line in enumerate(wrapped(block["x"]["label"], WIDTH)):
        parts.append(_text((x.start + x.end) / 2, below + row * LINE, line, "middle", "label"))
    return parts


def _tick_labels(frame: Frame) -> list[str]:
    return [
        f'<path class="axis" d="M{frame.x.at(tick):.1f} {frame.y.start:.1f}v5"/>'
        + _text(frame.x.at(tick), frame.y.start + LINE + 4, label, "middle")
        for tick, label in zip(frame.x.ticks, frame.x.labels, strict=True)
    ]


def _category_labels(frame: Frame) -> list[str]:
    lines, y = _upright(frame.categories, frame.x.end - frame.x.start), frame.y.start + LINE + 2
    places = [frame.x.at(place) for place in frame.x.ticks]
    if lines:
        return [
            _text(x, y + LINE * row, part, "middle")
            for x, parts in zip(places, lines, strict=True)
            for row, part in enumerate(parts)
        ]
    every = ceil(LINE * len(places) / (frame.x.end - frame.x.start))  # slanted lines need a line's height each
    return [
        f'<g transform="translate({x:.1f} {y - 3:.1f}) rotate(-40)">{_text(0, 0, _cut(name), "end")}</g>'
        for x, name in list(zip(places, frame.categories, strict=True))[::every]
    ]


def _references(block: Block, frame: Frame, above: list[tuple[Block, float]]) -> list[str]:
    x, y, parts = frame.x, frame.y, []
    for line, row in above:
        place = x.at(line["at"])
        anchor = "end" if place + width(line["label"]) > WIDTH else "start"
        parts.append(f'<path class="reference" d="M{place:.1f} {row + 3:.1f}V{y.start:.1f}"/>')
        parts.append(_text(place + (-4 if anchor == "end" else 4), row, line["label"], anchor, "reference"))
    lines = [line for line in block.get("lines") or [] if line["axis"] == "y"]
    parts += [f'<path class="reference" d="M{x.start:.1f} {y.at(one["at"]):.1f}H{x.end:.1f}"/>' for one in lines]
    for label, row in _beside(lines, y):
        parts += [_text(x.end + 6, row + LINE * n, part, name="reference") for n, part in enumerate(label)]
    return parts


def _beside(lines: list[Block], y: Axis) -> list[tuple[list[str], float]]:
    """Labels of reference lines on y and the pixel of their first line, pushed apart where they would touch."""
    ordered = sorted(lines, key=lambda line: -line["at"])
    labels = [wrapped(line["label"], 120) for line in ordered]
    rows, least = [], y.end
    for line, label in zip(ordered, labels, strict=True):
        rows.append(max(least, y.at(line["at"]) + 4 - (len(label) - 1) * LINE / 2))
        least = rows[-1] + LINE * len(label)
    most = y.start
    for place in reversed(range(len(rows))):
        rows[place] = min(rows[place], most - LINE * (len(labels[place]) - 1))
        most = rows[place] - LINE
    return list(zip(labels, rows, strict=True))


def _dodge(series: list[Block], place: int, frame: Frame) -> tuple[float, float]:
    """The shift and width of the bars or ranges of a series, where several series share the places along x."""
    one = series[place]
    alike = [other for other in series if other["type"] == one["type"]]
    if one["type"] not in {"bars", "range"}:
        return 0.0, 0.0
    room = frame.band(one) * (0.72 if frame.categories else 0.94)
    own = next(rank for rank, other in enumerate(alike) if other is one)
    return ((own + 0.5) / len(alike) - 0.5) * room, room / len(alike)


def _series(series: Block, place: int, frame: Frame, dodge: tuple[float, float]) -> str:
    aside, wide = dodge
    places = [(frame.across(x) + aside, None if y is None else frame.y.at(y)) for x, y in _pairs(series)]
    known = [(index, x, y) for index, (x, y) in enumerate(places) if y is not None]
    where = " ".join("n n" if y is None else f"{x:.0f} {y:.0f}" for x, y in places)
    intervals, body = _intervals(series, frame, aside), ""
    if series["type"] == "line":
        body += f'<path class="line" d="{_trace(places)}"/>'
        every = max(1, len(known) // 8)
        known = [] if series.get("dashed") else known[every // 2 :: every]
    if series["type"] == "bars":
        ground = frame.y.at(0.0)
        marks = [(i, f"M{x - wide / 2:.1f} {ground:.1f}V{y:.1f}h{wide:.1f}V{ground:.1f}z") for i, x, y in known]
    else:
        shape = SMALL if len(known) > TITLED else _shape(place)
        marks = [(i, f"M{x:.1f} {y:.1f}{shape}") for i, x, y in known]
    body += _marks(series, marks, "bar" if series["type"] == "bars" else "mark")
    body = body + intervals if series["type"] == "bars" else intervals + body
    return f'<g class="{_look(series, place)} {series["type"]}" data-series="{place}" data-at="{where}">{body}</g>'


def _pairs(series: Block) -> list[tuple[Any, Any]]:
    return list(zip(series["x"], series["y"], strict=True))


def _trace(places: list[tuple[float, float | None]]) -> str:
    pen, parts = "M", []
    for x, y in places:
        if y is not None:
            parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "M" if y is None else "L"
    return "".join(parts)


def _intervals(series: Block, frame: Frame, aside: float) -> str:
    """Low to high: a band behind a line, a vertical stroke with a mark or a bar."""
    if not series.get("low") or not series.get("high"):
        return ""
    ends = [
        (frame.across(x) + aside, frame.y.at(low), frame.y.at(high))
        for x, low, high in zip(series["x"], series["low"], series["high"], strict=True)
        if low is not None and high is not None
    ]
    if series["type"] == "line":
        around = [f"{x:.1f} {high:.1f}" for x, _, high in ends] + [f"{x:.1f} {low:.1f}" for x, low, _ in reversed(ends)]
        return f'<path class="band" d="M{"L".join(around)}z"/>' if ends else ""
    strokes = "".join(f"M{x - 4:.1f} {low:.1f}h8m-4 0V{high:.1f}m-4 0h8" for x, low, high in ends)
    return f'<path class="whisker" d="{strokes}"/>'


def _marks(series: Block, marks: list[tuple[int, str]], name: str) -> str:
    if len(marks) > TITLED:  # several paths with many marks each, so that overlapping marks look darker
        groups = (marks[start : start + TOGETHER] for start in range(0, len(marks), TOGETHER))
        return "".join(f'<path class="{name}" d="{"".join(path for _, path in group)}"/>' for group in groups)
    return "".join(
        f'<path class="{name}" d="{path}"><title>{escape(words(series, index))}</title></path>' for index, path in marks
    )


def _look(series: Block, place: int) -> str:
    dashed = f" dashed dashed-{place % 3}" if series.get("dashed") else ""
    return ("muted" if series.get("muted") else f"colour-{place % COLOURS}") + dashed


def _shape(place: int) -> str:
    return SHAPES[place % len(SHAPES)]


def _text(x: float, y: float, text: str, anchor: str = "start", name: str = "tick") -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
