"""An auditor inside MAPIE and crepes, as it is: both packages run here, nothing is mocked or wrapped.

Rows are simulated around a line that the network fits well, with noise that grows away from zero. Calibration has 999
rows: at level 0.75 both packages find the conformal rank, 750, without rounding.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from crepes import WrapRegressor
from crepes.extras import DifficultyEstimator, MondrianCategorizer
from mapie.conformity_scores import StdConformityScore
from mapie.regression import SplitConformalRegressor
from scipy.stats import betabinom, spearmanr
from torch import nn

import rue
from rue.core.errors import InputError

METHODS = {
    "LinearRUE": rue.LinearRUE(),
    "RUE": rue.RUE(members=50, seed=0),
    "Laplace": rue.Laplace(linearised=True),
    "NearestNeighbours": rue.NearestNeighbours(neighbours=30),
}


class Problem(NamedTuple):
    """A trained model with its rows, rows to calibrate on and rows to judge by."""

    model: rue.Model
    train: tuple[np.ndarray, np.ndarray]
    calibration: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def problem() -> Problem:
    generator = np.random.default_rng(0)
    train, calibration, test = (_rows(n, generator) for n in (300, 999, 1000))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(1, 8), nn.Softplus(), nn.Linear(8, 1)).double()
    X, y = (torch.tensor(part) for part in train)
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def objective():
        optimiser.zero_grad()
        penalty = sum(parameter.square().sum() for parameter in net.parameters())
        loss = 0.5 * (net(X)[:, 0] - y).square().sum() + 0.5 * penalty
        loss.backward()
        return loss

    optimiser.step(objective)
    return Problem(rue.wrap(net, loss="squared_error", l2=1.0), train, calibration, test)


@pytest.fixture(params=METHODS.values(), ids=METHODS)
def auditor(request, problem) -> rue.Auditor:
    return request.param.fit(problem.model, problem.train)


@pytest.mark.parametrize("library", ["mapie", "crepes"])
def test_intervals_are_the_prediction_and_the_conformal_quantile_of_std(library, auditor, problem):
    lower, upper = INTERVALS[library](auditor, problem.calibration, problem.test[0], 0.75)
    prediction, std = auditor.predict(problem.test[0], return_std=True)
    quantile = _scores(auditor, *problem.calibration)[750 - 1]  # the ⌈0.75 · 1000⌉ smallest
    np.testing.assert_allclose(lower, prediction - quantile * std, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(upper, prediction + quantile * std, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("library", ["mapie", "crepes"])
def test_coverage_of_new_rows_is_what_exchangeable_rows_give(library, auditor, problem):
    """Covered rows are beta-binomial: a false alarm in a thousand, had the seed not been fixed.

    The rank is 900; crepes rounds to 901, a thousandth that the bounds do not notice.
    """
    X, y = problem.test
    lower, upper = INTERVALS[library](auditor, problem.calibration, X, 0.9)
    least, most = betabinom(len(y), 900, 100).ppf([0.0005, 0.9995])
    assert least <= np.count_nonzero((lower <= y) & (y <= upper)) <= most


@pytest.mark.parametrize("library", ["mapie", "crepes"])
def test_widths_follow_the_noise_where_the_method_sees_it(library, problem):
    X = problem.test[0]
    local, everywhere = (
        np.subtract(*INTERVALS[library](method.fit(problem.model, problem.train), problem.calibration, X, 0.9)[::-1])
        for method in (METHODS["NearestNeighbours"], rue.Homoscedastic())
    )
    assert spearmanr(local, np.abs(X[:, 0])).statistic > 0.8
    np.testing.assert_allclose(everywhere, everywhere[0])


@pytest.mark.parametrize(("library", "n"), [("mapie", 199), ("mapie", 200), ("crepes", 199), ("crepes", 200)])
def test_each_bound_is_at_the_conformal_rank_or_one_beside_it(library, n, problem):
    """docs/ecosystem.md says which: MAPIE's lower bound may be one rank short, crepes' bounds one rank long."""
    auditor = METHODS["LinearRUE"].fit(problem.model, problem.train)
    calibration = problem.calibration[0][:n], problem.calibration[1][:n]
    lower, upper = INTERVALS[library](auditor, calibration, problem.test[0], 0.9)
    prediction, std = auditor.predict(problem.test[0], return_std=True)
    scores, rank = _scores(auditor, *calibration), int(np.ceil(9 * (n + 1) / 10))
    below, above = (prediction - lower) / std, (upper - prediction) / std
    allowed = {"mapie": ([rank - 1, rank], [rank]), "crepes": ([rank, rank + 1], [rank, rank + 1])}[library]
    for found, ranks in zip((below, above), allowed, strict=True):
        assert np.ptp(found) < 1e-10
        assert np.min(np.abs(scores[np.subtract(ranks, 1)] - found[0])) < 1e-10


def test_mapie_takes_data_frames_and_several_levels(problem):
    auditor = METHODS["LinearRUE"].fit(problem.model, problem.train)
    X_calibration, y_calibration = problem.calibration
    regressor = SplitConformalRegressor(auditor, confidence_level=[0.5, 0.9], conformity_score=StdConformityScore())
    regressor.conformalize(pd.DataFrame(X_calibration, columns=["x"]), pd.Series(y_calibration))
    points, intervals = regressor.predict_interval(pd.DataFrame(problem.test[0], columns=["x"]))
    np.testing.assert_array_equal(points, auditor.predict(problem.test[0]))
    assert intervals.shape == (1000, 2, 2)
    for position, level in enumerate((0.5, 0.9)):
        lower, upper = INTERVALS["mapie"](auditor, problem.calibration, problem.test[0], level)
        np.testing.assert_allclose(intervals[:, :, position], np.stack([lower, upper], axis=1), rtol=1e-12)


def test_crepes_calibrates_within_classes_of_the_score(problem):
    """Five classes of 999 rows: coverage within each, a false alarm in a thousand over all five."""
    auditor = METHODS["NearestNeighbours"].fit(problem.model, problem.train)
    X, y = problem.test
    classes = MondrianCategorizer().fit(problem.calibration[0], f=lambda rows: auditor.audit(rows).score, no_bins=5)
    regressor = WrapRegressor(auditor)
    regressor.calibrate(*problem.calibration, mc=classes)
    lower, upper = regressor.predict_int(X, confidence=0.9).T
    member, sizes = classes.apply(X), np.bincount(classes.apply(problem.calibration[0]))
    for index, size in enumerate(sizes):
        covered = ((lower <= y) & (y <= upper))[member == index]
        rank = size + 1 - int((1 - 0.9) * (size + 1))
        least, most = betabinom(len(covered), rank, size + 1 - rank).ppf([0.0001, 0.9999])
        assert least <= np.count_nonzero(covered) <= most


def test_a_method_without_a_standard_deviation_says_so_through_mapie(problem):
    auditor = rue.KernelDensity().fit(problem.model, problem.train)
    regressor = SplitConformalRegressor(auditor, conformity_score=StdConformityScore())
    with pytest.raises(InputError, match="KernelDensity"):
        regressor.conformalize(*problem.calibration)


def test_an_auditor_refuses_to_be_fitted_again(problem):
    auditor = METHODS["LinearRUE"].fit(problem.model, problem.train)
    with pytest.raises(InputError, match="300"):
        WrapRegressor(auditor).fit(*problem.train)


def _mapie(auditor, calibration, X, level):
    regressor = SplitConformalRegressor(
        auditor, confidence_level=level, conformity_score=StdConformityScore(), prefit=True
    )
    _, intervals = regressor.conformalize(*calibration).predict_interval(X)
    return intervals[:, 0, 0], intervals[:, 1, 0]


def _crepes(auditor, calibration, X, level):
    difficulty = DifficultyEstimator().fit(f=lambda rows: auditor.predict(rows, return_std=True)[1], beta=0)
    regressor = WrapRegressor(auditor)
    regressor.calibrate(*calibration, de=difficulty)
    return tuple(regressor.predict_int(X, confidence=level).T)


INTERVALS = {"mapie": _mapie, "crepes": _crepes}


def _scores(auditor, X, y):
    """Ascending |y - f| / std."""
    prediction, std = auditor.predict(X, return_std=True)
    return np.sort(np.abs(y - prediction) / std)


def _rows(n, generator):
    X = generator.uniform(-2, 2, (n, 1))
    return X, 0.5 * X[:, 0] + (0.1 + 0.3 * np.abs(X[:, 0])) * generator.standard_normal(n)
