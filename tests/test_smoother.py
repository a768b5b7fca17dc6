"""The parts of a calibrated variance: smoother, ranges of the training rows, forest and weights."""

from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import oracles
from rue.calibrate.array_forest import ArrayForest
from rue.calibrate.error_model import error_covariance, error_model
from rue.calibrate.scarcity import FEATURES, support
from rue.calibrate.smoother import POWERS, similarity, smooth
from rue.calibrate.variance import fit_weights, negative_log_density

seed = st.integers(0, 10_000)


def rows_of(seed, n=40, p=3):
    return np.random.default_rng(seed).normal(size=(n, p))


# Smoother


@given(seed, st.sampled_from([*POWERS, 3, 5]))
def test_a_smoothed_value_is_the_mean_by_powers_of_similarity_and_weight(seed, power):
    generator = np.random.default_rng(seed)
    kappa, values, weight = generator.uniform(size=(6, 30)), generator.normal(size=(30, 2)), generator.uniform(size=30)
    found = smooth(torch.tensor(kappa), torch.tensor(values), torch.tensor(weight), (power,))[0]
    for j in range(2):
        np.testing.assert_allclose(found[:, j], oracles.smoothed(kappa, values[:, j], power, weight), rtol=1e-9)


def test_where_nothing_is_similar_all_rows_count_alike():
    values, weight = torch.arange(10.0).double()[:, None], torch.ones(10, dtype=torch.float64)
    found = smooth(torch.zeros(1, 10, dtype=torch.float64), values, weight, (1, 8))
    assert found.flatten().tolist() == [4.5, 4.5]


@given(seed, st.sampled_from([1, 2]))
def test_similarity_is_the_squared_cosine_between_gradients(seed, k):
    generator = np.random.default_rng(seed)
    J, others = generator.normal(size=(3, k, 4)), generator.normal(size=(5, k, 4))
    J[2], others[4] = 0, 0  # nothing moves their outputs: they are like no row, not like every row
    square = (np.einsum("ckd,njd->cnkj", J, others) ** 2).sum((2, 3))
    size, other = (np.linalg.norm(rows @ rows.swapaxes(1, 2), axis=(1, 2)) for rows in (J, others))
    same = np.arange(3)[:, None] == np.arange(5)
    with np.errstate(invalid="ignore"):
        wanted = np.nan_to_num(square / np.outer(size, other), nan=0.0)
    found = [torch.tensor(values) for values in (square, size, other)]
    np.testing.assert_allclose(similarity(*found), wanted, rtol=1e-12)
    np.testing.assert_allclose(similarity(*found, torch.tensor(same)), np.where(same, 0, wanted), rtol=1e-12)


# Ranges of the training rows


@given(seed, st.integers(40, 60))  # with more columns for each row, they are judged together
def test_a_value_is_apart_where_it_is_further_from_all_rows_than_they_are_from_each_other(seed, n):
    points, new = rows_of(seed, n, 2), 2 * rows_of(seed + 1, 20, 2)
    found = support(torch.zeros(n), torch.ones(n), points, torch.arange(n))
    nearest = np.sort(np.abs(points[:, None] - points[None]), axis=1)[:, 1]
    allowed = np.quantile(nearest, 1 - 0.01 / 2, axis=0)
    distance = np.abs(new[:, None] - points[None]).min(axis=1)
    alike = torch.ones(20, n)
    np.testing.assert_array_equal(found.unlike(alike, new), (distance > allowed + 1e-5).any(axis=1))
    assert not found.unlike(torch.ones(n, n), points).any()


def test_the_ranges_are_those_that_one_in_a_hundred_leaves():
    found = support(torch.linspace(0, 1, 1001), 1 - torch.linspace(0, 0.5, 1001), np.zeros((4, 2)), torch.arange(4))
    assert found.leverage == pytest.approx(0.99, abs=1e-6)
    assert found.dissimilarity == pytest.approx(0.495, abs=1e-6)
    assert found.beyond(torch.tensor([0.98, 0.995])).tolist() == [False, True]
    assert found.unlike(torch.tensor([[0.1, 0.51], [0.1, 0.50]]), np.zeros((2, 2))).tolist() == [False, True]


def test_rows_of_a_group_that_share_their_values_do_not_make_every_other_value_strange():
    values = np.repeat(np.linspace(0, 1, 20), 5)[:, None]
    unit, alike = torch.arange(20).repeat_interleave(5), torch.ones(1, 100)
    grouped = support(torch.zeros(100), torch.ones(100), values, unit)
    loose = support(torch.zeros(100), torch.ones(100), values, torch.arange(100))
    between = values[:1] + 0.5 / 19
    assert not grouped.unlike(alike, between).any()
    assert loose.unlike(alike, between).all()
    assert grouped.unlike(alike, values[-1:] + 0.2).all()


