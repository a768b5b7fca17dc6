"""Figure 1: every number against the derivatives of θ₁(1 − exp(−θ₂x)) taken by hand."""

import numpy as np
import pytest
from scipy.optimize import curve_fit

from rue_paper import figure1


@pytest.fixture(scope="module")
def found():
    return figure1.compute()


def curve(x, first, second):
    return first * (1 - np.exp(-second * x))


def gradient(x, theta):
    """∂f/∂θ, by hand."""
    return np.array([1 - np.exp(-theta[1] * x), theta[0] * x * np.exp(-theta[1] * x)])


def objective_hessian(x, y, theta):
    """∇² Σ ½(f − y)² = Σ ggᵀ + r ∇²f, by hand."""
    total = np.zeros((2, 2))
    for xi, yi in zip(x, y, strict=True):
        g, r = gradient(xi, theta), curve(xi, *theta) - yi
        mixed = xi * np.exp(-theta[1] * xi)
        second = np.array([[0.0, mixed], [mixed, -theta[0] * xi**2 * np.exp(-theta[1] * xi)]])
        total += np.outer(g, g) + r * second
    return total


def test_the_fit_is_scipys_least_squares(found):
    expected, _ = curve_fit(curve, found.x, found.y, p0=(1.0, 1.0), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(found.theta, expected, rtol=1e-7)
    np.testing.assert_allclose(found.residual, curve(found.x, *found.theta) - found.y, atol=1e-12)
    np.testing.assert_allclose(found.gradients.sum(0), 0, atol=1e-6)


def test_the_hessian_is_the_one_derived_by_hand(found):
    np.testing.assert_allclose(found.hessian, objective_hessian(found.x, found.y, found.theta), rtol=1e-10)


def test_gradients_are_projected_on_the_eigenvectors_of_the_hessian_the_steepest_first(found):
    assert found.eigenvalues[0] > found.eigenvalues[1] > 0
    rebuilt = found.eigenvectors @ np.diag(found.eigenvalues) @ found.eigenvectors.T
    np.testing.assert_allclose(rebuilt, found.hessian, rtol=1e-10)
    for xi, ri, projected in zip(found.x, found.residual, found.gradients, strict=True):
        np.testing.assert_allclose(found.eigenvectors @ projected, ri * gradient(xi, found.theta), atol=1e-10)


def test_contours_are_level_sets_of_the_hessians_quadratic(found):
    for level in (0.5, 3.0, 40.0):
        steps = figure1.ellipse(found, level) @ found.eigenvectors.T  # back from the rotated space
        np.testing.assert_allclose(np.einsum("ci,ij,cj->c", steps, found.hessian, steps), level, rtol=1e-9)


def test_the_score_is_the_kernel_sum_of_claim_1_written_as_loops(found):
    inverse = np.linalg.inv(objective_hessian(found.x, found.y, found.theta))
    total = np.zeros(len(found.grid))
    for j, x in enumerate(found.grid):
        for i, (xi, yi) in enumerate(zip(found.x, found.y, strict=True)):
            k = (gradient(x, found.theta) @ inverse @ gradient(xi, found.theta)) ** 2
            assert found.kernel[j, i] == pytest.approx(k, rel=1e-8, abs=1e-18)
            total[j] += (curve(xi, *found.theta) - yi) ** 2 * k
    np.testing.assert_allclose(found.kernel_sum, total, rtol=1e-8)
    np.testing.assert_allclose(found.variance, total, rtol=1e-8)


def test_the_illustration_shows_what_the_paper_says_of_it(found):
    steep, flat = np.abs(found.directions).T
    assert (steep > flat).mean() > 0.8  # gradients lie along the direction of high curvature
    angle = np.degrees(np.arctan2(found.gradients[:, 1], found.gradients[:, 0])) % 180  # without its sign
    low, middle, high = (angle[np.abs(found.x - at).argmin()] for at in (0.5, 5.5, 10.0))
    apart = [min(abs(middle - other), 180 - abs(middle - other)) for other in (low, high)]
    assert apart[0] < apart[1]  # the middle is nearer to the right end in x, and to the left end in its gradient
    dense, sparse = (found.variance[np.abs(found.grid - at).argmin()] for at in (4.0, 10.0))
    assert sparse > 3 * dense


def test_figure_and_table_hold_three_panels_and_both_forms_of_the_score(found, tmp_path):
    figure1.draw(found).savefig(tmp_path / "figure1.png")
    frame = figure1.table(found)
    np.testing.assert_allclose(frame["variance_closed_form"], frame["variance_kernel_sum"], rtol=1e-8)
    assert list(frame["x"][[0, len(frame) - 1]]) == [0.0, 10.0]
    assert sum(name.startswith("k(x, ") for name in frame) == 3


def test_what_does_not_converge_is_an_error(monkeypatch):
    monkeypatch.setattr(figure1, "TOLERANCE", 0.0)
    with pytest.raises(figure1.NotConvergedError, match="largest gradient"):
        figure1.compute()
