"""Full conformal from influence against its definition: ridge regressions fitted for every candidate y."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rue.calibrate.conformal import quantile
from rue.calibrate.full_conformal import full_conformal, guarantee
from rue.core.errors import DataError, NumericalError, SettingError, ShapeError

FALSE_ALARM = 4.42  # standard errors of a binomial share: a right answer fails in 1e-5 of all seeds
TENTHS = [5, 8, 9]

seed = st.integers(0, 10_000)
level = st.floats(0.02, 0.98)


def problem(seed, n=15, p=3, m=1, l2=0.3, uneven=0.2):
    """Rows, targets and spreads drawn at random: X (n, p), y (n,), new (m, p), spread (n,), spread_new (m,), l2."""
    generator = np.random.default_rng(seed)
    X, new = generator.normal(size=(n, p)), generator.normal(size=(m, p))
    y = X.sum(1) + generator.standard_t(3, size=n)
    return X, y, new, np.exp(uneven * generator.normal(size=n)), np.exp(uneven * generator.normal(size=m)), l2


def arguments(X, y, new, spread, spread_new, l2):
    """What a ridge regression hands to full_conformal."""
    inverse = np.linalg.inv(X.T @ X + l2 * np.eye(X.shape[1]))
    theta = inverse @ X.T @ y
    cross = new @ inverse @ X.T
    leverage_new, leverage = np.diag(new @ inverse @ new.T), np.diag(X @ inverse @ X.T)
    return new @ theta, cross, leverage_new, leverage, y - X @ theta, spread_new, spread


def accepted(candidates, X, y, new, spread, spread_new, l2, tenths):
    """Whether the p-value of each candidate y for the one new row exceeds 1 − level, by n + 1 refits for each."""
    rows, spreads = np.vstack([X, new]), np.concatenate([spread, spread_new])
    everything, answers = np.arange(len(rows)), []
    for candidate in candidates:
        targets = np.append(y, candidate)
        scores = []
        for j in everything:
            kept = everything != j
            gram = rows[kept].T @ rows[kept] + l2 * np.eye(X.shape[1])
            theta = np.linalg.solve(gram, rows[kept].T @ targets[kept])
            scores.append(abs(targets[j] - rows[j] @ theta) / spreads[j])
        no_better = sum(score >= scores[-1] for score in scores)  # counts the new row itself
        answers.append(10 * no_better > (10 - tenths) * len(rows))
    return np.array(answers)


@given(seed, st.sampled_from(TENTHS), st.sampled_from([19, 20]))
def test_the_interval_is_the_set_of_candidates_that_refits_accept(seed, tenths, n):
    given_rows = problem(seed, n=n, p=2, l2=2.0)  # low leverage and even spreads: the set is one piece
    (lower,), (upper,) = full_conformal(*arguments(*given_rows), tenths / 10)
    width = upper - lower
    edges = [lower - 1e-6 * width, lower + 1e-6 * width, upper - 1e-6 * width, upper + 1e-6 * width]
    assert accepted(edges, *given_rows, tenths).tolist() == [False, True, True, False]
    grid = np.linspace(lower - width, upper + width, 50)
    np.testing.assert_array_equal(accepted(grid, *given_rows, tenths), (lower <= grid) & (grid <= upper))


@given(seed, st.sampled_from(TENTHS))
def test_spreads_that_make_the_set_fall_apart_give_an_interval_around_it(seed, tenths):
    given_rows = problem(seed, n=9, p=5, l2=0.01, uneven=1.5)
    (lower,), (upper,) = full_conformal(*arguments(*given_rows), tenths / 10)
    prediction = arguments(*given_rows)[0][0]
    grid = prediction + np.concatenate([np.linspace(-20, 20, 41), [-1e6, 1e6]])
    inside = accepted(grid, *given_rows, tenths)
    assert (~inside | ((lower <= grid) & (grid <= upper))).all()
    assert np.isfinite(lower) or inside[-2]  # infinite only where the set is
    assert np.isfinite(upper) or inside[-1]


@pytest.mark.parametrize(("n", "tenths", "finite"), [(9, 9, True), (8, 9, False), (4, 8, True), (3, 8, False)])
def test_too_few_rows_accept_every_candidate(n, tenths, finite):
    given_rows = problem(0, n=n, p=1, uneven=0)
    lower, upper = full_conformal(*arguments(*given_rows), tenths / 10)
    assert np.isfinite([lower, upper]).all() == finite
    assert accepted([-1e9, 1e9], *given_rows, tenths).all() != finite


@given(seed, level)
def test_without_influence_it_is_split_conformal(seed, nominal):
    _, y, _, spread, spread_new, _ = problem(seed, m=3)
    prediction = np.array([1.0, -2.0, 0.0])
    found = full_conformal(prediction, np.zeros((3, 15)), np.zeros(3), np.zeros(15), y, spread_new, spread, nominal)
    reach = quantile(np.abs(y) / spread, nominal) * spread_new
    np.testing.assert_allclose(found, [prediction - reach, prediction + reach], rtol=1e-12)


@given(seed, level, st.floats(0.01, 100), st.floats(0.01, 100))
def test_the_interval_follows_the_unit_of_y_and_not_that_of_the_spreads(seed, nominal, factor, unit):
    X, y, new, spread, spread_new, l2 = problem(seed, m=3)
    expected = factor * np.array(full_conformal(*arguments(X, y, new, spread, spread_new, l2), nominal))
    scaled = full_conformal(*arguments(X, factor * y, new, unit * spread, unit * spread_new, l2), nominal)
    np.testing.assert_allclose(scaled, expected, rtol=1e-7, atol=1e-9)


@given(seed, level)
def test_the_order_of_the_training_rows_does_not_matter(seed, nominal):
    X, y, new, spread, spread_new, l2 = problem(seed, m=3)
    order = np.random.default_rng(seed).permutation(len(y))
    shuffled = full_conformal(*arguments(X[order], y[order], new, spread[order], spread_new, l2), nominal)
    expected = full_conformal(*arguments(X, y, new, spread, spread_new, l2), nominal)
    np.testing.assert_allclose(shuffled, expected, rtol=1e-8, atol=1e-10)


@given(seed, level)
def test_new_rows_do_not_see_each_other(seed, nominal):
    X, y, new, spread, spread_new, l2 = problem(seed, m=3)
    whole = full_conformal(*arguments(X, y, new, spread, spread_new, l2), nominal)
    for i in range(3):
        part = full_conformal(*arguments(X, y, new[[i]], spread, spread_new[[i]], l2), nominal)
        np.testing.assert_allclose([end[0] for end in part], [end[i] for end in whole], rtol=1e-9)


@given(seed, level, level)
def test_a_higher_level_contains_a_lower_and_both_the_prediction(seed, one, other):
    given_rows = arguments(*problem(seed, m=3))
    narrow = full_conformal(*given_rows, min(one, other))
    wide = full_conformal(*given_rows, max(one, other))
    assert (wide[0] <= narrow[0]).all()
    assert (narrow[0] <= given_rows[0]).all()
    assert (given_rows[0] <= narrow[1]).all()
    assert (narrow[1] <= wide[1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("right", [True, False], ids=["right spread", "constant spread"])
@pytest.mark.parametrize("n", [19, 50])
def test_new_rows_are_covered_as_often_as_the_rank_says(n, right):
    """3000 training sets, ridge with 10 coefficients, one new row each, noise that depends on a feature."""
    inside = 0
    for draw in range(3000):
        generator = np.random.default_rng(draw)
        X = generator.normal(size=(n + 1, 10))
        noise = np.exp(X[:, 0] / 2)
        y = X.sum(1) + noise * generator.normal(size=n + 1)
        spread = noise if right else np.ones(n + 1)
        lower, upper = full_conformal(*arguments(X[:-1], y[:-1], X[-1:], spread[:-1], spread[-1:], 1.0), 0.9)
        inside += int(lower[0] <= y[-1] <= upper[0])
    expected = -(-9 * (n + 1) // 10) / (n + 1)
    error = FALSE_ALARM * np.sqrt(0.09 / 3000)
    assert expected - error < inside / 3000 < expected + error + 0.01  # an interval around the set may hold more


def test_the_words_claim_no_more_than_holds():
    assert guarantee(0.9, n=50) == (
        "approximately 90 %, not guaranteed: exact for ridge regression, where it is at least 90 %, marginal over "
        "training and new rows, for exchangeable data and fixed spreads (n = 50 training rows); for networks influence "
        "stands in for refits"
    )
    assert guarantee(0.9, n=8).endswith("every interval is infinite, finite ones need n = 9")


def changed(**replaced):
    names = ("prediction", "cross", "leverage_new", "leverage", "residual", "spread_new", "spread")
    given_rows = dict(zip(names, arguments(*problem(0)), strict=True))
    return full_conformal(**{**given_rows, "level": 0.5, **replaced})


bad_inputs = {
    "crossed shapes": (lambda: changed(cross=np.ones((15, 1))), ShapeError, r"cross \(15, 1\), expected \(m, n\)"),
    "a row too few": (lambda: changed(spread=np.ones(14)), ShapeError, r"spread \(14,\), expected \(n,\)"),
    "two outputs": (lambda: changed(prediction=np.ones((1, 2))), ShapeError, "one output at a time"),
    "nan influence": (lambda: changed(cross=np.full((1, 15), np.nan)), DataError, r"cross is nan at \[0, 0\]"),
    "nan prediction": (lambda: changed(prediction=np.full(1, np.nan)), DataError, r"prediction is nan at \[0\]"),
    "nan residual": (lambda: changed(residual=np.full(15, np.nan)), DataError, r"residual is nan at \[0\]"),
    "no spread": (lambda: changed(spread_new=np.zeros(1)), DataError, "spread_new is 0 .* above zero"),
    "a negative curvature": (lambda: changed(leverage_new=-np.ones(1)), DataError, "leverage_new is -1 .* at least"),
    "a row that decides alone": (lambda: changed(leverage=np.ones(15)), NumericalError, "leverage of row 0 is 1"),
    "a level in per cent": (lambda: changed(level=90), SettingError, "level is 90"),
}


@pytest.mark.parametrize(("call", "error", "message"), bad_inputs.values(), ids=bad_inputs.keys())
def test_a_bad_input_is_refused_with_advice(call, error, message):
    with pytest.raises(error, match=message) as refusal:
        call()
    assert ";" in str(refusal.value)
