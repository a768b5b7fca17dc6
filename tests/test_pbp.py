"""Probabilistic backpropagation against automatic differentiation, exact posteriors, integration and simulation."""

import copy
import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import gamma as gamma_distribution
from scipy.stats import norm
from torch import nn
from torch.distributions import Normal

import rue
from rue.core.errors import DataError, ModelError, NumericalError, SettingError
from rue.data.features import Standardiser
from rue.methods.integrated.pbp import PBP
from rue.methods.integrated.pbp.gamma import Gamma
from rue.methods.integrated.pbp.network import Networks
from rue.methods.integrated.pbp.posterior import Posterior
from rue.methods.integrated.pbp.prior import Prior
from rue.methods.integrated.pbp.rectifier import rectify
from snapshot import changed, module_picture, world_picture


def net(*widths):
    """A plain ReLU network."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = pairwise(widths)
        parts = [part for size in sizes for part in (nn.Linear(*size), nn.ReLU())]
    return nn.Sequential(*parts[:-1]).double()


def wrapped(module):
    return rue.wrap(module, loss="squared_error", l2=1.0)


def regression(n, seed, noise=0.3):
    """A sine of the first of three features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    return X, 3 * np.sin(X[:, 0]) + 5 + noise * rng.standard_normal(n)


def networks(widths, problems, seed, spread=1.0):
    """Networks with random moments."""
    rng = np.random.default_rng(seed)
    sizes = pairwise(widths)
    found = Networks([spread * rng.standard_normal((problems, a + 1, b)) for a, b in sizes])
    for _, variance in found.weights():
        variance[:] = rng.uniform(0.05, 1.5, variance.shape)
    return found


def learn(found, rows, targets):
    """One step on rows (g, p) without the constant."""
    with_one = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    with np.errstate(all="ignore"):  # as in training
        found.learn(with_one.T[:, :, None] / math.sqrt(with_one.shape[1]), targets)


# One problem, one row, one formula at a time.


def naive_output(row, means, variances):
    """The moments of the output, with the rectifier's as the paper writes them."""
    mean, variance = row, torch.zeros_like(row)
    for place, (m, v) in enumerate(zip(means, variances, strict=True)):
        if place:
            alpha = mean / variance.sqrt()
            above, below = torch.special.ndtr(alpha), torch.special.ndtr(-alpha)
            hazard = torch.exp(Normal(0.0, 1.0).log_prob(alpha) - torch.special.log_ndtr(alpha))
            inner = mean + variance.sqrt() * hazard
            mean = above * inner
            variance = mean * inner * below + above * variance * (1 - hazard * (hazard + alpha))
        mean = torch.cat([mean, torch.ones(1, dtype=mean.dtype)])
        variance = torch.cat([variance, torch.zeros(1, dtype=mean.dtype)])
        mean, variance = (
            mean @ m / math.sqrt(len(mean)),
            (variance @ m**2 + mean**2 @ v + variance @ v) / len(mean),
        )
    return mean[0], variance[0]


def naive_step(row, target, means, variances, noise=(6.0, 6.0)):
    """m + v ∂m and v − v²((∂m)² − 2∂v) by automatic derivatives, where the variance stays positive; what was undone."""
    means = [torch.from_numpy(m).clone().requires_grad_() for m in means]
    variances = [torch.from_numpy(v).clone().requires_grad_() for v in variances]
    mean, variance = naive_output(torch.from_numpy(row), means, variances)
    log_z = Normal(mean, (variance + noise[1] / (noise[0] - 1)).sqrt()).log_prob(torch.tensor(target))
    slopes = torch.autograd.grad(log_z, [*means, *variances])
    stepped, undone = [], 0
    for m, v, dm, dv in zip(means, variances, slopes[: len(means)], slopes[len(means) :], strict=True):
        new = (v - v**2 * (dm**2 - 2 * dv)).detach()
        undone += int((new <= 0).sum())
        stepped.append((torch.where(new > 0, m + v * dm, m).detach(), torch.where(new > 0, new, v).detach()))
    return stepped, undone


