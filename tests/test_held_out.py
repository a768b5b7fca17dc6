"""Rows held out from training: one factor for all variances, and split conformal intervals."""

from math import ceil, inf

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import Ridge
from torch.utils.data import DataLoader, TensorDataset

import rue
from rue.auditing.held_out import variance_factor
from rue.core.errors import DataError, InputError, NumericalError, SettingError, ShapeError

METHODS = {
    "RUE": rue.RUE(members=40),
    "LinearRUE": rue.LinearRUE(),
    "CalibratedRUE": rue.CalibratedRUE(),
    "nearest neighbours": rue.NearestNeighbours(by="residual"),
    "Homoscedastic": rue.Homoscedastic(),
    "error forest": rue.ErrorForest(),
}


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rue.calibrate.error_model.TREES", 30)
        yield


@pytest.fixture(scope="module")
def rows():
    """Training, held-out and new rows of a problem with noise of twice its deviation outside training."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(210, 3))
    y = X[:, 0] - X[:, 2] + 0.5 * np.exp(X[:, 1] / 2) * generator.normal(size=210)
    y[80:] = y[80:] + generator.normal(size=130)
    return (X[:80], y[:80]), (X[80:150], y[80:150]), (X[150:], y[150:])


@pytest.fixture(scope="module")
def model(rows):
    X, y = rows[0]
    module = torch.nn.Linear(3, 1).double()
    D = np.hstack([X, np.ones((80, 1))])
    theta = np.linalg.solve(D.T @ D + np.eye(4), D.T @ y)
    with torch.no_grad():
        module.weight.copy_(torch.tensor(theta[:3])[None])
        module.bias.copy_(torch.tensor(theta[3:]))
    return rue.wrap(module, loss="squared_error", l2=1.0)


@pytest.fixture(scope="module", params=METHODS)
def auditor(request, rows, model):
    return METHODS[request.param].fit(model, rows[0])


def test_one_factor_multiplies_every_predictive_variance(auditor, rows):
    calibrated = auditor.calibrate(*rows[1])
    plain, scaled = auditor.audit(rows[2][0]), calibrated.audit(rows[2][0])
    factor = calibrated.predictive.held_out.variance_factor
    np.testing.assert_allclose(scaled.total_std**2, factor * plain.total_std**2, rtol=1e-9)
    np.testing.assert_allclose(scaled.noise_std**2, factor * plain.noise_std**2, rtol=1e-9)
    assert factor > 1.2
    assert calibrated.facts["held_out"] == 70
    assert scaled.log_prob(rows[2][1]).mean() > plain.log_prob(rows[2][1]).mean()
    if plain.axes is not None:
        for name, part in plain.axes.items():
            np.testing.assert_allclose(scaled.axes[name] ** 2, factor * part**2, rtol=1e-6, atol=1e-12)


def test_the_ranking_and_the_resampling_spread_stay_as_they_were(auditor, rows):
    plain, scaled = (one.audit(rows[2][0]) for one in (auditor, auditor.calibrate(*rows[1])))
    np.testing.assert_array_equal(stats.rankdata(scaled.score), stats.rankdata(plain.score))
    np.testing.assert_array_equal(scaled.prediction, plain.prediction)
    if plain.std is None:
        assert scaled.std is None
    else:
        np.testing.assert_array_equal(scaled.std, plain.std)
    if auditor.method == "CalibratedRUE":
        np.testing.assert_allclose(scaled.score, scaled.total_std, rtol=1e-9)


def test_the_factor_is_the_most_likely_one(auditor, rows):
    X, y = rows[1]
    plain, factor = auditor.audit(X), auditor.calibrate(X, y).predictive.held_out.variance_factor
    if plain.degrees == inf:
        assert factor == pytest.approx((((y - plain.prediction) / plain.total_std) ** 2).mean(), rel=1e-9)

    def nll(scale):
        deviation = np.sqrt(scale) * plain.total_std
        return -rue_log_density(y - plain.prediction, deviation, plain.degrees).mean()

    assert nll(factor) <= min(nll(0.98 * factor), nll(1.02 * factor))


def rue_log_density(error, deviation, degrees):
    """Scipy's, of a distribution with this standard deviation."""
    if degrees == inf:
        return stats.norm.logpdf(error, scale=deviation)
    return stats.t.logpdf(error, degrees, scale=deviation * np.sqrt((degrees - 2) / degrees))


