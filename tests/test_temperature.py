"""The temperature of a classifier against a fine grid, and what it must not change."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, log_softmax, softmax

from rue.calibrate.tempering import temperature
from rue.core.errors import DataError, ShapeError

seed = st.integers(0, 10_000)
classes = st.integers(2, 5)


def held_out(seed, k, c=60):
    """Logits that are too sure by a factor, and labels drawn as they should say."""
    random = np.random.default_rng(seed)
    logits = 1.5 * random.normal(size=(c, k))
    labels = np.array([random.choice(k, p=row) for row in softmax(logits, axis=1)])
    return random.uniform(0.3, 4.0) * logits, labels


def nll(logits, labels, value):
    return -log_softmax(logits / value, axis=1)[np.arange(len(labels)), labels].mean()


@given(seed, classes)
def test_no_temperature_on_a_fine_grid_is_better(seed, k):
    logits, labels = held_out(seed, k)
    found = temperature(logits, labels)
    grid = np.exp(np.linspace(-3, 3, 301))
    costs = [nll(logits, labels, value) for value in grid]
    assert found.nll_after <= min(costs)
    assert abs(np.log(found.value / grid[int(np.argmin(costs))])) < 0.021
    assert found.nll_before == pytest.approx(nll(logits, labels, 1.0), rel=1e-12)
    assert found.nll_after == pytest.approx(nll(logits, labels, found.value), rel=1e-12)
    assert found.n == 60


@given(seed, classes, st.floats(1e-3, 1e3))
def test_logits_scaled_by_s_have_s_times_the_temperature(seed, k, s):
    logits, labels = held_out(seed, k)
    first, second = temperature(logits, labels), temperature(s * logits, labels)
    assert second.value == pytest.approx(s * first.value, rel=1e-9)
    assert second.nll_after == pytest.approx(first.nll_after, rel=1e-9)


@given(seed, classes)
def test_every_row_keeps_its_class_and_its_probabilities_are_those_of_softmax(seed, k):
    logits, labels = held_out(seed, k)
    found = temperature(logits, labels)
    probability = found.probability(logits)
    np.testing.assert_array_equal(probability.argmax(1), logits.argmax(1))
    np.testing.assert_allclose(probability, softmax(logits / found.value, axis=1), rtol=1e-10)


@given(seed)
def test_a_binary_logit_is_that_of_two_classes(seed):
    logits, labels = held_out(seed, 2)
    single = logits[:, 1] - logits[:, 0]
    found = temperature(single, labels)
    assert found.value == pytest.approx(temperature(logits, labels).value, rel=1e-9)
    np.testing.assert_allclose(found.probability(single), expit(single / found.value), rtol=1e-10)


@given(seed, classes, st.floats(-1e3, 1e3))
def test_a_shift_of_all_logits_of_a_row_changes_nothing(seed, k, shift):
    logits, labels = held_out(seed, k)
    shifted = logits + shift * np.random.default_rng(seed).normal(size=(60, 1))
    assert temperature(shifted, labels).value == pytest.approx(temperature(logits, labels).value, rel=1e-8)


def test_tensors_are_taken_as_arrays_are():
    logits, labels = held_out(0, 3)
    found = temperature(torch.tensor(logits, requires_grad=True), torch.tensor(labels))
    assert found == temperature(logits, labels)


@pytest.mark.parametrize("k", [2, 4])
def test_rows_told_right_beyond_doubt_change_no_temperature_however_large_their_logits(k):
    logits, labels = held_out(0, k)
    sure = np.zeros((1, k))
    sure[0, 1] = 1e6
    found, alone = temperature(np.vstack([logits, sure]), np.append(labels, 1)), temperature(logits, labels)
    assert found.value == pytest.approx(alone.value, rel=1e-6)
    assert found.nll_after == pytest.approx(60 / 61 * alone.nll_after, rel=1e-9)
    np.testing.assert_allclose(found.probability(sure), [np.eye(k)[1]], atol=1e-300)
    np.testing.assert_allclose(found.probability(-sure), softmax(-sure / found.value, axis=1), rtol=1e-12)


LOGITS, LABELS = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), np.array([0, 0, 1, 1])
bad_inputs = {
    "one label of no class": (LOGITS, [0, 0, 1, 2], DataError, "whole numbers 0 to 1"),
    "one label below": (LOGITS, [0, 0, 1, -1], DataError, "whole numbers 0 to 1"),
    "half a label": (LOGITS, [0, 0, 1, 0.5], DataError, "whole numbers 0 to 1"),
    "words": (LOGITS, list("aabb"), DataError, "whole numbers 0 to 1"),
    "a label too few": (LOGITS, LABELS[:3], ShapeError, r"labels have shape \(3,\)"),
    "one class": (LOGITS[:, :1], LABELS, ShapeError, "k of at least 2 classes"),
    "three axes": (LOGITS[None], LABELS, ShapeError, r"\(1, 4, 2\)"),
    "no rows": (LOGITS[:0], LABELS[:0], DataError, "there are no logits"),
    "a gap": (np.where(LOGITS == 2, np.nan, LOGITS), LABELS, DataError, "1 of 4 rows of logits are NaN"),
    "no better than a coin": (LOGITS, 1 - LABELS, DataError, "no temperature improves on a coin"),
    "logits that say nothing": (0 * LOGITS, LABELS, DataError, "no temperature improves on a coin"),
    "all right": (LOGITS, [0, 0, 1, 0], DataError, "all 4 held-out rows are classified right"),
}


@pytest.mark.parametrize(("logits", "labels", "error", "message"), bad_inputs.values(), ids=bad_inputs.keys())
def test_what_has_no_temperature_is_refused_with_advice(logits, labels, error, message):
    assert temperature(LOGITS, LABELS).value > 0
    with pytest.raises(error, match=message):
        temperature(logits, labels)