def assert_the_naive_step(found, rows, targets):
    """Learn one row in every problem, hold the weights against the naive step; how many weights stayed."""
    before = copy.deepcopy(found.weights())
    learn(found, rows, targets)
    stayed = 0
    for i in range(len(rows)):
        wanted, undone = naive_step(rows[i], targets[i], [m[i] for m, _ in before], [v[i] for _, v in before])
        stayed += undone
        for (mean, variance), (wanted_mean, wanted_variance) in zip(found.weights(), wanted, strict=True):
            np.testing.assert_allclose(mean[i], wanted_mean, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(variance[i], wanted_variance, rtol=1e-8, atol=1e-10)
    return stayed


@pytest.mark.parametrize("widths", [(3, 1), (3, 5, 1), (2, 4, 3, 1), (2, 4, 5, 3, 1)])
@pytest.mark.parametrize("spread", [0.3, 1.0, 10.0])  # the last has units many deviations away from zero
def test_a_step_is_the_papers_with_automatic_derivatives(widths, spread):
    rng = np.random.default_rng(1)
    assert_the_naive_step(
        networks(widths, 4, 2, spread), rng.standard_normal((4, widths[0])), 3 * rng.standard_normal(4)
    )


def test_weights_whose_variance_would_turn_negative_stay_where_they_are():
    rng = np.random.default_rng(3)
    found = networks((3, 20, 1), 4, seed=4)
    stayed = assert_the_naive_step(found, 2 * rng.standard_normal((4, 3)), 30 * rng.standard_normal(4))
    assert stayed > 0
    assert all((variance > 0).all() for _, variance in found.weights())


def test_a_noise_that_an_outlier_would_leave_without_variance_stays_what_it_was():
    found = networks((3, 5, 1), 2, seed=4)
    learn(found, np.ones((2, 3)), np.array([1.0, 1e3]))
    assert found.noise.shape[0] != 6.0
    assert found.noise.shape[1] == found.noise.rate[1] == 6.0


@pytest.mark.parametrize("alpha", [-1e5, -300, -45, -38.2, -20, -8, -1, 0, 1e-3, 1, 8, 9.9, 10.1, 38.2, 300, 1e5])
def test_moments_of_a_rectified_gaussian_and_their_slopes_hold_far_out(alpha):
    deviation = 1.7
    found = rectify(np.array([alpha * deviation]), np.array([deviation**2]))
    with mpmath.workdps(80):

        def mean(m, v):
            s = mpmath.sqrt(v)
            return m * mpmath.ncdf(m / s) + s * mpmath.npdf(m / s)

        def variance(m, v):
            s = mpmath.sqrt(v)
            return (m**2 + v) * mpmath.ncdf(m / s) + m * s * mpmath.npdf(m / s) - mean(m, v) ** 2

        at = mpmath.mpf(float(alpha * deviation)), mpmath.mpf(float(deviation**2))
        for name, function in (("mean", mean), ("variance", variance)):
            scale = max(1.0, abs(alpha)) if name == "mean" else 1.0
            assert abs(getattr(found, name)[0] - float(function(*at))) < 1e-12 * scale
            for other, order in (("mean", (1, 0)), ("variance", (0, 1))):
                slope = float(mpmath.diff(function, at, order))
                assert abs(getattr(found, f"{name}_by_{other}")[0] - slope) < 1e-11 * scale


def test_without_hidden_units_a_step_gives_the_exact_marginals_of_bayesian_linear_regression():
    rng = np.random.default_rng(5)
    found = networks((4, 1), 3, seed=6)
    (before,) = copy.deepcopy(found.weights())
    rows, targets = rng.standard_normal((3, 4)), rng.standard_normal(3)
    noise = found.noise.variance.copy()
    learn(found, rows, targets)
    ((mean, variance),) = found.weights()
    for i in range(3):
        design = np.append(rows[i], 1.0)[None] / math.sqrt(5)
        precision = np.diag(1 / before[1][i, :, 0]) + design.T @ design / noise[i]
        covariance = np.linalg.inv(precision)
        exact = covariance @ (before[0][i, :, 0] / before[1][i, :, 0] + design[0] * targets[i] / noise[i])
        np.testing.assert_allclose(mean[i, :, 0], exact, rtol=1e-10)
        np.testing.assert_allclose(variance[i, :, 0], covariance.diagonal(), rtol=1e-10)


def test_the_predictive_moments_are_those_of_networks_drawn_from_the_posterior():
    rng = np.random.default_rng(7)
    layers = tuple((rng.standard_normal(size), rng.uniform(0.05, 1, size)) for size in ((4, 6), (7, 1)))
    same = Standardiser(np.zeros(1), np.ones(1))
    X = rng.standard_normal((5, 3))
    mean, variance = Posterior(layers, 1.0, same, same).moments(torch.from_numpy(X))
    draws = 200_000
    first, last = (m + np.sqrt(v) * rng.standard_normal((draws, *m.shape)) for m, v in layers)
    for i, row in enumerate(X):
        hidden = np.maximum(np.einsum("p,dph->dh", np.append(row, 1.0), first) / 2.0, 0)
        output = (np.einsum("dh,dh->d", hidden, last[:, :-1, 0]) + last[:, -1, 0]) / math.sqrt(7)
        error = math.sqrt(variance[i, 0] / draws)
        assert abs(output.mean() - mean[i, 0]) < 4.5 * error  # 10 comparisons: a false alarm in 10⁴ seeds
        assert abs(output.var() / variance[i, 0] - 1) < 0.03


def test_the_gamma_distribution_keeps_the_moments_that_z_z1_and_z2_give():
    shape, rate, residual, variance = (
        np.array([6.0, 40.0]),
        np.array([6.0, 9.0]),
        np.array([2.0, 0.1]),
        np.array([0.5, 0.2]),
    )
    found = Gamma(shape, rate).observed(residual, variance)
    z, z1, z2 = (norm.pdf(residual, scale=np.sqrt(variance + rate / (shape + i - 1))) for i in range(3))
    np.testing.assert_allclose(found.shape / found.rate, z1 / z * shape / rate)  # E γ
    np.testing.assert_allclose(
        found.shape * (found.shape + 1) / found.rate**2, z2 / z * shape * (shape + 1) / rate**2
    )  # E γ²


def test_one_over_a_precision_has_a_mean_beyond_a_shape_of_one():
    found = Gamma(np.array([1.0, 1.5, 2.0]), np.array([1.0, 0.5, 0.0]))
    assert found.proper.tolist() == [False, True, False]


@pytest.mark.parametrize("lost", ["a weight", "the noise"])
def test_training_that_ends_without_finite_numbers_is_refused(monkeypatch, lost):
    def spoiled(self):
        if lost == "a weight":
            self.first.mean[0] = np.inf
        else:
            self.noise = Gamma(self.noise.shape, np.full_like(self.noise.rate, np.inf))

    monkeypatch.setattr(Networks, "refine_prior", spoiled)
    with pytest.raises(NumericalError, match="not finite after training"):
        PBP(epochs=1).fit(wrapped(net(3, 3, 1)), regression(20, 0))


@pytest.mark.parametrize("residual", [0.1, 1.0, 2.5])
def test_the_gamma_distribution_follows_the_integrated_posterior_where_the_students_t_is_nearly_gaussian(residual):
    shape, rate, variance = 400.0, 300.0, 0.2
    prior = gamma_distribution(shape, scale=1 / rate)

    def moment(power):
        def tilted(precision):
            return (
                precision**power * prior.pdf(precision) * norm.pdf(residual, scale=math.sqrt(variance + 1 / precision))
            )

        return quad(tilted, *prior.ppf([1e-15, 1 - 1e-15]), epsabs=0, epsrel=1e-12, limit=200)[0]

    mean, second = moment(1) / moment(0), moment(2) / moment(0)
    wanted_shape = mean**2 / (second - mean**2)
    found = Gamma(np.array([shape]), np.array([rate])).observed(np.array([residual]), np.array([variance]))
    assert found.shape[0] / found.rate[0] - shape / rate == pytest.approx(mean - shape / rate, rel=0.05)
    assert found.shape[0] - shape == pytest.approx(wanted_shape - shape, rel=0.05, abs=0.05)


def naive_gamma(shape, rate, residual, variance):
    """The paper's α and β from Z, Z₁ and Z₂."""
    z, z1, z2 = (norm.pdf(residual, scale=math.sqrt(variance + rate / (shape + j - 1))) for j in range(3))
    return (
        1 / (z * z2 / z1**2 * (shape + 1) / shape - 1),
        1 / (z2 / z1 * (shape + 1) / rate - z1 / z * shape / rate),
    )


def naive_sweep(mean, variance, factors, shape, rate):
    """Expectation propagation on the factors N(w | 0, 1/λ), one problem, in natural parameters throughout."""
    for i, (precision, shift, own_shape, own_rate) in enumerate(factors):
        rest, a, b = 1 / variance[i] - precision, shape - own_shape, rate - own_rate
        if not (rest > 1e-6 and a > 1 and b > 0):
            continue
        v, m = 1 / rest, (mean[i] / variance[i] - shift) / rest
        total = v + b / (a - 1)
        by_mean, by_variance = -m / total, 0.5 * (m**2 / total**2 - 1 / total)
        mean[i], variance[i] = m + v * by_mean, v - v**2 * (by_mean**2 - 2 * by_variance)
        shape, rate = naive_gamma(a, b, m, v)
        factors[i] = [1 / variance[i] - 1 / v, mean[i] / variance[i] - m / v, shape - a, rate - b]
    return shape, rate


def untouched_factors(count):
    """Precision, precision × mean, shape and rate that each prior factor has contributed at the start."""
    return [[5 / 6, 0.0, 0.0, 0.0] for _ in range(count)]


def test_refining_the_prior_is_expectation_propagation_in_natural_parameters():
    rng = np.random.default_rng(8)
    mean, variance = rng.standard_normal((12, 3)), rng.uniform(0.01, 1.1, (12, 3))
    left_alone = (np.array([4, 7, 2]), np.array([1, 2, 0]))
    variance[left_alone] = 1.3, 1.2 * (1 - 1e-9), 1.2  # wider than their prior factor, or no data ever reached them
    prior, wanted_mean, wanted_variance, before = Prior(12, 3), mean.copy(), variance.copy(), variance.copy()
    for _ in range(3):
        prior.refine(mean, variance)
    for i in range(3):
        factors, shape, rate = untouched_factors(12), 6.0, 6.0
        for _ in range(3):
            shape, rate = naive_sweep(wanted_mean[:, i], wanted_variance[:, i], factors, shape, rate)
        np.testing.assert_allclose([prior.gamma.shape[i], prior.gamma.rate[i]], [shape, rate], rtol=1e-9)
    np.testing.assert_allclose(mean, wanted_mean, rtol=1e-9)
    np.testing.assert_allclose(variance, wanted_variance, rtol=1e-9)
    np.testing.assert_array_equal(variance[left_alone], before[left_alone])


def naive_training(X, y, widths, epochs, seed):
    """The whole algorithm on one standardised problem: the layers' moments and the noise."""
    random = torch.Generator().manual_seed(seed)
    sizes = [(a + 1, b) for a, b in pairwise(widths)]
    means = [torch.randn(size, generator=random, dtype=torch.float64).numpy() / math.sqrt(size[0]) for size in sizes]
    variances = [np.full(size, 6 / 5) for size in sizes]
    factors, noise, prior = untouched_factors(sum(a * b for a, b in sizes)), (6.0, 6.0), (6.0, 6.0)
    for _ in range(epochs):
        for i in torch.randperm(len(X), generator=random).tolist():
            output = naive_output(
                torch.from_numpy(X[i]), *([torch.from_numpy(p) for p in q] for q in (means, variances))
            )
            stepped, _ = naive_step(X[i], y[i], means, variances, noise)
            noise = naive_gamma(*noise, y[i] - output[0].item(), output[1].item())
            means, variances = ([moments[j].numpy() for moments in stepped] for j in (0, 1))
        flat = [np.concatenate([part.reshape(-1) for part in parts]) for parts in (means, variances)]
        prior = naive_sweep(*flat, factors, *prior)
        ends = np.cumsum([a * b for a, b in sizes])[:-1]
        means, variances = (
            [part.reshape(size) for part, size in zip(np.split(parts, ends), sizes, strict=True)] for parts in flat
        )
    return means, variances, noise[1] / (noise[0] - 1)


def test_training_is_the_algorithm_step_by_step():
    X, y = regression(15, seed=0)
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    means, variances, noise = naive_training(X, y, (3, 4, 1), epochs=3, seed=2)
    auditor = PBP(epochs=3, seed=2).fit(wrapped(net(3, 4, 1)), (X, y))
    for (mean, variance), wanted_mean, wanted_variance in zip(auditor.assess.layers, means, variances, strict=True):
        np.testing.assert_allclose(mean, wanted_mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(variance, wanted_variance, rtol=1e-7)
    assert auditor.facts["noise"] == pytest.approx(noise, rel=1e-8)


def test_problems_side_by_side_learn_what_each_learns_alone():
    sets = [regression(60, seed) for seed in range(3)]
    models = [wrapped(net(3, 6, 4, 1)) for _ in sets]
    together = PBP(epochs=5, seed=7).fit_many(models, sets)
    for i, (model, data) in enumerate(zip(models, sets, strict=True)):
        alone, beside = PBP(epochs=5, seed=7 + i).fit(model, data).audit(sets[0][0]), together[i].audit(sets[0][0])
        for name in ("prediction", "std", "noise_std"):
            np.testing.assert_allclose(getattr(beside, name), getattr(alone, name), rtol=1e-9)


def test_a_sine_is_learned_with_its_noise():
    X, y = regression(150, seed=0)
    X_new, y_new = regression(500, seed=1)
    auditor = PBP().fit(wrapped(net(3, 30, 1)), (X, y))
    audit = auditor.audit(X_new)
    assert -audit.log_prob(y_new).mean() < -norm.logpdf(y_new, y.mean(), y.std()).mean() - 0.8
    assert (audit.std > 0).all()
    assert 0.2 < audit.noise_std.mean() < 0.55  # the truth is 0.3
    assert auditor.facts["noise"] == pytest.approx(audit.noise_std[0] ** 2)
    assert auditor.facts["epochs"] == 40
    np.testing.assert_array_equal(auditor.predict(X_new), audit.prediction)
    assert auditor.audit(5 * X_new).std.mean() > 2 * audit.std.mean()


def test_units_of_inputs_and_targets_do_not_matter():
    X, y = regression(50, seed=0)
    plain = PBP(epochs=3).fit(wrapped(net(3, 5, 1)), (X, y)).audit(X)
    other = PBP(epochs=3).fit(wrapped(net(3, 5, 1)), (X * [1, 10, 1e3] + 5, 100 * y - 7)).audit(X * [1, 10, 1e3] + 5)
    np.testing.assert_allclose(other.prediction, 100 * plain.prediction - 7, rtol=1e-8)
    np.testing.assert_allclose(other.std, 100 * plain.std, rtol=1e-8)
    np.testing.assert_allclose(other.noise_std, 100 * plain.noise_std, rtol=1e-8)


def test_trained_weights_penalty_and_dtype_of_the_model_play_no_part_and_the_seed_does():
    X, y = (values.astype(np.float32) for values in regression(40, seed=0))
    other = net(3, 5, 1).float()
    with torch.no_grad():
        other[0].weight.fill_(3.0)
    found = PBP(epochs=2).fit(rue.wrap(other, loss="squared_error", l2=7.0), (X, y)).audit(X)
    wanted = PBP(epochs=2).fit(wrapped(net(3, 5, 1)), (X, y)).audit(X)
    np.testing.assert_array_equal(found.prediction, wanted.prediction)
    assert not np.allclose(PBP(epochs=2, seed=1).fit(wrapped(net(3, 5, 1)), (X, y)).audit(X).std, wanted.std)


def test_nested_networks_are_read_and_constant_columns_do_no_harm():
    X, y = regression(40, seed=0)
    X[:, 1] = 2.0
    plain = net(3, 5, 4, 1)
    nested = nn.Sequential(plain[:2], nn.Sequential(plain[2:4], plain[4]))
    found, wanted = (PBP(epochs=2).fit(wrapped(module), (X, y)).audit(X) for module in (nested, plain))
    np.testing.assert_array_equal(found.prediction, wanted.prediction)


def test_the_module_the_data_and_the_world_are_bit_identical_after_an_audit():
    module, (X, y) = net(3, 5, 1), regression(30, seed=0)
    data, world, picture = (X.copy(), y.copy()), world_picture(), module_picture(module)
    PBP(epochs=2).fit(wrapped(module), (X, y)).audit(X)
    assert changed(world, world_picture()) == []
    assert changed(picture, module_picture(module)) == []
    assert all(np.array_equal(now, before) for now, before in zip((X, y), data, strict=True))


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (
            nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)),
            r"part 1 of the network is Tanh\(\), expected nn.ReLU",
        ),
        (nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)), r"part 1 .* is Linear.*expected nn.ReLU"),
        (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1), nn.ReLU()), "ends in nn.ReLU"),
        (nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 1)), "bias=False.* has no bias"),
        (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), "has 2 outputs"),
        (nn.Bilinear(3, 3, 1), "part 0 of the network is Bilinear"),
    ],
)
def test_networks_that_pbp_cannot_train_are_refused_with_advice(module, said):
    X, y = regression(20, seed=0)
    inputs = (X, X) if isinstance(module, nn.Bilinear) else X
    targets = np.stack([y, y], axis=1) if "2 outputs" in said else y
    with pytest.raises(ModelError, match=said):
        PBP(epochs=1).fit(wrapped(module.double()), (inputs, targets))


