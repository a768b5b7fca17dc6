"""The blocks that sections consist of: small dicts, one function for each kind."""

from collections.abc import Mapping, Sequence
from typing import Any

Block = dict[str, Any]
Section = dict[str, Any]


def section(name: str, title: str, lead: str, blocks: Sequence[Block]) -> Section:
    """A part of the report under its fixed id."""
    return {"id": name, "title": title, "lead": lead, "blocks": list(blocks)}


def text(name: str, words: str) -> Block:
    """One paragraph, or several with empty lines between them."""
    return {"kind": "text", "id": name, "text": words}


def listed(name: str, items: Sequence[str]) -> Block:
    """Sentences, one below the other."""
    return {"kind": "list", "id": name, "items": list(items)}


def facts(name: str, items: Sequence[Block]) -> Block:
    """A list of facts, each with a label and a value."""
    return {"kind": "facts", "id": name, "items": list(items)}


def fact(label: str, value: Any, note: str | None = None, *, code: bool = False) -> Block:
    """One fact of `facts`; `code` is for hashes and the like."""
    item = {"label": label, "value": value, "note": note}
    return {**item, "code": True} if code else item


def table(name: str, caption: str, columns: Mapping[str, tuple[str, str]], rows: Sequence[Block]) -> Block:
    """Rows by key; a column is a key with its label and its type, "text", "number" or "light".

    >>> table("a", "Of n = 2 rows", {"n": ("n", "number")}, [{"n": 2}])["columns"]
    [{'key': 'n', 'label': 'n', 'type': 'number'}]
    """
    shown = [{"key": key, "label": label, "type": kind} for key, (label, kind) in columns.items()]
    return {"kind": "table", "id": name, "caption": caption, "columns": shown, "rows": list(rows)}


def chart(
    name: str, title: str, axes: tuple[Block, Block], series: Sequence[Block], note: str, lines: Sequence[Block] = ()
) -> Block:
    """Series over an x and a y axis; the note says how many rows are behind them."""
    drawing = {"kind": "chart", "id": name, "title": title, "x": axes[0], "y": axes[1], "series": list(series)}
    return {**drawing, "lines": list(lines), "note": note}


def axis(label: str, low: float | None = None, high: float | None = None) -> Block:
    """An axis, with fixed ends where they are given."""
    ends = {"low": low, "high": high}
    return {"label": label, **{name: end for name, end in ends.items() if end is not None}}


def series(name: str, kind: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> Block:
    """A "line", "points", "bars" or "range"; more: low, high, dashed, muted, row."""
    return {"name": name, "type": kind, "x": list(x), "y": list(y), **more}


def line(direction: str, at: float, label: str) -> Block:
    """A reference line."""
    return {"axis": direction, "at": at, "label": label}


def lines_to_sign(name: str, fields: Sequence[tuple[str, str]]) -> Block:
    """Empty lines to be filled in by hand, each with a hint."""
    return {"kind": "signoff", "id": name, "fields": [{"label": label, "hint": hint} for label, hint in fields]}


def block(document: Mapping[str, Any], name: str) -> Block | None:
    """The block of a document that has this id."""
    every = (block for part in document.get("sections", []) for block in part.get("blocks", []))
    return next((block for block in every if block.get("id") == name), None)
