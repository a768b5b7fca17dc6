"""Means of a report with their intervals, against scipy."""

import numpy as np
import pytest
from scipy import stats

from rue.reports import estimates


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(size=7)
    low, high = stats.t.interval(0.95, 6, loc=values.mean(), scale=stats.sem(values))
    assert estimates.mean(values) == pytest.approx((values.mean(), low, high, 7))
    positive = estimates.mean([0.1, 5.0, 0.2])  # a mean of what is never negative is not negative either
    assert positive.low == 0
    assert positive.high == pytest.approx(stats.t.interval(0.95, 2, 5.3 / 3, stats.sem([0.1, 5.0, 0.2]))[1])


def test_a_resampled_interval_is_the_middle_95_per_cent():
    drawn = np.append(np.arange(201.0), np.nan)
    assert estimates.resampled(90.0, drawn, 10) == (90.0, 5.0, 195.0, 10)
    assert estimates.resampled(90.0, drawn, 9) == (90.0, None, None, 9)