def test_other_losses_weights_and_settings_are_refused_with_advice():
    X, y = regression(20, seed=0)
    loss = nn.HuberLoss(reduction="none")
    with pytest.raises(ModelError, match=r'the loss is .*huber.* loss="squared_error"'):
        PBP(epochs=1).fit(rue.wrap(nn.Sequential(*net(3, 4, 1), nn.Flatten(0)), loss=loss, l2=1.0), (X, y))
    with pytest.raises(DataError, match="leave weight out"):
        PBP(epochs=1).fit(wrapped(net(3, 4, 1)), rue.Data(X, y, weight=np.arange(20.0)))
    with pytest.raises(ModelError, match=r"rue\.wrap"):
        PBP(epochs=1).fit(net(3, 4, 1), (X, y))
    with pytest.raises(SettingError, match="at least 1, got 0"):
        PBP(epochs=0)


def test_problems_that_are_not_alike_are_refused_with_advice():
    X, y = regression(20, seed=0)
    small, large = wrapped(net(3, 4, 1)), wrapped(net(3, 5, 1))
    with pytest.raises(ModelError, match=r"\[\(3, 4, 1\), \(3, 5, 1\)\]"):
        PBP(epochs=1).fit_many([small, large], [(X, y), (X, y)])
    with pytest.raises(DataError, match=r"\[19, 20\] rows"):
        PBP(epochs=1).fit_many([small, small], [(X, y), (X[1:], y[1:])])
    with pytest.raises(SettingError, match="2 models"):
        PBP(epochs=1).fit_many([small, small], [(X, y)])
    with pytest.raises(SettingError, match="0 models"):
        PBP(epochs=1).fit_many([], [])