def test_the_interval_is_split_conformal_by_hand(auditor, rows):
    X, y = rows[1]
    audit = auditor.calibrate(X, y).audit(rows[2][0])
    held = auditor.audit(X)
    for level in (0.5, 0.8, 0.9):
        scores = np.sort(np.abs(y - held.prediction) / held.total_std)  # in units of the spread before calibration
        reach = scores[ceil(round(level * 71, 9)) - 1]
        lower, upper, said = audit.interval(level)
        spread = auditor.audit(rows[2][0]).total_std
        np.testing.assert_allclose(lower, audit.prediction - reach * spread, rtol=1e-9)
        np.testing.assert_allclose(upper, audit.prediction + reach * spread, rtol=1e-9)
        assert said.startswith("guaranteed at least")
        assert "marginal" in said
        assert "70 held-out rows" in said


@pytest.mark.filterwarnings("ignore:held-out rows are missed")
def test_groups_have_their_own_quantiles(model, rows):
    X, y = rows[1]
    label = np.where(np.arange(70) % 2 == 0, "even", "odd")
    y = np.where(label == "odd", y + 5, y)
    auditor = rue.LinearRUE().fit(model, rows[0])
    calibrated = auditor.calibrate(X, y, group=label)
    audit, held = calibrated.audit(rows[2][0]), auditor.audit(X)
    asked = np.array((["even", "odd", "never"] * 20)[:60])
    lower, upper, said = audit.interval(0.8, group=asked)
    scores = np.abs(y - held.prediction) / held.total_std
    for name in ("even", "odd"):
        reach = np.sort(scores[label == name])[ceil(round(0.8 * 36, 9)) - 1]
        own = asked == name
        np.testing.assert_allclose(
            (upper - lower)[own], 2 * reach * auditor.audit(rows[2][0]).total_std[own], rtol=1e-9
        )
    assert np.isinf(upper[asked == "never"]).all()
    assert "in every group" in said
    with pytest.raises(SettingError, match="have none; calibrate with the group"):
        auditor.calibrate(X, y).audit(rows[2][0]).interval(group=asked)
    with pytest.raises(SettingError):
        auditor.audit(rows[2][0]).interval(group=asked)
    with pytest.raises(ShapeError):
        auditor.calibrate(X, y, group=label[:5])


def test_other_intervals_can_still_be_asked_for(model, rows):
    auditor = rue.CalibratedRUE().fit(model, rows[0])
    audit = auditor.calibrate(*rows[1]).audit(rows[2][0])
    widths = {
        by: np.mean(audit.interval(0.9, by=by).upper - audit.interval(0.9, by=by).lower)
        for by in ("split conformal", "jackknife+", "full conformal", "distribution")
    }
    assert widths["split conformal"] == pytest.approx(np.mean(np.subtract(*audit.interval(0.9)[1::-1])))
    assert len(set(widths.values())) == 4


def test_too_few_held_out_rows_make_infinite_intervals_that_say_so(model, rows):
    X, y = rows[1]
    audit = rue.LinearRUE().fit(model, rows[0]).calibrate(X[:5], y[:5]).audit(rows[2][0])
    lower, upper, said = audit.interval(0.9)
    assert np.isinf(lower).all()
    assert np.isinf(upper).all()
    assert "finite ones need n = 9" in said
    assert np.isfinite(audit.interval(0.8).upper).all()


def test_targets_of_audited_rows_cannot_matter(model, rows):
    calibrated = rue.CalibratedRUE().fit(model, rows[0]).calibrate(*rows[1])
    X, y = (torch.tensor(part) for part in rows[2])
    plain, poisoned = (calibrated.audit(DataLoader(TensorDataset(X, t), batch_size=16)) for t in (y, y + 1000))
    np.testing.assert_array_equal(plain.total_std, poisoned.total_std)
    np.testing.assert_array_equal(plain.interval().lower, poisoned.interval().lower)


def test_calibrating_again_starts_afresh(model, rows):
    auditor = rue.CalibratedRUE().fit(model, rows[0])
    once = auditor.calibrate(*rows[1])
    again = auditor.calibrate(*rows[2]).calibrate(*rows[1])
    assert again.predictive.held_out.variance_factor == once.predictive.held_out.variance_factor
    assert auditor.predictive.held_out is None


@pytest.mark.parametrize("method", [rue.KernelDensity(), rue.NearestNeighbours(by="distance")])
def test_a_method_without_a_predictive_distribution_is_refused_with_advice(model, rows, method):
    with pytest.raises(InputError):
        method.fit(model, rows[0]).calibrate(*rows[1])


def test_targets_that_do_not_fit_are_refused(model, rows):
    auditor = rue.LinearRUE().fit(model, rows[0])
    with pytest.raises(ShapeError):
        auditor.calibrate(rows[1][0], rows[1][1][:3])
    with pytest.raises(DataError, match="1 of 70 rows have a target that is no finite number"):
        auditor.calibrate(rows[1][0], np.r_[np.nan, rows[1][1][1:]])
    with pytest.raises(DataError, match="every held-out target equals its prediction"):
        auditor.calibrate(rows[1][0], auditor.predict(rows[1][0]))


