"""Splits: every row once, by the stated rule, and the same as the benchmarks'."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from rue.core.errors import DataError, SettingError, ShapeError
from rue.evaluate.datasets import gap_split, standard_splits, tail_split

different = st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=60, unique=True)
tied = st.lists(st.integers(0, 12).map(float), min_size=3, max_size=60)


def complete(split, n):
    return sorted([*split.train.tolist(), *split.test.tolist()]) == list(range(n))


@hypothesis.given(st.integers(5, 300), st.integers(1, 4))
def test_standard_splits_are_the_benchmarks_and_leave_the_global_state_alone(n, count):
    state = np.random.get_state()  # noqa: NPY002  the benchmarks' own recipe
    try:
        np.random.seed(1)  # noqa: NPY002
        expected = [np.random.choice(range(n), n, replace=False) for _ in range(count)]  # noqa: NPY002
        before = np.random.get_state()[1].tolist()  # noqa: NPY002
        found = standard_splits(n, count)
        assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    finally:
        np.random.set_state(state)  # noqa: NPY002
    rows = round(0.9 * n)
    for split, permutation in zip(found, expected, strict=True):
        assert split.train.tolist() == permutation[:rows].tolist()
        assert split.test.tolist() == permutation[rows:].tolist()


def test_twenty_splits_are_the_default_and_a_number_of_rows_cuts_the_same_permutations():
    usual, small = standard_splits(1599), standard_splits(1599, train=600)
    assert len(usual) == len(small) == 20
    for a, b in zip(usual, small, strict=True):
        assert (len(a.train), len(b.train)) == (1439, 600)
        assert complete(b, 1599)
        assert b.train.tolist() == a.train[:600].tolist()


@pytest.mark.parametrize(("n", "settings"), [(1, {}), (10, {"train": 10}), (10, {"train": 0}), (10, {"count": 0})])
def test_standard_splits_refuse_an_empty_side(n, settings):
    with pytest.raises(SettingError, match=r"must (lie in 1 to n - 1|be at least 1)"):
        standard_splits(n, **settings)


@hypothesis.given(different)
def test_without_ties_the_gap_is_the_middle_third_and_the_tails_a_sixth_each(values):
    order = np.argsort(values)
    n = len(values)
    gap, tail = gap_split(values), tail_split(values)
    assert complete(gap, n)
    assert complete(tail, n)
    assert abs(len(gap.test) - n / 3) < 1
    assert abs(len(tail.test) - n / 3) < 2
    start = next(i for i in range(n) if order[i] in gap.test)
    assert sorted(order[start : start + len(gap.test)]) == gap.test.tolist()
    side = len(tail.test) // 2
    assert sorted([*order[:side], *order[n - side :]]) == tail.test.tolist()


@hypothesis.given(tied, st.sampled_from([gap_split, tail_split]), st.randoms(use_true_random=False))
def test_rows_with_equal_values_stay_together_whatever_their_order(values, split, random):
    try:
        found = split(values)
    except DataError:
        hypothesis.reject()
    assert complete(found, len(values))
    train, test = ({values[i] for i in rows} for rows in (found.train, found.test))
    assert not train & test
    inner, outer = (test, train) if split is gap_split else (train, test)
    assert min(outer) < min(inner) <= max(inner) < max(outer)
    assert not {value for value in outer if min(inner) < value < max(inner)}
    shuffled = random.sample(values, len(values))
    assert sorted(shuffled[i] for i in split(shuffled).test) == sorted(values[i] for i in found.test)


@pytest.mark.parametrize("split", [gap_split, tail_split])
@pytest.mark.parametrize(
    ("feature", "error", "complaint"),
    [
        ([3.0] * 9, DataError, "1 different"),
        ([0.0, 1.0] * 9, DataError, "2 different values"),
        ([], DataError, "0 different values"),
        ([0.0] * 9 + [1.0, 2.0], DataError, "3 different"),
        ([1.0, np.nan, 2.0], DataError, "1 of 3 values are not finite"),
        (np.ones((4, 2)), ShapeError, r"got \(4, 2\); pass a column"),
    ],
)
def test_a_feature_without_three_parts_is_refused(split, feature, error, complaint):
    with pytest.raises(error, match=complaint):
        split(feature)
