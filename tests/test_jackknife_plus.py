"""Jackknife+ from influence against ridge regressions that are really fitted without each row."""

from math import ceil, floor, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rue.calibrate.conformal import quantile
from rue.calibrate.jackknife_plus import guarantee, jackknife_plus, without_row
from rue.core.errors import DataError, NumericalError, SettingError, ShapeError

FALSE_ALARM = 4.42  # standard errors of a binomial share: a right answer fails in 1e-5 of all seeds
LEVELS = [0.5, 0.8, 0.9, 0.95]

seed = st.integers(0, 10_000)
level = st.floats(0.02, 0.98)


def problem(seed, n=12, p=3, m=4, l2=0.3):
    """Rows, targets and spreads drawn at random, and the influence of a ridge regression."""
    generator = np.random.default_rng(seed)
    X, new = generator.normal(size=(n, p)), generator.normal(size=(m, p))
    y = X.sum(1) + generator.standard_t(3, size=n)
    spread, spread_new = np.exp(0.5 * generator.normal(size=n)), np.exp(0.5 * generator.normal(size=m))
    inverse = np.linalg.inv(X.T @ X + l2 * np.eye(p))
    theta = inverse @ X.T @ y
    leverage = np.diag(X @ inverse @ X.T)
    moved, left_out = without_row(new @ theta, new @ inverse @ X.T, leverage, y - X @ theta)
    return X, y, new, spread, spread_new, l2, moved, left_out


def ridge(X, y, l2):
    """Ridge regression as least squares with added rows: (p,)."""
    p = X.shape[1]
    rows = np.vstack([X, np.sqrt(l2) * np.eye(p)])
    return np.linalg.lstsq(rows, np.concatenate([y, np.zeros(p)]), rcond=None)[0]


def arrays(seed, n=15, m=3):
    generator = np.random.default_rng(seed)
    moved = generator.normal(size=(m, n)) + 5 * generator.normal(size=(m, 1))
    return moved, np.abs(generator.standard_t(2, size=n)), np.exp(generator.normal(size=m))


@given(seed)
def test_predictions_without_a_row_are_those_of_a_refit(seed):
    X, y, new, _, _, l2, moved, left_out = problem(seed)
    for i in range(len(y)):
        theta = ridge(np.delete(X, i, 0), np.delete(y, i), l2)
        np.testing.assert_allclose(moved[:, i], new @ theta, rtol=1e-8, atol=1e-9)
        assert left_out[i] == pytest.approx(y[i] - X[i] @ theta, rel=1e-8, abs=1e-9)


@given(seed, st.sampled_from(LEVELS), st.integers(2, 25))
def test_the_interval_is_that_of_barber_et_al_with_real_refits(seed, nominal, n):
    X, y, new, spread, spread_new, l2, moved, left_out = problem(seed, n=n)
    lower, upper = jackknife_plus(moved, np.abs(left_out) / spread, spread_new, nominal)
    refits = [ridge(np.delete(X, i, 0), np.delete(y, i), l2) for i in range(n)]
    sizes = [abs(y[i] - X[i] @ refits[i]) / spread[i] for i in range(n)]
    low, high = floor(round((1 - nominal) * (n + 1), 9)), ceil(round(nominal * (n + 1), 9))
    for j, x in enumerate(new):
        downs = sorted(x @ refits[i] - sizes[i] * spread_new[j] for i in range(n))
        ups = sorted(x @ refits[i] + sizes[i] * spread_new[j] for i in range(n))
        assert lower[j] == pytest.approx(downs[low - 1] if low >= 1 else -inf, rel=1e-8, abs=1e-8)
        assert upper[j] == pytest.approx(ups[high - 1] if high <= n else inf, rel=1e-8, abs=1e-8)


@given(seed, level)
def test_without_influence_it_is_split_conformal(seed, nominal):
    _, scores, spread = arrays(seed)
    prediction = np.array([1.0, -2.0, 0.0])
    lower, upper = jackknife_plus(np.repeat(prediction[:, None], 15, 1), scores, spread, nominal)
    reach = quantile(scores, nominal) * spread
    np.testing.assert_allclose([lower, upper], [prediction - reach, prediction + reach], rtol=1e-12)


@given(seed, level, st.floats(0.01, 100), st.floats(-100, 100))
def test_the_interval_follows_the_unit_and_the_origin_of_y(seed, nominal, factor, shift):
    moved, scores, spread = arrays(seed)
    scaled = jackknife_plus(factor * moved + shift, scores, factor * spread, nominal)
    expected = factor * np.array(jackknife_plus(moved, scores, spread, nominal)) + shift
    np.testing.assert_allclose(scaled, expected, rtol=1e-9, atol=1e-9)


@given(seed, level, st.floats(0.01, 100))
def test_the_unit_of_the_spreads_does_not_matter(seed, nominal, factor):
    moved, scores, spread = arrays(seed)
    scaled = jackknife_plus(moved, scores / factor, factor * spread, nominal)
    np.testing.assert_allclose(scaled, jackknife_plus(moved, scores, spread, nominal), rtol=1e-9, atol=1e-9)


