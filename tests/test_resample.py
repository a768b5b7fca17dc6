"""Resamplers: mean one, the exact variance, and the same by group."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles
from cases import RESAMPLERS
from rue.core.concepts import WeightCovariance
from rue.core.resample import Jackknife, Multinomial, generator, spread, variance

every_resampler = pytest.mark.parametrize("resampler", RESAMPLERS, ids=repr)


@every_resampler
def test_weights_have_mean_one_and_the_stated_covariance(resampler):
    """60 000 draws of 5 units: every entry within 5 standard errors (0.02 on a variance of about one)."""
    units = 5
    weights = resampler.draw(units, 60_000, generator(0)).numpy()
    scale, shared = resampler.covariance(units)
    expected = scale * (np.eye(units) - shared / units)
    found = np.cov(weights.T) * resampler.member_factor(units)
    tolerance = 1e-9 if isinstance(resampler, Jackknife) else 0.035
    np.testing.assert_allclose(weights.mean(0), 1, atol=max(tolerance, 0.025))
    np.testing.assert_allclose(found, expected, atol=tolerance)


@every_resampler
@given(seed=st.integers(0, 2**31), units=st.integers(2, 30))
def test_weights_are_never_negative_and_sum_to_the_number_of_units_unless_independent(resampler, seed, units):
    weights = resampler.draw(units, 4, generator(seed))
    assert bool((weights >= 0).all())
    if resampler.covariance(units).shared == 1:
        torch.testing.assert_close(weights.sum(1), torch.full((len(weights),), float(units), dtype=torch.float64))


@every_resampler
@given(values=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12))
def test_the_exact_variance_is_the_quadratic_form_of_the_covariance(resampler, values):
    b = np.array(values)
    scale, shared = resampler.covariance(len(b))
    expected = b @ (scale * (np.eye(len(b)) - shared / len(b))) @ b
    assert float(variance(resampler, torch.tensor(b))) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(values=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12))
def test_the_jackknifes_variance_is_that_of_explicit_deletions(values):
    b = np.array(values)
    expected = oracles.jackknife_variance_of(lambda w: b @ w, len(b))
    assert float(variance(Jackknife(), torch.tensor(b))) == pytest.approx(expected, rel=1e-8, abs=1e-6)


@given(values=st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=12))
def test_all_jackknife_members_times_their_factor_give_its_variance(values):
    b = torch.tensor(values, dtype=torch.float64)
    statistics = Jackknife().draw(len(b), len(b), generator(0)) @ b
    found = statistics.var(correction=1) * Jackknife().member_factor(len(b))
    assert float(found) == pytest.approx(float(variance(Jackknife(), b)), rel=1e-8, abs=1e-6)


def test_multinomial_weights_are_the_classical_bootstraps_over_all_resamples():
    """Three units: all 27 resamples, enumerated."""
    b = np.array([1.0, 4.0, -2.0])
    resamples = np.stack(np.meshgrid(*[range(3)] * 3), -1).reshape(-1, 3)
    statistics = b[resamples].sum(1)
    assert float(variance(Multinomial(), torch.tensor(b))) == pytest.approx(statistics.var(), rel=1e-12)


def test_the_jackknife_draws_no_more_members_than_there_are_units():
    assert Jackknife().draw(6, 100, generator(0)).shape == (6, 6)
    assert Jackknife().draw(6, 4, generator(0)).shape == (4, 6)


class Partly:
    """Weights of which a part is shared."""

    def __init__(self, shared):
        self.shared = shared

    def covariance(self, units):
        return WeightCovariance(scale=2.0 + units, shared=self.shared)

    def __repr__(self):
        return f"Partly({self.shared})"


@pytest.mark.parametrize("resampler", [*RESAMPLERS, Partly(0.3), Partly(0.99)], ids=repr)
@pytest.mark.parametrize("units", [2, 7])
def test_every_units_part_of_the_variance_comes_from_the_positive_root_of_the_covariance(resampler, units):
    """Explanations show these parts; of all roots, only the positive one leaves independent units to themselves."""
    scale, shared = resampler.covariance(units)
    values, vectors = np.linalg.eigh(scale * (np.eye(units) - shared / units))
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    b = np.random.default_rng(0).normal(loc=3.0, size=(2, units))
    np.testing.assert_allclose(spread(resampler, torch.from_numpy(b)), b @ root, atol=1e-6)
