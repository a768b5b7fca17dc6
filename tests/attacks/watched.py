"""Does an attack and looks at what it left behind."""

import warnings

import pytest
import torch

import rue
from attacks.attack import Attack, judge, tried
from attacks.page import OPEN
from snapshot import changed, module_picture, world_picture

CHANGED = ("trained on after", "training mode after")  # what attacks do to the module themselves


def each(attacks):
    """The parameters of a test, one for each attack; those that are open are expected to fail."""
    marks = {True: [pytest.mark.xfail(reason="open")], False: []}
    return pytest.mark.parametrize(
        "attack", [pytest.param(attack, id=attack.name, marks=marks[attack.name in OPEN]) for attack in attacks]
    )


def comes_to_what_is_expected(attack: Attack, monkeypatch: pytest.MonkeyPatch, modules: bool = True) -> None:
    """Assert what must come of it, and that the random state and the `modules` are as they were."""
    pictures = []
    wrap = rue.wrap

    def watched(model, **settings):
        if modules and isinstance(model, torch.nn.Module):
            pictures.append((model, module_picture(model)))
        return wrap(model, **settings)

    monkeypatch.setattr(rue, "wrap", watched)
    world = world_picture()
    outcome = tried(attack)
    assert changed(world, world_picture()) == []
    if not any(word in attack.name for word in CHANGED):
        for module, before in pictures:
            assert changed(before, module_picture(module)) == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that oracles use
        judge(attack, outcome)
