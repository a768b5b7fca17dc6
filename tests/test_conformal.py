"""Split conformal: the order statistic, the groups, and what is said to be guaranteed."""

from fractions import Fraction
from math import ceil, inf, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rue.calibrate.conformal import HeldOutScores, quantile, rank, require, rows_needed
from rue.core.errors import DataError, SettingError, ShapeError

FALSE_ALARM = 4.42  # standard errors of a binomial share: a right answer fails in 1e-5 of all seeds

score = st.floats(0, 1e6)
some = st.lists(score, min_size=1, max_size=60).map(np.array)
per_mille = st.integers(1, 999)
level = st.floats(0.001, 0.999)
grouped = st.lists(st.tuples(score, st.sampled_from("abc")), min_size=1, max_size=60)


# ------------------------------------------------------------------------------------------ the order statistic


@given(st.integers(1, 5000), per_mille)
def test_the_rank_is_that_of_arithmetic_on_paper(count, thousandths):
    expected = ceil(Fraction(thousandths, 1000) * (count + 1))
    meant = thousandths / 1000
    assert [rank(count, near) for near in (meant, nextafter(meant, 0), nextafter(meant, 1))] == [expected] * 3


def test_a_sum_of_floats_above_the_fraction_does_not_move_the_rank():
    assert rank(9, 0.9) == 9
    assert rank(9, 0.1 + 0.2) == 3  # 0.30000000000000004
    assert rank(99, 0.07) == 7  # 0.07 * 100 is 7.000000000000001
    assert rank(9, np.float64(0.9)) == 9
    assert rank(10, 1e-15) == 1
    assert rank(10, 1 - 1e-15) == 11


@given(some, per_mille)
def test_the_quantile_is_the_sorted_score_at_the_rank_with_the_plus_one(scores, thousandths):
    position = ceil(Fraction(thousandths * (scores.size + 1), 1000))
    expected = sorted(scores)[position - 1] if position <= scores.size else inf
    assert quantile(scores, thousandths / 1000) == expected


@given(per_mille)
def test_one_row_fewer_than_needed_is_infinite(thousandths):
    needed = rows_needed(thousandths / 1000)
    assert quantile(np.ones(needed), thousandths / 1000) == 1
    assert needed == 1 or quantile(np.ones(needed - 1), thousandths / 1000) == inf


@given(some, level, level)
def test_a_higher_level_reaches_no_less_far(scores, one, other):
    assert quantile(scores, min(one, other)) <= quantile(scores, max(one, other))


@given(some, level, st.floats(0.01, 100), st.randoms())
def test_the_quantile_follows_the_unit_and_not_the_order_of_the_scores(scores, nominal, factor, random):
    shuffled = random.sample(scores.tolist(), scores.size)
    assert quantile(factor * np.array(shuffled), nominal) == factor * quantile(scores, nominal)


# ------------------------------------------------------------------------------------------ groups


@given(grouped, st.lists(st.sampled_from("abcd"), max_size=8), level)
def test_the_reach_of_a_group_is_the_quantile_of_its_own_rows_and_infinite_without(rows, asked, nominal):
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))
    found = HeldOutScores(scores, labels).reach(nominal, np.array(asked, dtype=str))
    for label, reach in zip(asked, found, strict=True):
        own = np.array([s for s, g in rows if g == label])
        assert reach == (quantile(own, nominal) if own.size else inf)
    assert found.shape == (len(asked),)


def test_without_a_group_all_rows_count():
    held_out = HeldOutScores(np.arange(1.0, 10.0), group=np.arange(9) % 2)
    assert held_out.reach(0.9) == HeldOutScores(np.arange(1.0, 10.0)).reach(0.9) == 9


def test_labels_may_be_numbers_or_objects():
    scores = np.array([1.0, 2.0])
    assert HeldOutScores(scores, np.array([7, 8])).reach(0.5, np.array([8.0, 7.0])).tolist() == [2, 1]
    mixed = np.array(["a", 8], dtype=object)
    assert HeldOutScores(scores, mixed).reach(0.5, np.array([8, "a", "8"], dtype=object)).tolist() == [2, 1, inf]


# ------------------------------------------------------------------------------------------ words


def test_the_guarantee_says_what_holds_for_how_many_rows():
    assert HeldOutScores(np.ones(20)).guarantee(0.9) == (
        "guaranteed at least 90 %, marginal over calibration and new rows, for exchangeable data "
        "(n = 20 held-out rows; expected coverage 19/21)"
    )
    assert (
        HeldOutScores(np.ones(8))
        .guarantee(0.9)
        .endswith("(n = 8 held-out rows; expected coverage 9/9); every interval is infinite, finite ones need n = 9")
    )


def test_the_guarantee_of_groups_names_the_small_and_counts_the_unseen():
    held_out = HeldOutScores(np.ones(40), group=np.array(["a"] * 20 + ["b"] * 17 + ["c"] * 3))
    said = held_out.guarantee(0.9, group=np.array(["a", "d", "d", "e"]))
    assert said == (
        "guaranteed at least 90 % in every group, marginal over its calibration and new rows, for exchangeable data "
        "(3 groups; n = 3 held-out rows in the smallest); intervals are infinite where a group has fewer than the 9 "
        "needed: 'c' (n = 3); intervals are infinite for 3 of 4 new rows, whose group has no held-out rows: 'd', 'e'"
    )
    assert held_out.guarantee(0.5, group=np.array(["a"])).endswith("in the smallest)")


