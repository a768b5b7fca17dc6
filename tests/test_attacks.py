"""Every attack comes to what is expected of it, and leaves everything as it was."""

import re
from pathlib import Path

import pytest
import torch

import rue
from attacks import mistakes, page
from attacks.attack import judge
from snapshot import changed, module_picture, world_picture


def test_the_list_is_long_and_says_nothing_twice():
    names = [attack.name for attack in page.ATTACKS]
    assert len(names) >= 550
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("attack", page.ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_comes_to_what_is_expected_and_leaves_everything_as_it_was(attack, monkeypatch):
    pictures = []
    wrap = rue.wrap

    def watched(model, **settings):
        if isinstance(model, torch.nn.Module):
            pictures.append((model, module_picture(model)))
        return wrap(model, **settings)

    monkeypatch.setattr(rue, "wrap", watched)
    world = world_picture()
    judge(attack, page.outcome(attack))
    assert changed(world, world_picture()) == []
    if attack not in TRAINED_ON:
        for module, before in pictures:
            assert changed(before, module_picture(module)) == []


TRAINED_ON = [
    attack for attack in page.ATTACKS if "trained on after" in attack.name or "training mode after" in attack.name
]


def test_a_module_that_was_not_wrapped_is_as_it_was():
    module = mistakes.linear()
    before = module_picture(module)
    with pytest.raises(rue.errors.ModelError):
        rue.LinearRUE().fit(module, (mistakes.X, mistakes.y))
    assert changed(before, module_picture(module)) == []


def test_the_page_shows_what_comes_of_every_attack():
    stored = (Path(__file__).parent.parent / "docs" / "bad-inputs.md").read_text()
    assert _without_numbers(stored) == _without_numbers(page.page())


def _without_numbers(text):
    """Digits of measured numbers differ between machines."""
    return re.sub(r"-?\d[\d.,]*(e[-+]?\d+)?", "#", text)
