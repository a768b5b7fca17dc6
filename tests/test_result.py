"""Audit: intervals, densities and tables."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm

import cases
import rue
from rue.auditing.assessment import Assessment, Collected

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.fixture(scope="module")
def one_output() -> rue.Audit:
    case = cases.softplus()
    return rue.LinearRUE().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)


@pytest.fixture(scope="module")
def two_outputs() -> rue.Audit:
    case = cases.convolution()
    return rue.LinearRUE().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)


def test_the_density_of_several_outputs_is_joint(two_outputs):
    y = two_outputs.prediction + 0.1
    expected = [
        multivariate_normal(mean, covariance).logpdf(target)
        for mean, covariance, target in zip(two_outputs.prediction, two_outputs.total_covariance, y, strict=True)
    ]
    np.testing.assert_allclose(two_outputs.log_prob(y), expected, rtol=1e-9)


def test_the_noise_of_several_outputs_is_the_residuals_covariance(two_outputs):
    case = cases.convolution()
    residuals = (case.module(case.X).detach() - case.y).numpy()
    np.testing.assert_allclose(two_outputs.noise_covariance[0], residuals.T @ residuals / len(residuals), rtol=1e-10)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_hold_the_stated_share_of_the_predictive_gaussian(one_output, level):
    lower, upper, guarantee = one_output.interval(level)
    inside = norm.cdf(upper, one_output.prediction, one_output.total_std) - norm.cdf(
        lower, one_output.prediction, one_output.total_std
    )
    np.testing.assert_allclose(inside, level, rtol=1e-9)
    assert guarantee.startswith("none")


def test_the_frame_has_one_row_for_each_prediction(one_output, two_outputs):
    frame = one_output.to_frame()
    assert list(frame.columns) == ["prediction", "std", "noise_std", "total_std", "score", "percentile"]
    assert len(frame) == len(one_output) == 6
    assert frame.loc[frame["score"].idxmax(), "percentile"] == 100
    assert "prediction_1" in two_outputs.to_frame().columns


def test_targets_may_be_a_column(one_output):
    y = np.zeros(6)
    np.testing.assert_array_equal(one_output.log_prob(y), one_output.log_prob(y[:, None]))


def test_an_audit_is_frozen(one_output):
    with pytest.raises(AttributeError):
        one_output.score = 0


def test_a_callable_loss_has_no_noise_and_says_so():
    case = cases.bernoulli()
    audit = rue.LinearRUE().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    assert audit.noise_std is None
    assert audit.total_std is None
    with pytest.raises(rue.errors.InputError, match="the loss is log_loss"):
        audit.interval(0.9)


def test_rue_audit_is_the_calibrated_audit_for_squared_error_and_linear_rue_for_other_losses():
    case = cases.softplus()
    short = rue.audit(case.module, train=(case.X, case.y), inputs=case.X_new, loss="squared_error", l2=case.l2)
    long = rue.CalibratedRUE().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_array_equal(short.score, long.score)
    assert short.method == "CalibratedRUE"
    other = rue.audit(
        case.module, train=(case.X, case.y), inputs=case.X_new, loss=lambda f, t: (f[:, 0] - t).square(), l2=case.l2
    )
    assert other.method == "LinearRUE"


def test_the_residual_of_an_audit_is_that_of_its_worst_batch():
    collected = Collected()
    for residual in (2e-9, 5e-8, None, 1e-10):
        collected.add(Assessment(torch.zeros(2, 1), residual=residual))
    assert collected.residual == 5e-8


@pytest.mark.parametrize(
    ("level", "advice"),
    [
        (0, "90 % as 0.9"),
        (-0.5, "90 % as 0.9"),
        (1, "90 % as 0.9"),
        (1.5, "1.5 % as 0.015"),
        (95, "95 % as 0.95"),
        (99.9, "99.9 % as 0.999"),
        (100, "90 % as 0.9"),
        (400, "90 % as 0.9"),
        (float("nan"), "90 % as 0.9"),
    ],
)
def test_a_level_that_is_no_probability_is_refused_and_a_percentage_is_written_as_one(one_output, level, advice):
    with pytest.raises(rue.errors.SettingError, match=f"^level is {level:g}, expected .*; write {advice}$"):
        one_output.interval(level)
    for possible in (1e-9, 0.015, 1 - 1e-9):
        one_output.interval(possible)
