"""Draw the pictures of the demo's report anew: python docs/screenshots.py. Needs a Chromium and playwright."""

import shutil
import tempfile
from pathlib import Path

import torch
from playwright.sync_api import Page, sync_playwright

from rue.cli.demo_report import demo_report

OUT = Path(__file__).parent / "report"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def top(page: Page) -> None:
    """What is seen first."""


def card(page: Page) -> None:
    """The least reliable prediction."""
    page.locator("#predictions-body tr").first.click()
    page.locator("dialog[open] h2").scroll_into_view_if_needed()


PICTURES = {"top.png": (top, 760), "card.png": (card, 1180)}


def main() -> None:
    """Make the report, open it, look."""
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as browsers:
        path, _ = demo_report().save(Path(folder, "report.html"))
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, (open_part, height) in PICTURES.items():
            page = browser.new_page(viewport={"width": 1180, "height": height}, color_scheme="light")
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]")
            open_part(page)
            page.wait_for_timeout(300)
            page.screenshot(path=OUT / name)
        browser.close()


if __name__ == "__main__":
    main()
