"""The page of a report without a browser: nothing escapes, nothing is fetched, nothing is missing."""

import copy
import json
import re
from html import unescape
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise
from xml.etree import ElementTree

import jsonschema
import pytest

import report_samples
from rue.reports.page import charts
from rue.reports.page.axis import numeric, width
from rue.reports.page.render import LIGHTS, _looks, render

SCHEMA = json.loads(resources.files("rue.reports").joinpath("schema.json").read_text(encoding="utf-8"))
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \" ' \u2028\u2029 {{ 7*7 }} <!--"
DOCUMENTS = {
    "with labels": report_samples.sample(),
    "classes": report_samples.classes(),
    "several outputs": report_samples.outputs(),
    "without labels": report_samples.sample(40, labels=False, seed=1),
    "one row": report_samples.sample(1),
    "no rows": report_samples.sample(0),
}


def embedded(page: str, name: str = "document") -> dict:
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)[1])


def without_extras(document: dict) -> dict:
    bare = copy.deepcopy(document)
    bare["predictions"] |= dict.fromkeys(
        ("axes", "split", "sentence", "interval", "actual", "inputs", "influential", "training")
    )
    return bare


def poisoned(value: object, path: str = "") -> object:
    """Every text a person could have written, replaced by one that tries to break out."""
    fixed = {"kind", "id", "key", "type", "light", "tier", "schema", "axis", "actual", "lower", "upper"}
    if isinstance(value, dict):
        return {
            key: item if key in fixed and path != "predictions" else poisoned(item, key) for key, item in value.items()
        }
    if isinstance(value, list):
        return [poisoned(item, path) for item in value]
    return EVIL if isinstance(value, str) and path not in fixed else value


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_the_samples_follow_the_schema_and_so_do_bare_ones(document):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    checker = jsonschema.Draft202012Validator(SCHEMA)
    checker.validate(document)
    checker.validate(without_extras(document))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict", "light"), "blue"),
        (("sections", 0, "id"), "other"),
        (("sections", 0, "blocks", 0, "kind"), "video"),
        (("sections", 0, "blocks", 0, "colour"), "red"),
        (("sections", 0, "blocks", 0, "id"), "Not Kebab"),
        (("predictions", "values", "tier", 0), "maybe"),
        (("predictions", "extra"), 1),
        (("predictions", "split", "density", 0), 101),
        (("created", "date"), "yesterday"),
    ],
)
def test_the_schema_refuses_what_the_page_could_not_show(path, value):
    document = report_samples.sample(5)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_every_section_block_and_caption_is_in_the_page(document):
    page = render(document)
    for section in document["sections"]:
        assert f'id="section-{section["id"]}"' in page
        assert f">{section['title']}</h2>" in page
        for block in section["blocks"]:
            assert f'id="{block["id"]}"' in page
    assert page.count("<figure") == sum(b["kind"] == "chart" for s in document["sections"] for b in s["blocks"])


def test_a_document_without_any_extra_is_a_page_too():
    assert "<!doctype html>" in render(without_extras(DOCUMENTS["with labels"]))


def test_the_same_document_gives_the_same_bytes():
    assert render(report_samples.sample(60)) == render(report_samples.sample(60))


def test_the_document_in_the_page_is_the_document():
    assert embedded(render(DOCUMENTS["with labels"])) == DOCUMENTS["with labels"]


def test_nothing_is_fetched_from_anywhere():
    page = render(DOCUMENTS["with labels"])
    assert not re.search(r"https?:|//[a-z]|url\(|@import|<link|<img|<iframe|\bfetch\(|XMLHttpRequest", page)
    assert "default-src 'none'" in unescape(page)


def test_no_text_of_the_document_can_become_markup_or_script():
    document = poisoned(report_samples.sample(12))
    page = render(document)
    assert embedded(page) == document
    names, attributes = set(), set()
    reader = HTMLParser()
    reader.handle_starttag = lambda name, found: (names.add(name), attributes.update(key for key, _ in found))
    reader.feed(page)
    assert "img" not in names
    assert not {name for name in attributes if name.startswith("on")}
    assert page.count("<script") == 3
    assert unescape(re.findall(r"<h1>(.*?)</h1>", page)[0]) == EVIL
    assert "\u2028" not in re.search(r'id="document">(.*?)</script>', page, re.DOTALL)[1]


def test_no_script_writes_markup():
    for name in ("words.js", "table.js", "card.js", "readout.js", "page.js"):
        script = resources.files("rue.reports.page").joinpath(name).read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script)


def test_a_number_that_json_cannot_write_is_refused():
    document = report_samples.sample(3)
    document["predictions"]["values"]["score"][0] = float("nan")
    with pytest.raises(ValueError, match="JSON compliant"):
        render(document)


def test_the_printed_table_has_the_fifty_highest_scores_in_order():
    document = DOCUMENTS["with labels"]
    printed = render(document).split('class="printed"')[1].split("</table>")[0]
    ids = re.findall(r'<th scope="row"><span class="name">(.*?)</span></th>', printed)
    score = dict(zip(document["predictions"]["id"], document["predictions"]["values"]["score"], strict=True))
    assert ids == sorted(score, key=score.__getitem__, reverse=True)[:50]
    assert "The 50 least reliable of 89 predictions" in printed


