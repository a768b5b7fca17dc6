"""Every attack comes to what is expected of it, and leaves everything as it was."""

import re
from pathlib import Path

import pytest

import rue
from attacks import mistakes, page
from attacks.watched import comes_to_what_is_expected, each
from snapshot import changed, module_picture

PAGE = Path(__file__).parent.parent / "docs" / "bad-inputs.md"
OWN = [attack for attack in page.ATTACKS if attack not in page.TRIALS]
SOME = OWN[::5]  # in every run; all of them take minutes


def test_the_list_is_long_says_nothing_twice_and_is_on_the_page():
    names, text = [attack.name for attack in page.ATTACKS], PAGE.read_text()
    assert len(names) >= 1300
    assert len(set(names)) == len(names)
    assert [name for name in names if f"| {page._cell(name)} |" not in text] == []
    assert set(names) >= page.OPEN
    assert text.count("**open** |") == len(page.OPEN)


@each(SOME)
def test_an_attack_comes_to_what_is_expected(attack, monkeypatch):
    comes_to_what_is_expected(attack, monkeypatch)


@pytest.mark.slow
@each([attack for attack in OWN if attack not in SOME])
def test_any_other_attack_does_so_too(attack, monkeypatch):
    comes_to_what_is_expected(attack, monkeypatch)


def test_a_module_that_was_not_wrapped_is_as_it_was():
    module = mistakes.linear()
    before = module_picture(module)
    with pytest.raises(rue.errors.ModelError):
        rue.LinearRUE().fit(module, (mistakes.X, mistakes.y))
    assert changed(before, module_picture(module)) == []


@pytest.mark.slow
def test_the_page_shows_what_comes_of_every_attack():
    assert _without_numbers(PAGE.read_text()) == _without_numbers(page.page())


def _without_numbers(text):
    """Digits of measured numbers differ between machines."""
    return re.sub(r"-?\d[\d.,]*(e[-+]?\d+)?", "#", text)
