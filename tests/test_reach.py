"""Leverage and resampling covariance from one root, against explicit inverses."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

import cases
import rue
from rue.core.one_step import leverage
from rue.core.reach import Reach, condensed
from rue.core.solve import Cholesky, Eigen


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
    own, covariance, residual = Reach.of(solver.factor(Matrix(matrix), 0.0), torch.tensor(steps))(
        torch.tensor(jacobian)
    )
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
    found = inverse.root()
    if found is not None:
        row = torch.tensor(turn[:, -1])[None, None]
        own = Reach.of(inverse, torch.eye(6, dtype=torch.float64))(row)[0]
        np.testing.assert_allclose(own, leverage(row, inverse)[0], rtol=1e-4)


def test_one_row_is_audited_as_it_is_among_others():
    case = cases.CASES["softplus"]()
    audit = rue.CalibratedRUE().fit(case.wrap(), (case.X, case.y)).audit
    together = audit(case.X_new)
    alone = [audit(case.X_new[i : i + 1]) for i in range(len(case.X_new))]
    for name in ("prediction", "std", "total_std", "score"):
        np.testing.assert_allclose(
            np.concatenate([getattr(one, name) for one in alone]), getattr(together, name), rtol=1e-6
        )
