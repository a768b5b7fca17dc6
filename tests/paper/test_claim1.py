"""Claim 1 measured: every part against arithmetic by hand, and against the rate that theory gives it."""

import numpy as np
import pytest

import rue
from rue.core.resample import Multinomial, Poisson, generator
from rue.core.solve import NoDamping, SmallestEigenvalue
from rue_paper import claim1


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(claim1, "POOL", 3000)
    monkeypatch.setattr(claim1, "MEMBERS", (10, 30, 100, 300, 1000, 3000))


@pytest.fixture(scope="module")
def network():
    return claim1.network(50, 0, claim1.FIXED)


def by_hand(situation):
    """Influences B (m, n) = g(x)ᵀ H⁻¹ gᵢ rᵢ and predictions of the curve, all derivatives written out."""
    first, second = situation.net.theta.detach().numpy()
    x, new, y = situation.X[:, 0].numpy(), situation.new[:, 0].numpy(), situation.y.numpy()
    r = first * (1 - np.exp(-second * x)) - y
    g, g_new = (np.stack([1 - np.exp(-second * z), first * z * np.exp(-second * z)], axis=1) for z in (x, new))
    hessian = situation.l2 * np.eye(2)
    for xi, ri, gi in zip(x, r, g, strict=True):
        mixed = xi * np.exp(-second * xi)
        hessian += np.outer(gi, gi) + ri * np.array([[0, mixed], [mixed, -first * xi * mixed]])
    return g_new @ np.linalg.inv(hessian) @ (g * r[:, None]).T, first * (1 - np.exp(-second * new))


@pytest.mark.parametrize("at", claim1.PENALTY)
def test_both_closed_forms_of_the_curve_are_those_derived_by_hand(at):
    situation = claim1.curve(60, 3, at)
    exact, claim = claim1.closed_forms(situation.fitted(), situation)
    B, _ = by_hand(situation)
    np.testing.assert_allclose(exact**2, np.einsum("mi,ij,mj->m", B, np.eye(60) - 1 / 60, B), rtol=1e-8)
    np.testing.assert_allclose(claim**2, (B**2).sum(1), rtol=1e-8)
    np.testing.assert_allclose(claim**2 - exact**2, B.sum(1) ** 2 / 60, rtol=1e-5, atol=1e-12)


def test_the_closed_forms_of_the_network_are_linear_rue_with_dependent_and_independent_weights(network):
    fit = network.fitted()
    for found, resampler in zip(claim1.closed_forms(fit, network), (Multinomial(), Poisson()), strict=True):
        method = rue.LinearRUE(curvature=rue.curvature.Hessian(), damping=SmallestEigenvalue(), resampler=resampler)
        audit = method.fit(fit.model, (network.X, network.y)).audit(network.new)
        np.testing.assert_allclose(found, audit.std, rtol=1e-8)


def test_members_are_those_of_rue_and_linearised_they_are_minus_the_influence_of_their_weights():
    situation = claim1.curve(60, 1, claim1.NO_PENALTY)
    fit = situation.fitted()
    through, straight = claim1.members(fit, situation, seed=7)
    audit = rue.RUE(members=3000, seed=7, damping=NoDamping()).fit(fit.model, (situation.X, situation.y))
    np.testing.assert_allclose(claim1.deviations(through, 3000)[0], audit.audit(situation.new).std, rtol=1e-10)
    B, prediction = by_hand(situation)
    weights = Multinomial().draw(60, 3000, generator(7)).numpy()
    np.testing.assert_allclose(straight, prediction - (weights - 1) @ B.T, rtol=1e-8)


def test_groups_of_members_are_consecutive_and_what_is_left_over_is_dropped():
    values = np.arange(14.0).reshape(7, 2) ** 2
    expected = [np.std(values[a : a + 3], axis=0, ddof=1) for a in (0, 3)]
    np.testing.assert_allclose(claim1.deviations(values, 3), expected)


def test_the_parts_multiply_to_the_whole(network):
    errors = claim1.member_errors(network, 0)
    finite = 1 + errors["finite n", None]
    for b in claim1.MEMBERS:
        product = (1 + errors["sampling", b]) * (1 + errors["linearisation", b]) / finite
        np.testing.assert_allclose(1 + errors["together", b], product, rtol=1e-12)


def test_sampling_error_is_one_over_the_root_of_2b(network):
    """Root mean squares over at least 10 groups; a tenth of the exponent and 25 % of the constant are allowed."""
    errors = claim1.member_errors(network, 0)
    members = np.array([10, 30, 100, 300])
    rms = np.array([np.sqrt(np.mean(errors["sampling", b] ** 2)) for b in members])
    assert np.polyfit(np.log(members), np.log(rms), 1)[0] == pytest.approx(-0.5, abs=0.1)
    np.testing.assert_allclose(rms * np.sqrt(2 * members), 1, rtol=0.25)


