"""The report document as one HTML page that contains style, script, drawings and data, and fetches nothing."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from importlib import resources
from math import inf
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from rue.reports.page import charts
from rue.reports.page.numbers import decimals, readable

PRINTED = 50  # at most so many rows are in the printed table
SCRIPTS = ("words.js", "table.js", "card.js", "readout.js", "page.js")
EXACT = 2**53  # a script's whole numbers are exact up to here
BRIEF, LONG, PROSE = 16, 28, 80  # letters of a cell kept on one line, of one that may wrap, and of prose
DENSE = 9  # a table with so many columns has a small font
BOUND = re.compile(r"(?<=\d) (?=%)|(?<=\b[nmd]) (?== \d)|(?<=\b[nmd] =) (?=\d)")  # "90 %" and "n = 88" do not wrap
NUMBERS_SHOWN = 60  # a chart of at most so many marks also lists them in a table
LIGHTS = {"green": "In order", "amber": "Caution", "red": "Concern", "none": "Not assessed"}
# Escapes in JSON for characters that could end a script element or a line of script.
ESCAPES = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def render(document: dict[str, Any]) -> str:
    """The page of a report document; the same document gives the same bytes."""
    style = _read("style.css")
    script = '"use strict";\n' + "\n".join(_read(name) for name in SCRIPTS)
    predictions = document["predictions"]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["readable"] = readable
    environment.filters["bound"] = _bound
    page = environment.from_string(_read("page.html.jinja")).render(
        document=document,
        predictions=predictions,
        data=Markup(_embedded(document)),
        shown=Markup(_embedded(_shown(predictions))),
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        lights=LIGHTS,
        printed=_least_reliable(predictions),
        places=_places(predictions),
        shared=_shared_decimals,
        looks=_looks,
        dense=DENSE,
        drawn=lambda block: Markup(charts.svg(block)),
        listed=_listed,
    )
    return page.lstrip()


def _read(name: str) -> str:
    return resources.files("rue.reports.page").joinpath(name).read_text(encoding="utf-8")


def _embedded(value: Any) -> str:
    """JSON that cannot end the script element that contains it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(ESCAPES)


def _policy(style: str, script: str) -> str:
    """The content security policy: no fetches, and no style or script but the page's own."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )


def _digest(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _shown(predictions: dict[str, Any]) -> dict[str, Any]:
    """The formats and words with which the script writes the same as this page."""
    return {
        "decimals": _places(predictions),
        "influence": _influence_places(predictions["influential"] or {}),
        "inputs": _input_places(predictions["inputs"], predictions["training"]),
        "exact": {
            "predictions": _exact(predictions["id"]),
            "training": _exact((predictions["training"] or {"id": []})["id"]),
        },
        "lights": LIGHTS,
        "first": _reliability(predictions),
    }


def _exact(ids: list[str | int]) -> dict[int, str]:
    """The ids that the script would round, as texts by place."""
    return {place: str(name) for place, name in enumerate(ids) if isinstance(name, int) and abs(name) > EXACT}


def _influence_places(influential: dict[str, list[list[Any]]]) -> dict[str, int | None]:
    return {key: decimals(value for row in rows for value in row) for key, rows in influential.items() if key != "row"}


def _input_places(*tables: dict[str, Any] | None) -> dict[str, int | None]:
    """Decimals of each input column, the same for audited and for training rows."""
    columns: dict[str, list[Any]] = {}
    for table in filter(None, tables):
        for place, name in enumerate(table["columns"]):
            columns.setdefault(name, []).extend(row[place] for row in table["values"])
    return {name: decimals(values) for name, values in columns.items()}


def _places(predictions: dict[str, Any]) -> dict[str, int | None]:
    """Decimals of every value; the ends of an interval and the target have those of the prediction."""
    own = {key: decimals(values) for key, values in predictions["values"].items()}
    alike = {predictions["actual"]} | {(predictions["interval"] or {}).get(end) for end in ("lower", "upper")}
    return {key: own.get("prediction") if key in alike and "prediction" in own else few for key, few in own.items()}


def _reliability(predictions: dict[str, Any]) -> str | None:
    """The value by which predictions are ordered, the least reliable first."""
    return next((key for key in ("score", "percentile", "std") if key in predictions["values"]), None)


def _least_reliable(predictions: dict[str, Any]) -> list[int]:
    key = _reliability(predictions)
    rows = list(range(predictions["count"]))
    if key is None:
        return rows[:PRINTED]
    values = predictions["values"][key]
    return sorted(rows, key=lambda row: (values[row] is None, -(values[row] or 0.0)))[:PRINTED]


def _shared_decimals(block: dict[str, Any]) -> dict[str, int | None]:
    """The decimals of each column of numbers of a table block; None where its numbers differ too much."""
    return {
        column["key"]: decimals([row.get(column["key"]) for row in block["rows"]])
        for column in block["columns"]
        if column["type"] == "number"
    }


def _bound(text: Any) -> str:
    """The text with no-break spaces where a line must not wrap."""
    return BOUND.sub("\u00a0", readable(text))


def _looks(block: dict[str, Any]) -> list[str]:
    """The CSS classes of a table block's columns; columns of prose get widths by the length of their texts."""
    sizes = [[len(readable(row.get(column["key"]))) for row in block["rows"]] for column in block["columns"]]
    words = [column["type"] == "text" and bool(size) for column, size in zip(block["columns"], sizes, strict=True)]
    least = LONG if any(text and max(size) > PROSE for text, size in zip(words, sizes, strict=True)) else inf
    weights = [  # the longest cell counts beside a typical one: a column of few words may have one long cell
        max(size) + (sum(letters**2 for letters in size) / len(size)) ** 0.5 if text and max(size) > least else 0.0
        for text, size in zip(words, sizes, strict=True)
    ]
    looks = []
    for column, size, text, weight in zip(block["columns"], sizes, words, weights, strict=True):
        share = f" prose share-{max(2, round(12 * weight / sum(weights)))}" if weight else ""
        looks.append(column["type"] + share + (" brief" if text and max(size) <= BRIEF else ""))
    return looks


def _listed(block: dict[str, Any]) -> bool:
    return sum(len(series["x"]) for series in block["series"]) <= NUMBERS_SHOWN
