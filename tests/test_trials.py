"""Attacks of the independent trials come to what is expected of them, but for those that are open."""

import pytest

from attacks import page
from attacks.watched import comes_to_what_is_expected, each

SOME = page.TRIALS[::4]  # in every run; all of them take three minutes


@each(SOME)
def test_an_attack_of_a_trial_comes_to_what_is_expected(attack, monkeypatch):
    comes_to_what_is_expected(attack, monkeypatch, modules=False)


@pytest.mark.slow
@each([attack for attack in page.TRIALS if attack not in SOME])
def test_any_other_attack_of_a_trial_does_so_too(attack, monkeypatch):
    comes_to_what_is_expected(attack, monkeypatch, modules=False)
