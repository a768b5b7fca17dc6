"""The paper's algorithm and claims, against a line-by-line Algorithm 1 that shares no code."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cases
import oracles
import rue
from rue.core.resample import Multinomial, generator
from rue.core.solve import Fixed, NoDamping


def drawn_weights(n: int, members: int, seed: int) -> np.ndarray:
    return Multinomial().draw(n, members, generator(seed)).numpy()


@pytest.mark.parametrize("name", ["linear", "softplus", "convolution"])
def test_rue_equals_algorithm_1_line_by_line_given_the_same_weights(name):
    case = cases.CASES[name]()
    H = oracles.hessian(case.module, case.row_loss, case.X, case.y, case.l2)
    damping = oracles.paper_damping(H)
    weights = drawn_weights(len(case.y), 40, seed=11)
    Yhat = oracles.algorithm_1(case.module, case.row_loss, case.X, case.y, case.l2, damping, weights, case.X_new, H)
    audit = rue.RUE(members=40, seed=11).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    assert audit.facts["damping"] == pytest.approx(damping, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(audit.covariance, oracles.member_covariance(Yhat), rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(audit.std**2, np.squeeze(oracles.column_variance(Yhat)), rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("name", cases.CASES)
def test_rue_with_gauss_newton_equals_algorithm_1_on_every_kind_of_model(name):
    case = cases.CASES[name]()
    G = oracles.gauss_newton(case.module, case.row_loss, case.X, case.y, case.l2)
    weights = drawn_weights(len(case.y), 12, seed=5)
    Yhat = oracles.algorithm_1(case.module, case.row_loss, case.X, case.y, case.l2, 0.7, weights, case.X_new, G)
    method = rue.RUE(members=12, seed=5, curvature=rue.curvature.GaussNewton(), damping=Fixed(0.7))
    audit = method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(audit.covariance, oracles.member_covariance(Yhat), rtol=1e-8, atol=1e-14)


class Mean(torch.nn.Module):
    """f = θ for every input."""

    def __init__(self, value: float):
        super().__init__()
        self.theta = torch.nn.Parameter(torch.tensor(value, dtype=torch.float64))

    def forward(self, x):
        return self.theta.expand(len(x))


@given(
    values=st.lists(st.floats(-100, 100), min_size=3, max_size=12),
    seed=st.integers(0, 2**31),
)
def test_rue_on_the_sample_mean_is_exactly_the_bootstrap(values, seed):
    y = torch.tensor(values, dtype=torch.float64)
    model = rue.wrap(Mean(float(y.mean())), loss="squared_error", l2=0.0)
    method = rue.RUE(members=9, seed=seed, damping=NoDamping())
    audit = method.fit(model, (torch.zeros(len(y), 1), y)).audit(torch.zeros(1, 1))
    bootstrap_means = drawn_weights(len(y), 9, seed) @ y.numpy() / len(y)
    assert audit.std[0] == pytest.approx(bootstrap_means.std(ddof=1), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["linear", "softplus", "convolution", "softmax"])
@pytest.mark.parametrize("curvature", ["Hessian", "GaussNewton"])
def test_linear_rue_is_the_exact_finite_n_form_of_claim_1(name, curvature):
    case = cases.CASES[name]()
    build = oracles.hessian if curvature == "Hessian" else oracles.gauss_newton
    H = build(case.module, case.row_loss, case.X, case.y, case.l2)
    H = H + 2.0 * np.eye(len(H))
    L = oracles.gradient_matrix(case.module, case.row_loss, case.X, case.y)
    expected = oracles.closed_form(oracles.output_jacobian(case.module, case.X_new), H, L)
    method = rue.LinearRUE(curvature=getattr(rue.curvature, curvature)(), damping=Fixed(2.0))
    audit = method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(audit.covariance, expected, rtol=1e-8, atol=1e-14)


def test_claim_1_in_its_kernel_form_is_linear_rue_with_independent_weights():
    """σ²(x) = Σ rᵢ² k(x, xᵢ), k = [g(x)ᵀ H̃⁻¹ g(xᵢ)]²."""
    case = cases.CASES["softplus"]()
    H = oracles.gauss_newton(case.module, case.row_loss, case.X, case.y, case.l2)
    g, g_new = (oracles.output_jacobian(case.module, X)[:, 0] for X in (case.X, case.X_new))
    r = oracles.predict_at(case.module, oracles.flat(case.module), case.X)[:, 0] - case.y.numpy()
    kernel = (g_new @ np.linalg.inv(H) @ g.T) ** 2
    audit = rue.LinearRUE(resampler=rue.resample.Poisson()).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(audit.std**2, kernel @ r**2, rtol=1e-8)


def test_the_sampled_members_approach_the_closed_form_on_a_linear_model():
    """Sampling error of a variance from 20 000 members is 1 %; six standard errors are allowed."""
    case = cases.CASES["linear"]()
    exact = rue.LinearRUE(damping=Fixed(1.0)).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    sampled = rue.RUE(members=20_000, seed=1, damping=Fixed(1.0)).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(sampled.std**2, exact.std**2, rtol=0.06)


def test_bootstrap_sgd_steps_along_w_and_not_along_w_minus_one():
    case = cases.CASES["softplus"]()
    weights = drawn_weights(len(case.y), 15, seed=2)
    Yhat = oracles.bootstrap_sgd(case.module, case.row_loss, case.X, case.y, weights, 0.01, case.X_new)
    method = rue.BootstrapSGD(members=15, seed=2, step=0.01)
    audit = method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(audit.covariance, oracles.member_covariance(Yhat), rtol=1e-8)


@pytest.mark.parametrize("name", ["softplus", "convolution", "softmax"])
def test_linearised_laplace_is_the_gradient_in_the_inverse_metric(name):
    case = cases.CASES[name]()
    H = oracles.gauss_newton(case.module, case.row_loss, case.X, case.y, case.l2)
    expected = oracles.laplace_functional_variance(oracles.output_jacobian(case.module, case.X_new), H)
    method = rue.Laplace(linearised=True, curvature=rue.curvature.GaussNewton(), damping=NoDamping())
    audit = method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(audit.covariance, expected, rtol=1e-8)


def test_sampled_laplace_on_a_linear_model_has_the_linearised_variance():
    """Six standard errors of a variance from 20 000 members."""
    case = cases.CASES["linear"]()
    exact = rue.Laplace(linearised=True).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    sampled = rue.Laplace(members=20_000).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(sampled.std**2, exact.std**2, rtol=0.06)


def test_the_predictive_distribution_adds_the_training_residuals_variance():
    case = cases.CASES["softplus"]()
    audit = rue.RUE(members=20).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    residuals = oracles.predict_at(case.module, oracles.flat(case.module), case.X)[:, 0] - case.y.numpy()
    np.testing.assert_allclose(audit.noise_std**2, (residuals**2).mean(), rtol=1e-12)
    np.testing.assert_allclose(audit.total_std**2, audit.std**2 + (residuals**2).mean(), rtol=1e-12)
