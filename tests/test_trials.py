"""Attacks of the independent trials come to what is expected of them, but for those that are open."""

from attacks import page
from attacks.watched import comes_to_what_is_expected, each


@each(page.TRIALS)
def test_an_attack_of_a_trial_comes_to_what_is_expected(attack, monkeypatch):
    comes_to_what_is_expected(attack, monkeypatch, modules=False)