def test_single_features_are_not_looked_at_where_there_are_thousands():
    points = np.zeros((5, FEATURES + 1))
    many = support(torch.zeros(5), torch.ones(5), points, torch.arange(5))
    assert many.values is None
    assert not many.unlike(torch.ones(1, 5), points[:1] + 9).any()
    few = support(torch.zeros(5), torch.ones(5), points[:, 1:], torch.arange(5))
    assert few.unlike(torch.ones(1, 5), points[:1, 1:] + 9).all()


# The forest


@pytest.fixture
def few_trees(monkeypatch):
    monkeypatch.setattr("rue.calibrate.error_model.TREES", 40)


def of_trees(found):
    """What trees said of a row; one factor of all rows, as the noise is, makes squares right on average."""
    return found.out_of_bag / found.scale * found.unit**2


def predictions_of(points, outputs=1):
    """A column of the points that has other units than the errors, for each output."""
    return 50 * points[:, -1:] * np.ones(outputs)


def test_what_trees_say_of_a_row_they_never_saw_does_not_depend_on_its_error(few_trees):
    points, errors, unit = rows_of(0, 120), rows_of(1, 120, 1), np.arange(120)
    poisoned = errors.copy()
    poisoned[17] += 1000
    one, other = (
        of_trees(error_model(points, predictions_of(points), e, np.ones(120), unit, seed=0)) for e in (errors, poisoned)
    )
    assert other[17] == pytest.approx(one[17], rel=1e-9)
    assert (np.delete(other, 17) > 5 * np.delete(one, 17)).any()


def test_groups_leave_the_forest_together(few_trees):
    points, errors, group = rows_of(0, 120), rows_of(1, 120, 2), np.arange(120) % 12
    own = group == 3
    poisoned = errors + 1000.0 * own[:, None]
    said = predictions_of(points, 2)
    one, other = (of_trees(error_model(points, said, e, np.ones(120), group, seed=0)) for e in (errors, poisoned))
    np.testing.assert_allclose(other[own], one[own], rtol=1e-9)
    assert (other[~own] > 5 * one[~own]).any()


def test_a_row_without_weight_teaches_the_forest_nothing(few_trees):
    points, errors = rows_of(0, 120), rows_of(1, 120, 1)
    weight = np.ones(120)
    weight[::4] = 0
    poisoned = np.where(weight[:, None] > 0, errors, 1e6)
    said = predictions_of(points)
    one, other = (error_model(points, said, e, weight, np.arange(120), seed=0) for e in (errors, poisoned))
    np.testing.assert_allclose(other(points, said), one(points, said), rtol=1e-9)
    assert other.out_of_bag.max() < 100


def test_the_forest_finds_where_errors_are_large(few_trees):
    points = rows_of(0, 400)
    errors = np.exp(points[:, :1]) * rows_of(1, 400, 1)
    found = error_model(points, predictions_of(points), errors, np.ones(400), np.arange(400), seed=0)
    assert stats.spearmanr(found.out_of_bag[:, 0], points[:, 0]).statistic > 0.7
    new = rows_of(2, 200)
    expected = found(new, predictions_of(new))
    assert stats.spearmanr(expected[:, 0], new[:, 0]).statistic > 0.7
    assert (expected > 0).all()


@given(seed, st.sampled_from([1e-12, 1e-6, 1.0, 1e6, 1e12]))
@settings(max_examples=5)
def test_expected_squares_are_right_on_average_whatever_the_sign_and_the_unit(seed, unit):
    points, errors, weight = rows_of(seed, 120), rows_of(seed + 1, 120, 2), np.random.default_rng(seed).random(120)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rue.calibrate.error_model.TREES", 40)
        said = predictions_of(points, 2)
        one = error_model(points, said, errors, weight, np.arange(120), seed=0)
        other = error_model(points, unit * said, -unit * errors, weight, np.arange(120), seed=0)
    wanted = np.average(errors**2, axis=0, weights=weight)
    np.testing.assert_allclose(np.average(one.out_of_bag, axis=0, weights=weight), wanted, rtol=1e-9)
    np.testing.assert_allclose(other.out_of_bag, unit**2 * one.out_of_bag, rtol=1e-6)


def test_a_quick_forest_is_smaller_only_where_there_are_many_rows(monkeypatch):
    points, errors, unit = rows_of(0, 60), rows_of(1, 60, 1), np.arange(60)

    def grown(few, least, quick=True):
        for name, value in (("TREES", 20), ("QUICK", few), ("FEWEST", least)):
            monkeypatch.setattr(f"rue.calibrate.error_model.{name}", value)
        return error_model(points, predictions_of(points), errors, np.ones(60), unit, seed=0, quick=quick)

    forests, copied = [], ArrayForest.of
    monkeypatch.setattr(ArrayForest, "of", lambda forest: forests.append(forest) or copied(forest))
    whole = grown(60, 7, quick=False)
    for few in (60, 100):
        np.testing.assert_array_equal(grown(few, 7).out_of_bag, whole.out_of_bag)
    assert {len(drawn) for drawn in forests[0].estimators_samples_} == {60}
    for least, trees in ((7, 10), (13, 13)):  # half the trees for twice the rows
        assert len(grown(30, least).forest.roots) == trees
        assert {len(drawn) for drawn in forests[-1].estimators_samples_} == {30}


