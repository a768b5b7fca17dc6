"""Every mistake on the list gets its error, with advice, and leaves everything as it was."""

import contextlib

import pytest
import torch

import bad_inputs
import rue
from snapshot import changed, module_picture, world_picture

each_mistake = pytest.mark.parametrize("bad", bad_inputs.BAD_INPUTS, ids=lambda bad: bad.name)


def test_the_list_is_long_and_says_nothing_twice():
    names = [bad.name for bad in bad_inputs.BAD_INPUTS]
    assert len(names) >= 40
    assert len(set(names)) == len(names)


@each_mistake
def test_a_mistake_gets_its_error_with_advice(bad):
    with pytest.raises(bad.error, match=bad.message) as refusal:
        bad.mistake()
    assert len(str(refusal.value)) >= 40  # a sentence


@each_mistake
def test_a_mistake_leaves_the_module_and_the_random_state_as_they_were(bad, monkeypatch):
    pictures = []
    wrap = rue.wrap

    def watched(model, **settings):
        if isinstance(model, torch.nn.Module):
            pictures.append((model, module_picture(model)))
        return wrap(model, **settings)

    monkeypatch.setattr(rue, "wrap", watched)
    world = world_picture()
    with contextlib.suppress(Exception):  # whether and which one is the other test's business
        bad.mistake()
    assert changed(world, world_picture()) == []
    for module, before in pictures:
        assert changed(before, module_picture(module)) == []


def test_a_module_that_was_not_wrapped_is_as_it_was():
    module = bad_inputs.linear()
    before = module_picture(module)
    with pytest.raises(rue.errors.ModelError):
        rue.LinearRUE().fit(module, (bad_inputs.X, bad_inputs.y))
    assert changed(before, module_picture(module)) == []