@given(seed, level)
def test_the_order_of_the_training_rows_does_not_matter(seed, nominal):
    moved, scores, spread = arrays(seed)
    order = np.random.default_rng(seed).permutation(15)
    shuffled = jackknife_plus(moved[:, order], scores[order], spread, nominal)
    np.testing.assert_array_equal(shuffled, jackknife_plus(moved, scores, spread, nominal))


@given(seed, level)
def test_new_rows_do_not_see_each_other(seed, nominal):
    moved, scores, spread = arrays(seed)
    whole = jackknife_plus(moved, scores, spread, nominal)
    parts = [jackknife_plus(moved[i : i + 1], scores, spread[i : i + 1], nominal) for i in range(3)]
    np.testing.assert_array_equal(whole, np.concatenate(parts, axis=1))


@given(seed, level, level)
def test_a_higher_level_is_no_narrower_and_from_one_half_on_contains_the_lower(seed, one, other):
    moved, scores, spread = arrays(seed)
    narrow = jackknife_plus(moved, scores, spread, min(one, other))
    wide = jackknife_plus(moved, scores, spread, max(one, other))
    assert (narrow[1] >= narrow[0]).all()
    assert (wide[1] - wide[0] >= narrow[1] - narrow[0] - 1e-12).all()
    if min(one, other) >= 0.5:
        assert (wide[0] <= narrow[0]).all()
        assert (wide[1] >= narrow[1]).all()


def test_ends_that_would_cross_meet_in_the_middle():
    lower, upper = jackknife_plus(np.array([[0.0, 1.0, 2.0]]), np.zeros(3), np.ones(1), level=0.25)
    assert lower.tolist() == upper.tolist() == [1.0]  # third smallest is 2, first is 0


@pytest.mark.slow
@pytest.mark.parametrize("n", [19, 50])
def test_new_rows_are_covered_more_often_than_the_guarantee_and_about_as_often_as_the_level(n):
    """3000 training sets, ridge with 10 coefficients, one new row each; the level itself is not guaranteed."""
    inside = 0
    for draw in range(3000):
        generator = np.random.default_rng(draw)
        X = generator.normal(size=(n + 1, 10))
        noise = np.exp(X[:, 0] / 2)
        y = X.sum(1) + noise * generator.normal(size=n + 1)
        inverse = np.linalg.inv(X[:-1].T @ X[:-1] + np.eye(10))
        theta = inverse @ X[:-1].T @ y[:-1]
        hat = X @ inverse @ X[:-1].T
        moved, left = without_row(X[-1:] @ theta, hat[-1:], np.diag(hat[:-1]), y[:-1] - X[:-1] @ theta)
        lower, upper = jackknife_plus(moved, np.abs(left) / noise[:-1], noise[-1:], 0.9)
        inside += int(lower[0] <= y[-1] <= upper[0])
    error = FALSE_ALARM * np.sqrt(0.09 / 3000)
    assert 0.8 < 0.9 - error < inside / 3000 < 0.96


def test_the_words_claim_no_more_than_holds():
    assert guarantee(0.9, n=50) == (
        "approximately 90 %, not guaranteed: refits without each row would guarantee at least 80 %, marginal over "
        "training and new rows, for exchangeable data and fixed spreads (n = 50 training rows); here they come from "
        "influence, which is exact for ridge regression only"
    )
    assert "guarantee nothing at levels up to 50 %" in guarantee(0.5, n=50)
    assert guarantee(0.9, n=8).endswith("every interval is infinite, finite ones need n = 9")


@pytest.mark.parametrize("nominal", LEVELS)
def test_the_words_say_that_intervals_are_infinite_where_they_are(nominal):
    for n in range(1, 25):
        _, upper = jackknife_plus(np.zeros((1, n)), np.ones(n), np.ones(1), nominal)
        assert ("every interval is infinite" in guarantee(nominal, n)) == (upper[0] == inf)


ONE, ROW = np.ones(1), np.ones((1, 2))
bad_inputs = {
    "crossed shapes": (lambda: jackknife_plus(ROW.T, np.ones(2), ONE, 0.5), ShapeError, r"moved has shape \(2, 1\)"),
    "nan": (lambda: jackknife_plus(np.nan * ROW, np.ones(2), ONE, 0.5), DataError, r"moved is nan at \[0, 0\]"),
    "signed scores": (lambda: jackknife_plus(ROW, -np.ones(2), ONE, 0.5), DataError, "score is -1 .* at least zero"),
    "no spread": (lambda: jackknife_plus(ROW, np.ones(2), 0 * ONE, 0.5), DataError, "spread is 0 .* above zero"),
    "a level in per cent": (lambda: jackknife_plus(ROW, np.ones(2), ONE, 90), SettingError, "level is 90"),
    "a row that decides alone": (
        lambda: without_row(ONE, ROW, np.array([0.5, 1.0]), np.ones(2)),
        NumericalError,
        r"leverage of row 1 is 1 \(1 of 2 rows\), expected below 1",
    ),
    "a leverage nan": (
        lambda: without_row(ONE, ROW, np.array([np.nan, 0.5]), np.ones(2)),
        NumericalError,
        "leverage of row 0 is nan",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), bad_inputs.values(), ids=bad_inputs.keys())
def test_a_bad_input_is_refused_with_advice(call, error, message):
    with pytest.raises(error, match=message) as refusal:
        call()
    assert ";" in str(refusal.value)