@given(seed)
def test_errors_of_several_outputs_have_their_own_variances_and_the_correlations_of_the_noise(seed):
    generator = np.random.default_rng(seed)
    noise, expected = np.cov(generator.normal(size=(3, 9))), generator.uniform(size=(4, 3))
    noise[:, 2] = noise[2] = 0  # an output that is never missed
    expected[:, 2] = 0
    found = error_covariance(torch.tensor(expected), torch.tensor(noise)).numpy()
    correlation = noise[0, 1] / np.sqrt(noise[0, 0] * noise[1, 1])
    for covariance, (one, other, _) in zip(found, expected, strict=True):
        across = correlation * np.sqrt(one * other)
        np.testing.assert_allclose(covariance, [[one, across, 0], [across, other, 0], [0, 0, 0]], rtol=1e-12)


# Weights


def covariances(seed, t=3, n=60, k=2):
    """Random positive definite terms, and residuals drawn under some weights of them."""
    generator = np.random.default_rng(seed)
    roots = generator.normal(size=(t, n, k, k))
    terms = roots @ roots.swapaxes(-1, -2) + 0.1 * np.eye(k)
    total = np.einsum("t,tnij->nij", generator.uniform(0, 2, size=t), terms)
    return terms, np.einsum("nij,nj->ni", np.linalg.cholesky(total), generator.normal(size=(n, k)))


@given(seed, st.sampled_from([1, 2]), st.sampled_from([inf, 4.0]))
def test_no_step_away_from_the_fitted_weights_is_better(seed, k, degrees):
    terms, residual = covariances(seed, k=k)
    weight = np.random.default_rng(seed).uniform(0.5, 2, size=60)
    least = (0.0, 0.3, 0.0)
    fitted = fit_weights(terms, residual, weight, least, (degrees,))

    def nll(weights):
        covariance = np.einsum("t,tnij->nij", weights, terms)
        if degrees == inf:
            each = [stats.multivariate_normal.logpdf(e, cov=c) for e, c in zip(residual, covariance, strict=True)]
        else:
            shape = covariance * (degrees - 2) / degrees
            each = [stats.multivariate_t.logpdf(e, shape=c, df=degrees) for e, c in zip(residual, shape, strict=True)]
        return -np.average(each, weights=weight)

    assert fitted.nll == pytest.approx(nll(fitted.values), abs=1e-6)
    assert (fitted.values >= np.array(least) - 1e-12).all()
    for term in range(3):
        for step in (-0.02, 0.02):
            other = fitted.values.copy()
            other[term] = max(other[term] + step, least[term])
            assert fitted.nll <= nll(other) + 1e-6


@given(seed, st.floats(1e-4, 1e4), st.floats(1e-4, 1e4))
def test_weights_follow_the_units_of_terms_and_residuals(seed, unit, size):
    terms, residual = covariances(seed)
    one = fit_weights(terms, residual, np.ones(60), (0, 0, 0))
    scaled = terms * np.array([size, 1, 1])[:, None, None, None] * unit**2
    other = fit_weights(scaled, unit * residual, np.ones(60), (0, 0, 0))
    np.testing.assert_allclose(other.values * [size, 1, 1], one.values, rtol=1e-2, atol=1e-3)
    assert other.nll == pytest.approx(one.nll + 2 * np.log(unit), abs=1e-5)


@given(seed, st.sampled_from([inf, 3.0, 20.0]))
def test_densities_are_scipys(seed, degrees):
    terms, residual = covariances(seed, n=5)
    found = negative_log_density(residual, terms[0], degrees)
    for value, e, c in zip(found, residual, terms[0], strict=True):
        if degrees == inf:
            wanted = stats.multivariate_normal.logpdf(e, cov=c)
        else:
            wanted = stats.multivariate_t.logpdf(e, shape=c * (degrees - 2) / degrees, df=degrees)
        assert value == pytest.approx(-wanted, rel=1e-9)


def test_degrees_of_freedom_are_those_that_are_most_likely():
    generator = np.random.default_rng(0)
    ones = np.ones((1, 2000, 1, 1))
    for draw, low, high in (
        (generator.standard_t(4, size=(2000, 1)), 3, 7),
        (generator.normal(size=(2000, 1)), 20, inf),
    ):
        fitted = fit_weights(ones, draw, np.ones(2000), (0.0,), (3.0, 4.0, 5.0, 7.0, 10.0, 20.0, inf))
        assert low <= fitted.degrees <= high


def test_residuals_that_are_all_zero_still_have_a_variance():
    fitted = fit_weights(np.ones((2, 10, 1, 1)), np.zeros((10, 1)), np.ones(10), (0.0, 1.0))
    assert np.isfinite(fitted.values).all()
    assert fitted.values[1] >= 1