def finite_n(n, at, data_sets):
    found = [claim1.finite_n_errors(claim1.curve(n, seed, at), seed) for seed in range(data_sets)]
    return np.mean([errors["finite n", None] for errors in found])


def test_claim_1_is_exact_at_an_optimum_without_penalty():
    assert abs(finite_n(50, claim1.NO_PENALTY, 3)) < 1e-12


@pytest.mark.parametrize(
    ("at", "exponent", "allowed", "data_sets"),
    [(claim1.FIXED, -2.0, 0.1, 5), (claim1.GROWING, 0.0, 0.1, 5), (claim1.NOT_FITTED, -1.0, 0.3, 30)],
)
def test_what_finite_n_costs_falls_at_the_rate_of_its_case(at, exponent, allowed, data_sets):
    """Means over data sets: of something like χ² where parameters do not know the rows, hence more of them."""
    small, large = finite_n(800, at, data_sets), finite_n(6400, at, data_sets)
    assert np.log(large / small) / np.log(8) == pytest.approx(exponent, abs=allowed)
    assert small > 0


def test_linearisation_of_the_curve_fades_as_rows_are_added():
    """Sixteen times the rows: sixteen times less by theory, of which chance correlations among members leave half."""
    small, large = (
        np.sqrt(np.mean(claim1.member_errors(claim1.curve(n, 1, claim1.NO_PENALTY), 1)["linearisation", 3000] ** 2))
        for n in (50, 800)
    )
    assert 6 < small / large < 40


@pytest.mark.parametrize(("build", "at"), [(claim1.curve, claim1.NO_PENALTY), (claim1.network, claim1.FIXED)])
def test_the_kernel_matrix_is_positive_semi_definite_and_of_the_rank_of_a_squared_product(build, at):
    found = claim1.spectrum("model", build(80, 0, at))
    assert found.smallest_over_largest > -1e-13
    assert 0 < found.rank <= min(found.n, found.d * (found.d + 1) // 2)


@pytest.fixture
def few(monkeypatch):
    """What `compute` finds in a few seconds."""
    monkeypatch.setattr(claim1, "SIZES", (30, 40, 50))
    monkeypatch.setattr(claim1, "SPECTRUM_SIZE", 50)
    monkeypatch.setattr(claim1, "POOL", 300)
    monkeypatch.setattr(claim1, "MEMBERS", (10, 20, 30, 60, 100, 300))
    for name in ("SAMPLED", "CLOSED"):
        monkeypatch.setattr(claim1, name, tuple(case._replace(data_sets=1) for case in getattr(claim1, name)))
    return claim1.compute(seed=0)


def test_table_figure_and_findings_come_from_what_was_measured(few, tmp_path):
    frame = claim1.table(few)
    assert len(frame) == 3 * (3 * (3 * 6 + 1) + 3)
    assert set(frame["part"]) == {"sampling", "linearisation", "together", "finite n"}
    assert frame["b"].isna().sum() == (frame["part"] == "finite n").sum()
    claim1.draw(few).savefig(tmp_path / "claim1.png")
    said = claim1.findings(few)
    assert [text.split(":")[0].split(",")[0] for text in said[:3]] == ["Sampling", "Linearisation", "Finite n"]
    assert sum("positive semi-definite" in text for text in said) == 2


@pytest.mark.slow
def test_the_whole_measurement_has_the_exponents_of_theory(monkeypatch):
    """About a minute. What is allowed holds the two seeds that were looked at, 0 and 1."""
    monkeypatch.setattr(claim1, "POOL", 9000)
    monkeypatch.setattr(claim1, "MEMBERS", (10, 30, 100, 300, 1000, 3000, 9000))
    found = claim1.compute()
    curve = ("curve", claim1.NO_PENALTY)
    sampling = [row for b in (10, 30, 100, 300, 1000) for row in claim1.chosen(found, "sampling", *curve, b=b)]
    assert claim1.slope(sampling, "b") == pytest.approx(-0.5, abs=0.05)
    assert claim1.slope(claim1.chosen(found, "linearisation", *curve, b=9000), "n") == pytest.approx(-1, abs=0.3)
    fixed, growing, away = (claim1.chosen(found, "finite n", "curve", at) for at in list(claim1.PENALTY)[1:])
    assert claim1.slope(fixed[-3:], "n") == pytest.approx(-2, abs=0.15)
    assert claim1.slope(growing, "n") == pytest.approx(0, abs=0.1)
    assert claim1.slope(away, "n") == pytest.approx(-1, abs=0.3)
