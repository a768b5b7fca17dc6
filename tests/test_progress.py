"""Progress: only for work that lasts, only for people, and silenced when asked."""

import contextlib
import io

import pytest

from rue.core import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.delenv("RUE_PROGRESS")
    monkeypatch.setenv("TERM", "xterm")


def shown(work, screen=None) -> str:
    screen = screen or Terminal()
    with contextlib.redirect_stderr(screen):
        work()
    return screen.getvalue()


def count():
    assert list(progress.track("solving", range(5), total=5)) == [0, 1, 2, 3, 4]


def test_work_that_lasts_shows_a_bar_and_loses_no_item():
    assert "solving" in shown(count)


def test_bars_may_be_nested():
    def nested():
        for _ in progress.track("outside", range(3), total=3):
            count()

    text = shown(nested)
    assert "outside" in text
    assert "solving" in text


def test_short_work_shows_nothing(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    assert shown(count) == ""


def test_it_can_be_silenced(monkeypatch):
    def silenced():
        with progress.quiet():
            count()

    assert shown(silenced) == ""
    monkeypatch.setenv("RUE_PROGRESS", "0")
    assert shown(count) == ""


def test_a_file_is_not_drawn_on():
    assert shown(count, io.StringIO()) == ""