def test_a_spread_of_zero_cannot_be_scaled(model, rows):
    X = rows[0][0]
    fitted = rue.LinearRUE().fit(model, rows[0]).predict(X)  # residuals of zero
    with pytest.raises(NumericalError, match=r"singular.*more neighbours"):
        rue.NearestNeighbours(by="residual").fit(model, (X, fitted)).calibrate(*rows[1])


@pytest.mark.filterwarnings("ignore:held-out rows are missed")
def test_several_outputs_have_one_factor_and_a_quantile_each(rows):
    (X, y), (X_held, y_held), (X_new, _) = rows
    module = torch.nn.Linear(3, 2).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 0, -1], [0, 1, 0]]))
        module.bias.zero_()
    model = rue.wrap(module, loss="squared_error", l2=1.0)
    Y, Y_held = np.stack([y, X[:, 1] + np.cos(9 * y)], 1), np.stack([y_held, X_held[:, 1] + 3 * np.cos(9 * y_held)], 1)
    auditor = rue.CalibratedRUE().fit(model, (X, Y))
    held, plain = auditor.audit(X_held), auditor.audit(X_new)
    lower, upper, said = auditor.calibrate(X_held, Y_held).audit(X_new).interval(0.8)
    assert "for each output by itself" in said
    for j in range(2):
        reach = np.sort(np.abs(Y_held - held.prediction)[:, j] / held.total_std[:, j])[ceil(round(0.8 * 71, 9)) - 1]
        np.testing.assert_allclose((upper - lower)[:, j], 2 * reach * plain.total_std[:, j], rtol=1e-9)


@given(st.integers(0, 10_000), st.sampled_from([1, 2]), st.floats(0.01, 100), st.sampled_from([inf, 3.0, 7.0]))
def test_the_factor_follows_the_square_of_the_errors(seed, k, size, degrees):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(40, k, k))
    covariance = root @ root.swapaxes(1, 2) + np.eye(k)
    errors = generator.normal(size=(40, k))
    one, other = (variance_factor(c * errors, covariance, degrees) for c in (1.0, size))
    assert other == pytest.approx(size**2 * one, rel=1e-3)
    assert variance_factor(errors, 4 * covariance, degrees) == pytest.approx(one / 4, rel=1e-3)
    if degrees == inf:
        white = np.stack([np.linalg.solve(np.linalg.cholesky(c), e) for c, e in zip(covariance, errors, strict=True)])
        assert one == pytest.approx((white**2).mean(), rel=1e-9)


@pytest.mark.slow
def test_held_out_intervals_cover_as_guaranteed():
    inside = []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(240, 3))
        y = X[:, 0] + np.exp(X[:, 1]) * generator.standard_t(3, size=240)
        module = torch.nn.Linear(3, 1).double()
        torch.nn.init.zeros_(module.bias)
        with torch.no_grad():
            module.weight.copy_(torch.tensor([[1.0, 0, 0]]))
        auditor = rue.CalibratedRUE().fit(rue.wrap(module, loss="squared_error", l2=1.0), (X[:80], y[:80]))
        lower, upper, _ = auditor.calibrate(X[80:139], y[80:139]).audit(X[139:]).interval(0.9)
        inside.append(((lower <= y[139:]) & (y[139:] <= upper)).mean())
    assert abs(np.mean(inside) - 54 / 60) < 0.03  # exact for continuous scores; standard error about 0.006


def test_rows_that_were_trained_on_are_refused():
    """All of them, or a tenth among others; where training rows equal one another, equal rows are chance."""
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(90, 3)), draw.normal(size=90)
    new = draw.normal(size=(50, 3))
    auditor = rue.CalibratedRUE().fit(rue.wrap(Ridge().fit(X, y)), (X, y))
    for rows in (X, np.vstack([new[:45], X[:5]])):
        with pytest.raises(rue.errors.DataError, match="have the features of a training row, the first being row"):
            auditor.calibrate(rows, np.zeros(len(rows)))
    assert auditor.calibrate(new, y[:50]).audit(new).interval().guarantee.promise == "guaranteed"
    coarse = draw.integers(0, 2, size=(90, 3)).astype(float)
    auditor = rue.CalibratedRUE().fit(rue.wrap(Ridge().fit(coarse, y)), (coarse, y))
    auditor.calibrate(draw.integers(0, 2, size=(50, 3)).astype(float), draw.normal(size=50))