def test_many_labels_are_counted_instead_of_named():
    said = HeldOutScores(np.ones(8), group=np.arange(8)).guarantee(0.9, group=np.array([0]))
    assert said.endswith("0 (n = 1), 1 (n = 1), 2 (n = 1), 3 (n = 1), 4 (n = 1) and 3 more")


# ------------------------------------------------------------------------------------------ validity


@pytest.mark.parametrize(("c", "nominal"), [(19, 0.9), (10, 0.9), (4, 0.5), (30, 0.8)])
def test_exchangeable_rows_are_covered_as_often_as_the_guarantee_says(c, nominal):
    """4000 calibration sets with one new row each; errors heavy-tailed, the spread wrong by a random factor."""
    generator = np.random.default_rng(0)
    spread = np.exp(generator.normal(size=(4000, c + 1)))
    scores = np.abs(generator.standard_t(2, size=spread.shape)) * np.exp(generator.normal(size=spread.shape)) / spread
    inside = np.mean([row[-1] <= quantile(row[:-1], nominal) for row in scores])
    expected = ceil(round(nominal * (c + 1), 9)) / (c + 1)
    assert abs(inside - expected) < FALSE_ALARM * np.sqrt(expected * (1 - expected) / 4000)


def test_every_group_is_covered_where_the_whole_alone_would_not_be():
    """2000 calibration sets, a quiet group of 30 rows and a loud one of 20; a new row of each."""
    generator = np.random.default_rng(0)
    group, new = np.array(["quiet"] * 30 + ["loud"] * 20), np.array(["quiet", "loud"])
    inside, pooled = np.zeros(2), np.zeros(2)
    for _ in range(2000):
        held_out = HeldOutScores(np.abs(generator.normal(size=50)) * np.where(group == "loud", 10, 1), group)
        fresh = np.abs(generator.normal(size=2)) * [1, 10]
        inside += fresh <= held_out.reach(0.9, new)
        pooled += fresh <= held_out.reach(0.9)
    expected = np.array([28 / 31, 19 / 21])
    assert (np.abs(inside / 2000 - expected) < FALSE_ALARM * np.sqrt(expected * (1 - expected) / 2000)).all()
    assert pooled[1] / 2000 < 0.85  # the trap that groups are for


# ------------------------------------------------------------------------------------------ bad inputs

ONE = np.ones(1)
bad_inputs = {
    "no rows": (lambda: HeldOutScores(np.ones(0)), DataError, "no scores, expected one per held-out row"),
    "a matrix": (lambda: HeldOutScores(np.ones((2, 1))), ShapeError, r"shape \(2, 1\), expected one per row"),
    "nan": (lambda: HeldOutScores(np.array([1, np.nan])), DataError, r"score is nan at \[1\] \(1 of 2\), .* finite"),
    "a zero spread": (lambda: HeldOutScores(np.array([inf])), DataError, "score is inf .* add noise"),
    "signed scores": (lambda: quantile(np.array([-1.0]), 0.5), DataError, r"score is -1 .* pass \|error\|"),
    "level in per cent": (lambda: quantile(ONE, 90), SettingError, "level is 90"),
    "level zero": (lambda: rank(9, 0), SettingError, "level is 0, expected strictly between"),
    "level one": (lambda: HeldOutScores(ONE).guarantee(1), SettingError, "level is 1"),
    "level nan": (lambda: rows_needed(np.nan), SettingError, "level is nan"),
    "a label too few": (lambda: HeldOutScores(np.ones(2), np.array(["a"])), ShapeError, "expected one label per score"),
    "a missing label": (
        lambda: HeldOutScores(np.ones(2), np.array(["a", None], dtype=object)),
        DataError,
        "1 of 2 rows have no group",
    ),
    "a nan label": (lambda: HeldOutScores(ONE, ONE).reach(0.5, np.array([np.nan])), DataError, "1 of 1 rows have no"),
    "labels that were not calibrated": (
        lambda: HeldOutScores(ONE).reach(0.5, np.array(["a"])),
        SettingError,
        None,
    ),
    "one label for all": (lambda: HeldOutScores(ONE, ONE).reach(0.5, np.array(1.0)), ShapeError, "one label per new"),
    "text for numbers": (
        lambda: HeldOutScores(ONE, np.array([1])).guarantee(0.5, np.array(["1"])),
        DataError,
        "new rows are <U1 and those of held-out rows int64",
    ),
    "a bad entry of a matrix": (
        lambda: require("cross", np.eye(2), np.eye(2) > 0, "one; pass ones"),
        DataError,
        r"cross is 0 at \[0, 1\] \(2 of 4\), expected one",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), bad_inputs.values(), ids=bad_inputs.keys())
def test_a_bad_input_is_refused_with_advice(call, error, message):
    with pytest.raises(error, match=message) as refusal:
        call()
    assert ";" in str(refusal.value)
