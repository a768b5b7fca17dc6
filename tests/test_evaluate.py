"""Every number of rue.evaluate against an oracle that shares no code, and the laws it must obey."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.metrics import mean_pinball_loss, roc_auc_score

from rue import evaluate
from rue.core.errors import InputError

law = settings(deadline=None)
slow_law = settings(deadline=None, max_examples=20)  # nineteen calls of scikit-learn for every curve

# few distinct integers, so that ties in the score and in |error| are common; at most 20 rows, so that the
# 5th percentile lies below the largest |error| wherever two differ
ranked = st.lists(st.tuples(st.integers(-4, 4), st.integers(-6, 6)), min_size=2, max_size=20).map(np.transpose)
decidable = ranked.filter(lambda rows: np.unique(np.abs(rows[1])).size > 1)
few = st.lists(st.tuples(st.integers(0, 2), st.floats(0, 10)), min_size=1, max_size=6).map(np.transpose)
losses = st.lists(st.tuples(st.integers(-4, 4), st.floats(0, 100)), min_size=1, max_size=25).map(np.transpose)
real = st.floats(-50, 50)
gaussian = st.tuples(real, real, st.floats(0.1, 20))
gaussians = st.lists(gaussian, min_size=1, max_size=25).map(np.transpose)
intervals = st.lists(st.tuples(real, real, st.floats(0, 20)), min_size=1, max_size=25).map(
    lambda rows: [np.array(column) for column in zip(*((y, low, low + width) for y, low, width in rows), strict=True)]
)
level = st.floats(0.01, 0.99)
factor = st.floats(0.01, 100)


def share_of_ordered_pairs(score, positive, negative):
    """P(score of a positive row > score of a negative row), a tie counting one half, by double loop."""
    won = [(score[i] > score[j]) + (score[i] == score[j]) / 2 for i in positive for j in negative]
    return sum(won) / len(won)


def mean_over_tie_orders(score, loss, curve):
    """Mean of curve(losses in order of acceptance) over all orders of the rows that never lower the score."""
    orders = [list(order) for order in permutations(range(len(score))) if (np.diff(score[list(order)]) >= 0).all()]
    return np.mean([curve(loss[order]) for order in orders], axis=0)


def risks(loss):
    return [loss[: i + 1].mean() for i in range(len(loss))]


def generalised_risks(loss):
    return [loss[: i + 1].sum() / len(loss) for i in range(len(loss))]


# ------------------------------------------------------------------------------------------ AUC and C-index


@law
@given(decidable, st.floats(0, 6))
def test_auc_is_the_share_of_ordered_pairs_of_a_failure_and_a_success(rows, tolerance):
    score, error = rows
    failed = np.flatnonzero(np.abs(error) > tolerance)
    fine = np.flatnonzero(np.abs(error) <= tolerance)
    if failed.size and fine.size:
        expected = share_of_ordered_pairs(score, failed, fine)
        assert evaluate.auc(score, error, tolerance) == pytest.approx(expected, abs=1e-12)


def test_a_row_whose_error_equals_the_tolerance_is_no_failure():
    assert evaluate.auc([1, 2, 3], [1, -1, 2], tolerance=1) == 1.0


@law
@given(decidable)
def test_c_index_is_the_share_of_ordered_pairs_with_different_errors(rows):
    score, error = rows
    size = np.abs(error)
    m = range(len(size))
    pairs = [(i, j) for i in m for j in m if size[i] > size[j]]
    expected = np.mean([(score[i] > score[j]) + (score[i] == score[j]) / 2 for i, j in pairs])
    assert evaluate.c_index(score, error) == pytest.approx(expected, abs=1e-12)


def test_c_index_of_many_rows_with_two_sizes_of_error_is_their_auc():
    generator = np.random.default_rng(0)
    failed = generator.random(100_000) < 0.3
    score = np.round(generator.normal(size=100_000) + 0.5 * failed, 2)
    assert evaluate.c_index(score, failed) == pytest.approx(roc_auc_score(failed, score), abs=1e-12)


@slow_law
@given(decidable)
def test_a_constant_score_gives_exactly_one_half(rows):
    error = rows[1]
    score = np.full(error.size, 0.1)
    curve = evaluate.auc_curve(score, error).auc
    assert evaluate.c_index(score, error) == 0.5
    assert evaluate.mean_auc(score, error) == 0.5
    assert (curve[~np.isnan(curve)] == 0.5).all()


@slow_law
@given(decidable)
def test_the_error_itself_is_a_perfect_score(rows):
    error = rows[1]
    assert evaluate.mean_auc(np.abs(error), error) == pytest.approx(1, abs=1e-12)
    assert evaluate.c_index(np.abs(error), error) == 1.0


@slow_law
@given(decidable)
def test_an_increasing_transform_of_the_score_changes_no_ranking(rows):
    score, error = rows
    for transformed in (score**3 + score, np.exp(score)):
        assert evaluate.c_index(transformed, error) == evaluate.c_index(score, error)
        assert evaluate.mean_auc(transformed, error) == evaluate.mean_auc(score, error)
        assert evaluate.aurc(transformed, np.abs(error)) == evaluate.aurc(score, np.abs(error))
        assert evaluate.augrc(transformed, np.abs(error)) == evaluate.augrc(score, np.abs(error))


@slow_law
@given(decidable)
def test_negating_the_score_gives_one_minus_the_ranking(rows):
    score, error = rows
    forward, backward = evaluate.auc_curve(score, error), evaluate.auc_curve(-score, error)
    np.testing.assert_allclose(backward.auc, 1 - forward.auc, atol=1e-12)
    assert evaluate.c_index(-score, error) == pytest.approx(1 - evaluate.c_index(score, error), abs=1e-12)


@slow_law
@given(decidable)
def test_the_sign_of_an_error_does_not_count(rows):
    score, error = rows
    assert evaluate.mean_auc(score, error) == evaluate.mean_auc(score, np.abs(error))
    assert evaluate.c_index(score, error) == evaluate.c_index(score, -error)


def test_the_default_tolerances_are_nineteen_percentiles_of_the_size_of_the_error():
    error = np.array([-1, 1])[np.arange(101) % 2] * np.arange(101)
    curve = evaluate.auc_curve(np.arange(101), error)
    np.testing.assert_allclose(curve.tolerance, np.arange(5, 100, 5), atol=1e-12)
    assert (curve.auc == 1).all()


def test_the_curve_is_the_auc_at_each_tolerance_and_nan_where_undefined():
    score, error = [3, 1, 4, 1, 5], [1, -2, 3, -4, 5]
    curve = evaluate.auc_curve(score, error, tolerances=[0.5, 1.5, 3.5, 5])
    assert np.isnan(curve.auc[[0, 3]]).all()
    assert curve.auc[1] == evaluate.auc(score, error, 1.5)
    assert curve.auc[2] == evaluate.auc(score, error, 3.5)


@slow_law
@given(decidable)
def test_mean_auc_is_the_mean_over_the_percentiles_with_rows_on_both_sides(rows):
    score, error = rows
    size = np.abs(error)
    ranking = []
    for tolerance in np.percentile(size, [5 * k for k in range(1, 20)]):
        failed, fine = np.flatnonzero(size > tolerance), np.flatnonzero(size <= tolerance)
        if failed.size and fine.size:
            ranking.append(share_of_ordered_pairs(score, failed, fine))
    assert evaluate.mean_auc(score, error) == pytest.approx(sum(ranking) / len(ranking), abs=1e-12)


# ------------------------------------------------------------------------------------------ risk and coverage


@law
@given(few)
def test_risk_coverage_is_the_mean_over_all_orders_of_the_ties(rows):
    score, loss = rows
    curve = evaluate.risk_coverage(score, loss)
    m = len(loss)
    np.testing.assert_allclose(curve.coverage, [(i + 1) / m for i in range(m)], rtol=1e-12)
    np.testing.assert_allclose(curve.risk, mean_over_tie_orders(score, loss, risks), atol=1e-12)
    expected = mean_over_tie_orders(score, loss, generalised_risks)
    np.testing.assert_allclose(curve.generalised_risk, expected, atol=1e-12)


@law
@given(few)
def test_areas_equal_their_best_and_mean_over_every_possible_order(rows):
    score, loss = rows
    orders = [loss[list(order)] for order in permutations(range(len(loss)))]
    for area, curve in ((evaluate.aurc, risks), (evaluate.augrc, generalised_risks)):
        areas = [np.mean(curve(order)) for order in orders]
        found = area(score, loss)
        assert found.value == pytest.approx(np.mean(mean_over_tie_orders(score, loss, curve)), abs=1e-12)
        assert found.oracle == pytest.approx(min(areas), abs=1e-12)
        assert found.random == pytest.approx(np.mean(areas), abs=1e-12)


@law
@given(decidable)
def test_augrc_of_failures_is_the_formula_of_traub_et_al(rows):
    score, error = rows
    failed = np.abs(error) > np.abs(error).min()
    ranking = share_of_ordered_pairs(score, np.flatnonzero(failed), np.flatnonzero(~failed))
    failing = failed.mean()
    trapezoid = (1 - ranking) * failing * (1 - failing) + failing**2 / 2
    expected = trapezoid + failing / (2 * failed.size)  # the mean of the points, not the trapezoids between
    assert evaluate.augrc(score, failed).value == pytest.approx(expected, abs=1e-12)


@law
@given(losses)
def test_no_score_has_a_smaller_area_than_the_oracle(rows):
    score, loss = rows
    for area in (evaluate.aurc, evaluate.augrc):
        found = area(score, loss)
        assert found.oracle <= found.value + 1e-12 * (1 + found.value)
        assert found.oracle <= found.random + 1e-12 * (1 + found.random)
        assert area(loss, loss).value == found.oracle


@law
@given(losses)
def test_a_constant_score_has_the_random_area(rows):
    loss = rows[1]
    for area in (evaluate.aurc, evaluate.augrc):
        found = area(np.zeros(loss.size), loss)
        assert found.value == pytest.approx(found.random, rel=1e-12)


@law
@given(losses, factor)
def test_areas_and_deferral_scale_with_the_loss(rows, c):
    score, loss = rows
    for area in (evaluate.aurc, evaluate.augrc):
        np.testing.assert_allclose(area(score, c * loss), c * np.array(area(score, loss)), rtol=1e-9, atol=1e-12)
    expected = c * evaluate.deferral(score, loss, 0.3)
    assert evaluate.deferral(score, c * loss, 0.3) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@law
@given(few, st.floats(0, 0.99))
def test_deferral_is_the_mean_loss_of_the_rows_kept(rows, fraction):
    score, loss = rows
    kept = len(loss) - round(fraction * len(loss))
    if kept:
        expected = mean_over_tie_orders(score, loss, lambda ordered: ordered[:kept].mean())
        assert evaluate.deferral(score, loss, fraction) == pytest.approx(expected, abs=1e-12)


@law
@given(losses)
def test_deferring_nothing_leaves_the_mean_loss(rows):
    score, loss = rows
    assert evaluate.deferral(score, loss, 0) == pytest.approx(loss.mean(), rel=1e-12)


@law
@given(losses, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_count(rows, random):
    score, loss = rows
    order = random.sample(range(loss.size), loss.size)
    np.testing.assert_allclose(evaluate.aurc(score[order], loss[order]), evaluate.aurc(score, loss), atol=1e-9)
    std = 1 + np.abs(score)  # ties on purpose
    found = evaluate.ence(loss[order], std[order], bins=1 + loss.size // 3)
    assert found == pytest.approx(evaluate.ence(loss, std, bins=1 + loss.size // 3), abs=1e-9)


# ------------------------------------------------------------------------------------------ distributions


@law
@given(gaussians)
def test_nll_is_minus_the_log_density(rows):
    y, mean, std = rows
    np.testing.assert_allclose(evaluate.nll(y, mean, std), -stats.norm.logpdf(y, mean, std), rtol=1e-10)


@settings(law, max_examples=50)
@given(gaussian)
def test_crps_is_the_integral_of_the_squared_difference_of_distributions(row):
    y, mean, std = row

    def integral(squared, start, stop):
        cuts = [c for c in mean + std * np.array([-3.0, 0.0, 3.0]) if start < c < stop]
        return integrate.quad(squared, start, stop, points=cuts or None, epsabs=1e-11, epsrel=1e-10, limit=200)[0]

    below = integral(lambda x: stats.norm.cdf(x, mean, std) ** 2, min(y, mean) - 10 * std, y)
    above = integral(lambda x: stats.norm.sf(x, mean, std) ** 2, y, max(y, mean) + 10 * std)
    assert evaluate.crps([y], [mean], [std])[0] == pytest.approx(below + above, rel=1e-7)


@law
@given(gaussians, factor)
def test_scores_of_a_distribution_follow_the_unit_of_y(rows, c):
    y, mean, std = rows
    np.testing.assert_allclose(
        evaluate.crps(c * y, c * mean, c * std), c * evaluate.crps(y, mean, std), rtol=1e-9, atol=1e-9
    )
    shifted = evaluate.nll(y, mean, std) + np.log(c)
    np.testing.assert_allclose(evaluate.nll(c * y, c * mean, c * std), shifted, rtol=1e-9, atol=1e-9)
    scaled = evaluate.ence(c * (y - mean), c * std, bins=1)
    assert scaled == pytest.approx(evaluate.ence(y - mean, std, bins=1), rel=1e-9, abs=1e-12)


@law
@given(gaussians, st.integers(1, 25))
def test_ence_is_the_loop_over_bins_written_out(rows, bins):
    y, mean, std = rows
    std = std + np.arange(std.size) * 1e-3
    if bins > std.size or np.unique(std).size < std.size:
        return
    error, m, start, parts = y - mean, std.size, 0, []
    order = sorted(range(m), key=lambda i: std[i])
    for b in range(bins):
        stop = start + m // bins + (b < m % bins)
        rmv = np.linalg.norm(std[order[start:stop]]) / np.sqrt(stop - start)
        rmse = np.linalg.norm(error[order[start:stop]]) / np.sqrt(stop - start)
        parts.append(abs(rmv - rmse) / rmv)
        start = stop
    assert evaluate.ence(error, std, bins) == pytest.approx(sum(parts) / bins, rel=1e-9, abs=1e-12)


def test_ence_is_zero_when_every_error_has_the_size_of_its_std():
    std = np.linspace(1, 5, 40)
    assert evaluate.ence(std * np.where(np.arange(40) % 2, 1, -1), std) == pytest.approx(0, abs=1e-14)


def test_ence_of_a_constant_std_does_not_depend_on_the_number_of_bins():
    error = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    expected = abs(2 - np.sqrt(np.mean(error**2))) / 2
    assert evaluate.ence(error, np.full(6, 2.0), bins=3) == pytest.approx(expected, rel=1e-12)


@law
@given(gaussians, st.lists(level, min_size=1, max_size=5))
def test_calibration_curve_counts_the_rows_inside_the_gaussian_interval(rows, levels):
    y, mean, std = rows
    curve = evaluate.calibration_curve(y, mean, std, levels)
    for nominal, observed in zip(levels, curve.observed, strict=True):
        low, high = stats.norm.interval(nominal, mean, std)
        sure = np.minimum(np.abs(y - low), np.abs(y - high)) > 1e-9  # a row on the edge may fall either way
        inside = ((low <= y) & (y <= high) & sure).mean()
        assert inside - 1e-12 <= observed <= inside + (~sure).mean() + 1e-12
    np.testing.assert_array_equal(curve.nominal, levels)


def test_gaussian_quantiles_are_calibrated_at_the_nineteen_default_levels():
    m = 1000
    y = 3 + 2 * stats.norm.ppf((np.arange(m) + 0.5) / m)
    curve = evaluate.calibration_curve(y, np.full(m, 3.0), np.full(m, 2.0))
    np.testing.assert_allclose(curve.nominal, np.linspace(0.05, 0.95, 19), rtol=1e-12)
    np.testing.assert_allclose(curve.observed, curve.nominal, atol=2 / m)


# ------------------------------------------------------------------------------------------ intervals


@law
@given(intervals, level)
def test_interval_score_is_the_scaled_sum_of_two_pinball_losses(rows, nominal):
    y, lower, upper = rows
    alpha = 1 - nominal
    expected = [
        (mean_pinball_loss([a], [b], alpha=alpha / 2) + mean_pinball_loss([a], [c], alpha=1 - alpha / 2)) * 2 / alpha
        for a, b, c in zip(y, lower, upper, strict=True)
    ]
    np.testing.assert_allclose(evaluate.interval_score(y, lower, upper, nominal), expected, rtol=1e-8, atol=1e-9)


@law
@given(intervals, level, factor)
def test_interval_score_follows_the_unit_of_y(rows, nominal, c):
    y, lower, upper = rows
    scaled = evaluate.interval_score(c * y, c * lower, c * upper, nominal)
    expected = c * evaluate.interval_score(y, lower, upper, nominal)
    np.testing.assert_allclose(scaled, expected, rtol=1e-9, atol=1e-9)


@law
@given(st.integers(1, 300), st.data(), st.floats(0.5, 0.999))
def test_coverage_limits_are_those_of_scipy_and_leave_the_stated_binomial_tails(n, data, confidence):
    inside = data.draw(st.integers(0, n))
    y = np.where(np.arange(n) < inside, 0.0, 2.0)
    found = evaluate.coverage(y, np.full(n, -1.0), np.full(n, 1.0), confidence)
    low, high = stats.binomtest(inside, n).proportion_ci(confidence, method="exact")
    tail = (1 - confidence) / 2
    assert found == pytest.approx((inside / n, low, high, n), rel=1e-8, abs=1e-12)
    assert inside == 0 or stats.binom.sf(inside - 1, n, found.low) == pytest.approx(tail, rel=1e-6)
    assert inside == n or stats.binom.cdf(inside, n, found.high) == pytest.approx(tail, rel=1e-6)


def test_coverage_asks_for_95_per_cent_confidence_unless_told():
    y, lower, upper = [0.0, 0.5, 3.0], [-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]
    assert evaluate.coverage(y, lower, upper) == evaluate.coverage(y, lower, upper, confidence=0.95)


def test_the_ends_of_an_interval_belong_to_it():
    assert evaluate.coverage([0, 1, 2], [0, 0, 0], [1, 1, 1]).value == pytest.approx(2 / 3)
    assert evaluate.interval_score([0, 1], [0, 0], [1, 1], level=0.9).tolist() == [1, 1]


def test_an_interval_without_an_end_covers_everything_on_that_side():
    y, lower, upper = [5.0, -5.0, 5.0, 0.0], [-np.inf, -np.inf, 0.0, 1.0], [np.inf, -6.0, np.inf, np.inf]
    found = [evaluate.coverage([a], [b], [c]).value for a, b, c in zip(y, lower, upper, strict=True)]
    assert found == [1, 0, 1, 0]
    assert evaluate.coverage(y, lower, upper).value == 0.5


# ------------------------------------------------------------------------------------------ bad inputs

one, two = [1.0], [1.0, 2.0]

bad_inputs = {
    "text": (lambda: evaluate.c_index(["high", "low"], two), "score cannot be read as numbers"),
    "a matrix": (
        lambda: evaluate.c_index(two, [[1.0], [2.0]]),
        r"error has shape \(2, 1\), expected one value",
    ),
    "a scalar": (lambda: evaluate.crps(1.0, one, one), r"y has shape \(\), expected one value per row"),
    "no rows": (lambda: evaluate.aurc([], []), "score has no rows, expected at least one"),
    "unequal lengths": (lambda: evaluate.crps(two, two, one), "std has 1"),
    "nan": (
        lambda: evaluate.aurc(two, [1.0, np.nan]),
        r"loss is nan at row 1 \(1 of 2 rows\), expected a finite",
    ),
    "infinity": (
        lambda: evaluate.interval_score(one, [-np.inf], one, 0.9),
        "lower is -inf at row 0 .* a finite number;",
    ),
    "an infinite target": (lambda: evaluate.coverage([np.inf], one, [np.inf]), "y is inf at row 0"),
    "a limit at the wrong end": (
        lambda: evaluate.coverage(one, [np.inf], [np.inf]),
        "lower is inf at row 0 .* a finite number or -inf",
    ),
    "another limit at the wrong end": (
        lambda: evaluate.coverage(one, [-np.inf], [-np.inf]),
        "upper is -inf at row 0 .* a finite number or inf",
    ),
    "a limit nan": (lambda: evaluate.coverage(one, [np.nan], [np.inf]), "lower is nan at row 0"),
    "too few degrees": (lambda: evaluate.nll(two, two, [1.0, 1.0], degrees=2.0), "degrees is 2, expected above 2"),
    "too few degrees of a curve": (lambda: evaluate.calibration_curve(one, one, one, degrees=1.0), "degrees is 1, exp"),
    "a zero std": (lambda: evaluate.nll(two, two, [1.0, 0.0]), "std is 0"),
    "a negative std": (lambda: evaluate.ence(two, [-1.0, 1.0], bins=1), "std is -1 at row 0 .* above zero"),
    "a negative loss": (
        lambda: evaluate.risk_coverage(two, [1.0, -2.0]),
        "loss is -2 at row 1 .* at least zero",
    ),
    "crossed limits": (lambda: evaluate.coverage(one, [2.0], [1.0]), "lower is 2 at row 0 .* at most upper"),
    "level one": (
        lambda: evaluate.interval_score(one, one, one, 1),
        "level is 1",
    ),
    "level in per cent": (lambda: evaluate.interval_score(one, one, one, 90), "level is 90"),
    "confidence zero": (
        lambda: evaluate.coverage(one, one, one, 0),
        "confidence is 0, expected strictly between",
    ),
    "a level nan": (lambda: evaluate.calibration_curve(one, one, one, [np.nan]), "levels is nan at row 0"),
    "a level of zero": (
        lambda: evaluate.calibration_curve(one, one, one, [0.5, 0]),
        "levels is 0, expected strictly",
    ),
    "no failure": (
        lambda: evaluate.auc(two, two, 2),
        "0 of 2 rows have |error| above the tolerance 2, .* 1 to 2",
    ),
    "only failures": (
        lambda: evaluate.auc(two, two, 0.5),
        "2 of 2 rows have |error| above the tolerance 0.5",
    ),
    "a tolerance nan": (lambda: evaluate.auc(two, two, np.nan), "above the tolerance nan"),
    "an infinite tolerance": (lambda: evaluate.auc_curve(two, two, [np.inf]), "tolerances is inf at row 0"),
    "equal errors, mean AUC": (lambda: evaluate.mean_auc(two, [3, -3]), "no percentile of |error| has rows on both"),
    "one smaller error": (lambda: evaluate.mean_auc(range(25), [0] + [3] * 24), "3"),
    "equal errors, C-index": (lambda: evaluate.c_index(two, [3, -3]), "all 2 rows have |error| 3"),
    "everything deferred": (
        lambda: evaluate.deferral(two, two, 0.9),
        "fraction is 0.9 of 2 rows, .* at most 0.5",
    ),
    "a negative fraction": (lambda: evaluate.deferral(two, two, -0.1), "fraction is -0.1"),
    "a fraction above one": (lambda: evaluate.deferral(two, two, 10), "fraction is 10 of 2 rows"),
    "no bins": (lambda: evaluate.ence(two, two, bins=0), "bins is 0"),
    "more bins than rows": (
        lambda: evaluate.ence(two, two),
        "bins is 10, expected 1 to the number of rows, 2",
    ),
}


@pytest.mark.parametrize(("call", "message"), bad_inputs.values(), ids=bad_inputs.keys())
def test_a_bad_input_is_refused_by_name_with_advice(call, message):
    with pytest.raises(InputError, match=message.replace("|", r"\|")) as refusal:
        call()
    assert ";" in str(refusal.value)  # what was found and wanted; what to do


@pytest.mark.parametrize("degrees", [2.5, 4.0, 30.0])
def test_student_scores_agree_with_numerical_integration(degrees):
    mean, std, y = 1.0, 2.0, 2.7
    law = stats.t(degrees, mean, std * np.sqrt((degrees - 2) / degrees))
    assert law.std() == pytest.approx(std)
    below = integrate.quad(lambda x: law.cdf(x) ** 2, -np.inf, y)[0]
    above = integrate.quad(lambda x: law.sf(x) ** 2, y, np.inf)[0]
    np.testing.assert_allclose(evaluate.crps([y], [mean], [std], degrees), below + above, rtol=1e-6)
    np.testing.assert_allclose(evaluate.nll([y], [mean], [std], degrees), -law.logpdf(y), rtol=1e-12)


@pytest.mark.parametrize("degrees", [2.5, 4.0, 30.0])
def test_student_quantiles_of_unit_std_are_calibrated_under_their_own_degrees_only(degrees):
    m = 1000
    y = stats.t(degrees, scale=np.sqrt((degrees - 2) / degrees)).ppf((np.arange(m) + 0.5) / m)
    curve = evaluate.calibration_curve(y, np.zeros(m), np.ones(m), degrees=degrees)
    np.testing.assert_allclose(curve.observed, curve.nominal, atol=2 / m)
    gaussian = evaluate.calibration_curve(y, np.zeros(m), np.ones(m)).observed
    assert np.abs(gaussian - curve.nominal).max() > 3 / m
