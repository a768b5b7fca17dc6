"""The report in a real Chromium: it opens from a file, and mouse, keyboard, paper and small screens work."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from pypdf import PdfReader

import report_samples
from rue.reports.page.numbers import decimals, readable
from rue.reports.page.render import render

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DOCUMENT = report_samples.sample()
PREDICTIONS = DOCUMENT["predictions"]
VALUES = PREDICTIONS["values"]
LEAST_RELIABLE = sorted(range(PREDICTIONS["count"]), key=lambda row: -VALUES["score"][row])
TIERS = {"accept": 0, "review": 1, "refuse": 2}

Opener = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        reason = f"none of {', '.join(NAMES)} was found; tests/install_chromium.sh installs one"
        pytest.fail(reason) if os.environ.get("RUE_NEED_BROWSER") == "1" else pytest.skip(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(DOCUMENT, tmp_path_factory.mktemp("report"))


@pytest.fixture
def open_page(browser: Browser, report: Path) -> Iterator[Opener]:
    """Opens a page, and at the end of the test asks that it was silent and fetched nothing."""
    contexts, said, fetched = [], [], []

    def opened(path: Path = report, fragment: str = "", **settings: object) -> Page:
        settings.setdefault("viewport", {"width": 1280, "height": 900})
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(path.as_uri() + fragment)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []
    assert {url.split("#")[0].split(":")[0] for url in fetched} == {"file"}
    assert len(fetched) == len(contexts)  # the page itself and nothing else


def written(document: dict, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(render(document), encoding="utf-8")
    return path


def shown_ids(page: Page) -> list[str]:
    return page.locator("#predictions-body th").all_inner_texts()


def word(key: str, row: int) -> str:
    value = VALUES[key][row]
    alike = key in {"lower", "upper", "actual"}
    return readable(value, decimals(VALUES["prediction" if alike else key]) if isinstance(value, float) else None)


def status(page: Page) -> str:
    return page.inner_text("#shown-rows")


# --- table and card ----------------------------------------------------------------------------------------------


def test_the_page_opens_from_a_file_in_silence_with_the_least_reliable_first(open_page):
    page = open_page()
    assert shown_ids(page) == [PREDICTIONS["id"][row] for row in LEAST_RELIABLE[:50]]
    assert status(page) == "Showing 1–50 of 89"
    assert page.get_attribute("th[data-key=score]", "aria-sort") == "descending"
    assert page.title() == DOCUMENT["title"]


def test_the_table_shows_the_numbers_of_the_document(open_page):
    page = open_page()
    for place, row in enumerate(LEAST_RELIABLE[:50]):
        cells = page.locator(f"#predictions-body tr:nth-child({place + 1}) td").all_inner_texts()
        assert cells == [word(column["key"], row) for column in PREDICTIONS["columns"]]


def test_a_click_on_a_row_opens_its_card_with_its_numbers(open_page):
    page = open_page()
    row = LEAST_RELIABLE[6]
    page.click("#predictions-body tr:nth-child(7) td:nth-child(3)")
    card = page.inner_text("dialog[open]")
    assert page.inner_text("#card-title") == f"Patient {PREDICTIONS['id'][row]}"
    assert f"90 % interval: {word('lower', row)} to {word('upper', row)}" in card
    assert f"Actual: {word('actual', row)}, " in card
    assert PREDICTIONS["sentence"][row] in card
    assert PREDICTIONS["guarantee"] in card
    assert VALUES["tier"][row] in card
    for axis in PREDICTIONS["axes"]:
        assert re.search(re.escape(axis["name"]) + r"\s+" + re.escape(readable(axis["values"][row])) + r" \(", card)
    for name in ("density", "misfit"):
        assert readable(PREDICTIONS["split"][name][row], 1) in card
        assert f"{readable(PREDICTIONS['split'][f'{name}_times'][row], 1)} times" in card


def test_the_card_lists_influential_rows_below_the_rows_own_values(open_page):
    page = open_page()
    row = LEAST_RELIABLE[0]
    page.click("#predictions-body tr:first-child")
    lines = page.locator("#card-body table tr")
    influential, training = PREDICTIONS["influential"], PREDICTIONS["training"]
    assert lines.nth(1).locator("td").nth(4).inner_text() == f"{PREDICTIONS['inputs']['values'][row][0]:.1f}"
    for rank, place in enumerate(influential["row"][row]):
        cells = [lines.nth(2 + rank).locator("th").inner_text(), *lines.nth(2 + rank).locator("td").all_inner_texts()]
        assert cells[0] == training["id"][place]
        assert float(cells[1].removesuffix(" %")) == pytest.approx(100 * influential["share"][row][rank], rel=5e-3)
        assert float(cells[2].replace("−", "-")) == pytest.approx(influential["without"][row][rank], abs=1e-3)
        assert cells[2][0] in "+−"
        assert float(cells[5]) == training["values"][place][0]
        assert cells[-1] == ("yes" if training["values"][place][-1] else "no")


def test_the_number_line_has_its_marks_in_the_right_order(open_page):
    page = open_page()
    row = LEAST_RELIABLE[1]
    page.click("#predictions-body tr:nth-child(2)")
    bar, dot, diamond = (
        page.locator(f".number-line .{name}").bounding_box() for name in ("interval", "dot", "diamond")
    )
    lower, upper = bar["x"], bar["x"] + bar["width"]
    for box, key in ((dot, "prediction"), (diamond, "actual")):
        share = (VALUES[key][row] - VALUES["lower"][row]) / (VALUES["upper"][row] - VALUES["lower"][row])
        assert box["x"] + box["width"] / 2 == pytest.approx(lower + share * (upper - lower), abs=2)


def test_keys_open_and_close_a_card_and_the_focus_returns(open_page):
    page = open_page()
    page.focus("#clear")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('open')"):
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    wanted = PREDICTIONS["id"][LEAST_RELIABLE[2]]
    assert page.inner_text("dialog[open] #card-title").endswith(wanted)
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    page.wait_for_function(f"document.activeElement.textContent === '{wanted}'")
    page.keyboard.press("PageDown")
    assert status(page) == "Showing 51–89 of 89"
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert page.inner_text("dialog[open] #card-title").endswith(PREDICTIONS["id"][LEAST_RELIABLE[-1]])


def test_previous_and_next_follow_the_order_of_the_table_across_its_pages(open_page):
    page = open_page()
    page.click("#predictions-body tr:nth-child(50)")
    page.click("#card-on")
    assert page.inner_text("#card-title").endswith(PREDICTIONS["id"][LEAST_RELIABLE[50]])
    page.click("#card-back")
    page.click("#card-back")
    assert page.inner_text("#card-title").endswith(PREDICTIONS["id"][LEAST_RELIABLE[48]])
    page.click("#card-close")
    page.wait_for_function(f"document.activeElement.textContent === '{PREDICTIONS['id'][LEAST_RELIABLE[48]]}'")


def test_an_address_with_a_row_opens_its_card_and_an_open_card_is_in_the_address(open_page):
    page = open_page(fragment="#row=P-100007")
    assert page.inner_text("dialog[open] #card-title") == "Patient P-100007"
    page.click("#card-close")
    page.wait_for_function("location.hash === ''")
    page.click("#predictions-body tr:first-child")
    assert page.evaluate("location.hash") == f"#row={PREDICTIONS['id'][LEAST_RELIABLE[0]]}"


def sort_value(key: str, row: int) -> object:
    value = PREDICTIONS["id"][row] if key == "" else VALUES[key][row]
    return TIERS.get(value, value)


@pytest.mark.parametrize("key", ["", *(column["key"] for column in PREDICTIONS["columns"])])
def test_every_column_sorts_both_ways_with_the_missing_last(open_page, key):
    page = open_page()
    head = page.locator(f'#predictions-head th[data-key="{key}"]')
    row_of = {name: row for row, name in enumerate(PREDICTIONS["id"])}
    for direction in ("descending", "ascending") if key == "score" else ("ascending", "descending"):
        if head.get_attribute("aria-sort") != direction:
            head.locator("button").click()
        assert head.get_attribute("aria-sort") == direction
        ids = shown_ids(page)
        page.click("#page-on")
        values = [sort_value(key, row_of[name]) for name in ids + shown_ids(page)]
        known = [value for value in values if value is not None]
        assert len(values) == 89
        assert values[: len(known)] == known
        assert all((a <= b) if direction == "ascending" else (a >= b) for a, b in pairwise(known))
        page.click("#page-first")


def test_search_and_filters_keep_the_rows_they_name_and_say_how_many(open_page):
    page = open_page()
    page.fill("#search", "p-10001")
    assert set(shown_ids(page)) == {f"P-10001{digit}" for digit in range(10)}
    assert status(page) == "Showing 1–10 of 10, filtered from 89"
    page.click("#clear")
    page.select_option("#filter-tier", "review")
    review = {PREDICTIONS["id"][row] for row, tier in enumerate(VALUES["tier"]) if tier == "review"}
    assert set(shown_ids(page)) == review
    reason = report_samples.REASONS[0]
    page.select_option("#filter-reason", reason)
    both = {name for row, name in enumerate(PREDICTIONS["id"]) if name in review and VALUES["reason"][row] == reason}
    assert set(shown_ids(page)) == both
    assert f"of {len(both)}, filtered from 89" in status(page)
    page.fill("#search", "no such words")
    assert status(page) == "Showing 0 of 0, filtered from 89"
    page.click("#clear")
    assert status(page) == "Showing 1–50 of 89"


def test_a_point_of_a_chart_says_what_it_is_and_opens_its_card(open_page):
    page = open_page()
    figure = page.locator("#performance-points")
    figure.scroll_into_view_if_needed()
    at = figure.locator("[data-series='0']").get_attribute("data-at").split()
    box = figure.locator("svg").bounding_box()
    scale = box["width"] / 640
    where = (box["x"] + float(at[0]) * scale, box["y"] + float(at[1]) * scale)
    page.mouse.move(*where)
    read = figure.locator(".readout").inner_text()
    assert readable(VALUES["prediction"][0]) in read
    assert PREDICTIONS["id"][0] in read
    page.mouse.click(*where)
    assert page.inner_text("dialog[open] #card-title").endswith(PREDICTIONS["id"][0])


def test_the_script_writes_numbers_as_the_page_does(open_page):
    page = open_page()
    values = [0, 1, -1, 0.5, 2.5, 12345, -98765.4321, 0.000123456, 1.5e-7, -3.25e12, 99.995, 1000.0, True, None, "word"]
    assert page.evaluate("values => values.map((value) => plain(value))", values) == [
        readable(value) for value in values
    ]
    assert page.evaluate("values => values.map((value) => plain(value, 1))", values[:12]) == [
        readable(value, 1) for value in values[:12]
    ]


# --- size, paper, people -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(report_samples.sample(10_000, training=4_000), tmp_path_factory.mktemp("large"))


def test_ten_thousand_predictions_open_sorted_with_a_card_within_three_seconds(open_page, large):
    assert large.stat().st_size < 8_000_000
    page = open_page(large)
    assert status(page) == "Showing 1–50 of 10\u202f000"
    page.click("#predictions-body tr:first-child")
    page.wait_for_selector("dialog[open]")
    seconds = page.evaluate("performance.now()") / 1000  # since the navigation began
    print(f"10 000 predictions: {large.stat().st_size / 1e6:.2f} MB, {seconds:.2f} s to a card")
    assert seconds < 3


def test_ten_thousand_predictions_sort_and_filter_in_the_blink_of_an_eye(open_page, large):
    page = open_page(large)
    for action in ("sortBy('prediction')", "sortBy('reason')", "table.search = 'p-1099'; arrange()"):
        assert (
            page.evaluate(
                f"(() => {{ const start = performance.now(); {action}; return performance.now() - start; }})()"
            )
            < 500
        )
    assert status(page) == "Showing 1–50 of 100, filtered from 10\u202f000"


def test_the_page_prints_on_paper_with_every_section_and_the_fifty_least_reliable(open_page, tmp_path):
    page = open_page(color_scheme="dark")
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    pages = PdfReader(tmp_path / "report.pdf").pages
    text = " ".join(" ".join(page.extract_text() for page in pages).split())
    for section in DOCUMENT["sections"]:
        assert section["title"] in text
    for row in LEAST_RELIABLE[:50]:
        assert PREDICTIONS["id"][row] in text
    assert PREDICTIONS["id"][LEAST_RELIABLE[50]] not in text
    assert "The 50 least reliable of 89 predictions" in text
    assert "Showing" not in text
    assert (round(pages[0].mediabox.width), round(pages[0].mediabox.height)) == (595, 842)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_with_the_card_closed_and_open(open_page, scheme, width):
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    assert grave(page) == []
    page.click("#predictions-body tr:first-child")
    page.wait_for_selector("dialog[open]")
    assert grave(page) == []


def grave(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in {"serious", "critical"}]


def test_no_two_labels_of_any_chart_touch_as_they_are_really_drawn(open_page):
    page = open_page()
    assert page.evaluate(TOUCHING) == []


TOUCHING = """() => [...document.querySelectorAll("svg.plot")].flatMap((drawing) => {
  const area = drawing.getBoundingClientRect();
  const texts = [...drawing.querySelectorAll(":scope > text")];
  const labels = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
  const outside = labels.filter(([, box]) => box.left < area.left - 1 || box.right > area.right + 1);
  const touch = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
  const pairs = labels.flatMap(([one, a], place) =>
    labels.slice(0, place).filter(([, b]) => touch(a, b)).map(([other]) => [one, other]));
  return [...outside.map(([name]) => name), ...pairs];
})"""


def test_the_button_changes_the_colours(open_page):
    page = open_page(color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.click("#theme")
    dark = page.evaluate(paper)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 24, 28)")
    page.click("#theme")
    assert page.evaluate(paper) == light


def test_a_telephone_scrolls_tables_and_not_the_page(open_page):
    page = open_page(viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("(box => box.scrollWidth > box.clientWidth)(document.getElementById('predictions-scroll'))")
    page.click("#predictions-body tr:first-child th")
    assert page.evaluate("(box => box.scrollWidth <= box.clientWidth)(document.getElementById('card'))")


def test_without_script_everything_but_the_interactive_table_can_be_read(open_page):
    page = open_page(java_script_enabled=False)
    for section in DOCUMENT["sections"]:
        assert page.locator(f"#section-{section['id']} h2").is_visible()
        for block in section["blocks"]:
            assert page.locator(f"#{block['id']}").is_visible()
    assert not page.locator("#explorer").is_visible()
    assert not page.locator("#theme").is_visible()
    printed = page.locator(".printed tbody th")
    assert printed.all_inner_texts() == [PREDICTIONS["id"][row] for row in LEAST_RELIABLE[:50]]
    assert printed.first.is_visible()


@pytest.mark.parametrize(
    "extra", ["axes", "split", "sentence", "interval", "actual", "inputs", "influential", "training"]
)
def test_a_card_opens_whatever_the_document_does_not_know(open_page, tmp_path, extra):
    document = report_samples.sample(20)
    document["predictions"][extra] = None
    page = open_page(written(document, tmp_path))
    page.click("#predictions-body tr:first-child")
    assert page.inner_text("dialog[open] #card-body h3 >> nth=0") == "Prediction"


def test_a_prediction_that_is_a_word_and_an_interval_without_an_end_have_their_card(open_page, tmp_path):
    document = report_samples.sample(20)
    document["predictions"]["values"]["upper"] = [None] * 20
    page = open_page(written(document, tmp_path))
    page.click("#predictions-body tr:first-child")
    assert "no upper limit" in page.inner_text("dialog[open]")
    document["predictions"]["values"]["prediction"] = ["malignant"] * 20
    page = open_page(written(document, tmp_path))
    page.click("#predictions-body tr:first-child")
    assert "malignant" in page.inner_text("dialog[open]")


def test_the_card_of_a_class_says_its_set_guarantee_probability_score_and_outcome(open_page, tmp_path):
    held = (document := report_samples.classes())["predictions"]
    row = max(range(held["count"]), key=held["values"]["score"].__getitem__)
    page = open_page(written(document, tmp_path))
    page.click("#predictions-body tr:first-child")
    card = page.inner_text("dialog[open]")
    values = {key: held["values"][key][row] for key in held["values"]}
    assert page.inner_text("#card-body .figure") == values["prediction"]
    assert f"90 % set: {values['set']}\n" in card
    assert f"Probability: {readable(values['probability'], decimals(held['values']['probability']))}\n" in card
    assert f"Actual: {values['actual']}\n" in card
    assert f"Score: {readable(values['score'], decimals(held['values']['score']))}\n" in card
    assert f"Guarantee: {held['guarantee']}" in card
    assert "how much the margin between the two leading classes would change" in card
    assert grave(page) == []


def test_the_card_of_several_outputs_says_each_with_its_outcome_and_the_guarantee(open_page, tmp_path):
    held = (document := report_samples.outputs())["predictions"]
    row = max(range(held["count"]), key=held["values"]["score"].__getitem__)
    page = open_page(written(document, tmp_path))
    page.click("#predictions-body tr:first-child")
    card = page.inner_text("dialog[open]")
    assert page.inner_text("#card-body h3 >> nth=0") == "Prediction"
    assert f"Guarantee: {held['guarantee']}" in card
    assert f"Score: {readable(held['values']['score'][row], decimals(held['values']['score']))}\n" in card
    for column in held["card"]:
        few = decimals(held["values"][column["key"]])
        assert f"{column['label']}\n{readable(held['values'][column['key']][row], few)}\n" in card
    assert "how much the explained output would change" in card


def with_ids(ids: list[str | int]) -> dict:
    document = report_samples.sample(len(ids))
    document["predictions"]["id"] = ids
    document["predictions"]["training"]["id"] = [7000000 + row for row in range(442)]
    return document


def test_ids_are_names_in_table_search_card_and_read_out(open_page, tmp_path):
    ids = [1234567, 2**53 + 1, 98765, 10, 9]
    page = open_page(written(with_ids(ids), tmp_path))
    assert set(shown_ids(page)) == {str(one) for one in ids}
    page.locator('#predictions-head th[data-key=""] button').click()
    assert shown_ids(page) == [str(one) for one in sorted(ids)]
    for wanted in ("1234567", "9007199254740993"):
        page.fill("#search", wanted)
        assert shown_ids(page) == [wanted]
    page.click("#predictions-body tr:first-child")
    assert page.inner_text("#card-title") == "Patient 9007199254740993"
    assert page.evaluate("location.hash") == "#row=9007199254740993"
    assert page.inner_text("#card-body tbody tr:nth-child(2) th").startswith("7000")
    assert "1234567;" in page.evaluate(
        "readout({x: {label: 'x'}, y: {label: 'y'}, series: [{name: 's', x: [1], y: [1], row: [0]}]},"
        " {series: 0, index: 0}).map((line) => line.textContent).join(' ')"
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_very_long_ids_wrap_in_the_table_on_the_card_and_on_paper(open_page, tmp_path, width):
    document = with_ids(["x" * 400, report_samples.HASH, "short"])
    document["predictions"]["training"]["id"] = ["y" * 400] * 442
    page = open_page(written(document, tmp_path), viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for button in page.locator("#predictions-body .open").all():
        assert button.bounding_box()["width"] <= min(256, 0.4 * width + 1)
    for row in range(3):
        page.evaluate(f"openCard({row})")
        assert page.evaluate("(box => box.scrollWidth <= box.clientWidth)(document.getElementById('card'))")
        names = page.locator("#card .name").all()
        assert all(name.bounding_box()["width"] <= 256 for name in names)
    page.keyboard.press("Escape")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 1000})  # the width of A4 within its margins
    assert page.evaluate("document.querySelector('.printed table').getBoundingClientRect().right") <= 681


def test_another_address_closes_the_card_and_shows_its_place(open_page):
    page = open_page(fragment="#row=P-100007")
    page.wait_for_selector("dialog[open]")
    page.evaluate("location.hash = '#section-limitations'")
    page.wait_for_selector("dialog", state="hidden")
    assert page.evaluate("location.hash") == "#section-limitations"
    page.wait_for_timeout(1500)  # smooth scrolling
    assert abs(page.locator("#section-limitations").bounding_box()["y"]) < 400
    page.evaluate("location.hash = '#row=P-100008'")
    page.wait_for_selector("dialog[open]")
    assert page.inner_text("#card-title") == "Patient P-100008"


def test_rows_of_one_id_have_addresses_of_their_own(open_page, tmp_path):
    path = written(with_ids(["a", "b", "a", "a&n=2", "a&n=2"]), tmp_path)
    page = open_page(path)
    seen = []
    for row in range(5):
        page.evaluate(f"openCard({row})")
        seen.append(page.evaluate("location.hash"))
    assert seen[:3] == ["#row=a&n=1", "#row=b", "#row=a&n=3"]
    assert len(set(seen)) == 5
    for row, fragment in enumerate(seen):
        page = open_page(path, fragment=fragment)
        assert page.locator("dialog[open]").get_attribute("data-row") == str(row)


def test_text_that_tries_to_break_out_is_only_text_in_table_and_card(open_page, tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    document = report_samples.sample(3)
    document["predictions"] |= {"id": [evil, f"{evil}#2", "%"], "sentence": [evil] * 3, "id_label": evil, "unit": evil}
    document["predictions"]["values"]["reason"] = [evil] * 3
    page = open_page(written(document, tmp_path), fragment="#row=%")
    page.keyboard.press("Escape")
    page.click("#predictions-body tr:first-child")
    assert evil in page.inner_text("dialog[open]")
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("count", [0, 1])
def test_a_report_of_none_or_one_prediction_opens_in_silence(open_page, tmp_path, count):
    page = open_page(written(report_samples.sample(count), tmp_path))
    assert status(page) == ("Showing 1–1 of 1" if count else "Showing 0 of 0")