def test_ids_are_printed_as_they_are_and_what_a_script_would_round_is_given_to_it_as_text():
    document = report_samples.sample(2)
    document["predictions"]["id"] = [1234567, 2**53 + 1]
    page = render(document)
    assert set(re.findall(r'<span class="name">(.*?)</span>', page)) == {"1234567", "9007199254740993"}
    assert embedded(page, "shown")["exact"]["predictions"] == {"1": "9007199254740993"}


def test_columns_of_prose_share_the_width_by_what_they_say_and_short_ones_stay_on_a_line():
    columns = [{"key": key, "label": key, "type": "text"} for key in ("name", "found", "why")]
    columns.append({"key": "n", "label": "n", "type": "number"})
    rows = [{"name": "at rest", "found": 45 * "a ", "why": 135 * "b ", "n": 3}]
    assert _looks({"columns": columns, "rows": rows}) == [
        "text brief",
        "text prose share-3",
        "text prose share-9",
        "number",
    ]
    assert _looks({"columns": columns, "rows": []}) == ["text", "text", "text", "number"]


def test_only_a_series_that_says_so_is_grey_and_dashed_neighbours_differ():
    line = {"type": "line", "x": [0, 1], "y": [0, 1]}
    series = [line | {"name": f"s{n}"} for n in range(6)]
    series += [line | {"name": "g", "muted": True, "dashed": True}, line | {"name": "h", "muted": True, "dashed": True}]
    drawing = charts.svg({"title": "t", "x": {"label": "x"}, "y": {"label": "y"}, "series": series})
    looks = re.findall(r'<g class="([^"]*) line" data-series', drawing)
    assert looks[:6] == [f"colour-{n}" for n in range(6)]
    assert looks[6:] == ["muted dashed dashed-0", "muted dashed dashed-1"]


def test_lights_and_tiers_are_words_and_never_colour_alone():
    page = render(DOCUMENTS["with labels"])
    for light, word in LIGHTS.items():
        assert re.search(rf'class="light light-{light}"><span class="shape" aria-hidden="true"></span>{word}<', page)
    assert not re.search(r"\bsafe\b|trustworthy", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))


# --- charts ------------------------------------------------------------------------------------------------------


def every_chart() -> dict[str, dict]:
    blocks = [b for d in DOCUMENTS.values() for s in d["sections"] for b in s["blocks"] if b["kind"] == "chart"]
    named = {f"{place} {block['id']}": block for place, block in enumerate(blocks)}
    empty = {"kind": "chart", "id": "empty", "title": "Empty", "x": {"label": "x"}, "y": {"label": "y"}, "note": None}
    line = {"name": "a", "type": "line", "x": [1, 2, 3], "y": [None, 5, 5]}
    many = {"name": "b", "type": "bars", "x": [f"a rather long name {n}" for n in range(60)], "y": list(range(60))}
    return named | {
        "no series": empty | {"series": []},
        "gaps and one height": empty | {"series": [line]},
        "long labels": empty | {"series": [line | {"name": 40 * "long "}] * 2, "y": {"label": 50 * "very long "}},
        "many references": empty
        | {
            "series": [line],
            "lines": [{"axis": a, "at": v, "label": f"line at {v}"} for a in "xy" for v in (1, 1.1, 2)],
        },
        "one bar": empty | {"series": [{"name": "a", "type": "bars", "x": [3], "y": [4]}]},
        "many long names": empty | {"series": [many]},
        "tiny": empty | {"series": [line | {"y": [1e-7, 2e-7, 3e-7]}]},
        "huge": empty | {"series": [line | {"y": [1e7, -2e9, 3e10]}]},
    }


@pytest.mark.parametrize("block", every_chart().values(), ids=every_chart())
def test_no_two_labels_of_a_chart_touch_and_none_leaves_the_drawing(block):
    drawing = ElementTree.fromstring(charts.svg(block))
    wide, high = map(float, drawing.get("viewBox").split()[2:])
    boxes = [_box(text) for text in drawing.iterfind("./text")]
    for place, (left, top, right, bottom, words) in enumerate(boxes):
        assert left >= -1, words
        assert right <= wide + 1, words
        assert 0 <= top < bottom <= high, words
        for other in boxes[:place]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, f"{words} on {other[4]}"


def _box(text: ElementTree.Element) -> tuple[float, float, float, float, str]:
    x, y = float(text.get("x")), float(text.get("y"))
    wide = 0.92 * width(text.text)  # the width is a generous guess; the browser's test measures
    left = x - {"start": 0, "middle": wide / 2, "end": wide}[text.get("text-anchor")]
    return left, y - 10, left + wide, y + 2.5, text.text


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.3, 0.9), (-12, 431), (1e-6, 3e-6), (99.5, 100.5), (-5e8, 7e9)])
def test_ticks_are_steps_of_one_two_or_five(low, high):
    ticks = numeric([low, high], None, None, 6).ticks
    steps = {float(f"{b - a:.6g}") for a, b in pairwise(ticks)}
    assert len(steps) == 1
    assert f"{steps.pop():.3e}"[:5] in {"1.000", "2.000", "5.000"}
    assert ticks[0] <= low
    assert high <= ticks[-1]
    assert 3 <= len(ticks) <= 8


def test_ten_thousand_points_are_few_paths():
    points = {"name": "p", "type": "points", "x": list(range(10_000)), "y": list(range(10_000))}
    block = {"title": "t", "x": {"label": "x"}, "y": {"label": "y"}, "series": [points]}
    assert charts.svg(block).count("<path") < 150
