"""Leverage and resampling covariance from one root, against explicit inverses."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

import cases
import rue
from rue.core import span
from rue.core.one_step import leverage
from rue.core.reach import RootReach, SolvedReach, SpanReach, condensed
from rue.core.solve import Cholesky, Dual, Eigen


class Matrix:
    """A curvature that is a plain matrix."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix, self.size, self.device = torch.tensor(matrix), len(matrix), torch.device("cpu")

    def dense(self) -> torch.Tensor:
        return self.matrix


def drawn(seed: int, size: int, rows: int, spread: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A positive definite matrix whose units differ by `spread`, a root of a covariance, and Jacobians."""
    random = np.random.default_rng(seed)
    units = spread ** random.uniform(-1, 1, size)
    square = random.normal(size=(2 * size, size)) * units
    return square.T @ square, random.normal(size=(rows, size)) / units, random.normal(size=(4, 2, size)) * units


@pytest.mark.parametrize("solver", [Cholesky(), Eigen()], ids=["with a root", "without"])
@given(
    seed=some.integers(0, 2**20),
    size=some.integers(1, 12),
    rows=some.integers(1, 30),
    spread=some.sampled_from([1.0, 1e3]),
)
def test_both_covariances_are_those_of_the_explicit_inverse(solver, seed, size, rows, spread):
    matrix, steps, jacobian = drawn(seed, size, rows, spread if solver == Cholesky() else 1.0)  # Eigen keeps units
    reach = solver.factor(Matrix(matrix), 0.0).reach(torch.tensor(steps))
    _, own, covariance, residual = reach(torch.tensor(jacobian))
    np.testing.assert_allclose(own, jacobian @ np.linalg.inv(matrix) @ jacobian.swapaxes(1, 2), rtol=1e-6, atol=1e-9)
    moved = jacobian @ steps.T
    np.testing.assert_allclose(covariance, moved @ moved.swapaxes(1, 2), rtol=1e-8, atol=1e-8)
    assert residual < 1e-6


@given(seed=some.integers(0, 2**20), rows=some.integers(1, 30))
def test_a_condensed_root_has_the_same_product(seed, rows):
    root = torch.tensor(np.random.default_rng(seed).normal(size=(rows, 7)))
    small = condensed(root)
    assert len(small) <= 7
    np.testing.assert_allclose(small.T @ small, root.T @ root, atol=1e-12)


def test_a_root_of_a_nearly_singular_matrix_is_as_good_as_a_solve_or_refused():
    values = np.logspace(-12, 0, 6)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    inverse = Cholesky().factor(Matrix((turn * values) @ turn.T), 0.0)
    reach = inverse.reach(torch.eye(6, dtype=torch.float64))
    if isinstance(reach, RootReach):
        row = torch.tensor(turn[:, -1])[None, None]
        np.testing.assert_allclose(reach(row).leverage, leverage(row, inverse)[0], rtol=1e-4)
    else:
        assert isinstance(reach, SolvedReach)


class Rows(Matrix):
    """SᵀS + D, known by its rows S."""

    def __init__(self, rows: np.ndarray, diagonal: np.ndarray, dtype: torch.dtype) -> None:
        super().__init__(rows.T @ rows + np.diag(diagonal))
        self.rows, self.diagonal, self.dtype, self.rank = torch.tensor(rows), torch.tensor(diagonal), dtype, len(rows)

    def root(self) -> Iterator[torch.Tensor]:
        return iter(self.rows.split(5))

    def penalty_diagonal(self) -> torch.Tensor:
        return self.diagonal


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(seed=some.integers(0, 2**20), size=some.integers(2, 40), count=some.integers(1, 30), fall=some.floats(0, 8))
def test_leverages_along_the_axes_of_the_rows_are_those_of_the_explicit_inverse(dtype, seed, size, count, fall):
    random = np.random.default_rng(seed)
    strength = 10 ** np.linspace(2, 2 - fall, size)  # down to eigenvalues that do not matter
    turn = np.linalg.qr(random.normal(size=(size, size)))[0]
    units = 10 ** random.uniform(-1, 1, size)
    rows = random.normal(size=(count, size)) * strength @ turn * units
    curvature = Rows(rows, units**2, dtype)
    inverse = np.linalg.inv(curvature.matrix.numpy())
    steps = random.normal(size=(3, count)) @ rows @ inverse  # as resampling has them
    reach = Dual().factor(curvature, 0.0).reach(torch.tensor(steps))
    jacobian = random.normal(size=(4, 2, size)) * units
    found = reach(torch.tensor(jacobian))
    exact, moved = jacobian @ inverse @ jacobian.swapaxes(1, 2), jacobian @ steps.T
    size_of = np.linalg.norm(exact, axis=(1, 2), keepdims=True)
    assert (np.abs(found.leverage.numpy() - exact) <= 3e-3 * size_of).all()
    spread = np.linalg.norm(jacobian / units, axis=(1, 2)).max() * np.linalg.norm(steps * units)
    np.testing.assert_allclose(found.resampling, moved @ moved.swapaxes(1, 2), atol=3e-3 * spread**2)
    inside = found.rows @ reach.steps(torch.tensor(steps)).T  # products with steps are kept
    np.testing.assert_allclose(inside, jacobian @ steps.T, atol=0.05 * spread)


def test_a_few_steps_beside_the_axes_get_axes_of_their_own_and_many_are_solved_for(monkeypatch):
    random = np.random.default_rng(0)
    rows, jacobian = random.normal(size=(3, 20)), random.normal(size=(5, 2, 20))
    dual = Dual().factor(Rows(rows, random.uniform(1, 9, 20), torch.float64), 0.0)
    beside = random.normal(size=(12, 5)) @ random.normal(size=(5, 20))  # in five directions
    reach = dual.reach(torch.tensor(beside))
    assert isinstance(reach, SpanReach)
    assert len(reach.span.axes) <= 8
    moved = jacobian @ beside.T
    found = reach(torch.tensor(jacobian))
    np.testing.assert_allclose(found.resampling, moved @ moved.swapaxes(1, 2), rtol=0.05, atol=0.1)
    np.testing.assert_allclose(found.leverage, leverage(torch.tensor(jacobian), dual)[0], rtol=1e-8)
    monkeypatch.setattr(span, "MORE", 3)
    assert isinstance(dual.reach(torch.tensor(beside)), SolvedReach)


def test_many_rows_of_which_few_axes_matter_have_the_same_leverages(monkeypatch):
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 90)) * 10 ** np.linspace(2, -18, 60)[:, None]
    dual = Dual().factor(Rows(rows, np.ones(90), torch.float64), 0.0)
    monkeypatch.setattr(span, "WHOLE", 10)
    monkeypatch.setattr(span, "MOST", 20)
    steps = torch.tensor(random.normal(size=(5, 60)) @ rows)
    reach, jacobian = dual.reach(steps), torch.tensor(random.normal(size=(10, 1, 90)))
    assert isinstance(reach, SpanReach)
    assert len(reach.span.axes) < 20
    np.testing.assert_allclose(reach(jacobian).leverage, leverage(jacobian, dual)[0], rtol=2e-3)
    monkeypatch.setattr(span, "MOST", 8)
    assert span.leading(dual.factor) is None
    assert isinstance(dual.reach(steps), SolvedReach)


def test_one_row_is_audited_as_it_is_among_others():
    case = cases.CASES["softplus"]()
    audit = rue.CalibratedRUE().fit(case.wrap(), (case.X, case.y)).audit
    together = audit(case.X_new)
    alone = [audit(case.X_new[i : i + 1]) for i in range(len(case.X_new))]
    for name in ("prediction", "std", "total_std", "score"):
        np.testing.assert_allclose(
            np.concatenate([getattr(one, name) for one in alone]), getattr(together, name), rtol=1e-6
        )
