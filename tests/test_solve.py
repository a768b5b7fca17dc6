"""Solvers and damping rules: dense = dual = iterative, and evidence for each answer."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cases
import oracles
import rue
from rue.core.errors import NotConvergedError, NotPositiveDefiniteError, SettingError
from rue.core.resample import generator
from rue.core.solve import (
    Cholesky,
    ConjugateGradient,
    Dual,
    Eigen,
    Fixed,
    MeanFraction,
    NoDamping,
    PseudoInverse,
    SmallestEigenvalue,
)
from rue.core.solve.choice import chosen_solver, invert, too_large
from rue.core.solve.dense import checked
from rue.data.opening import training_rows

SOLVERS = {
    "Cholesky": Cholesky(),
    "Eigen": Eigen(),
    "Dual": Dual(),
    "ConjugateGradient": ConjugateGradient(tolerance=1e-10),
    "ConjugateGradient without preconditioner": ConjugateGradient(tolerance=1e-10, rank=0),
    "PseudoInverse": PseudoInverse(),
}
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def test_every_solver_is_held_to_these_laws_or_has_tests_of_its_own():
    public = {kind for kind in map(vars(rue.solve).get, rue.solve.__all__) if hasattr(kind, "factor")}
    own = {
        rue.solve.Projection,
        rue.solve.Sketch,
        rue.solve.EKFAC,
        rue.solve.StreamedDual,
        rue.solve.Blocks,
        rue.solve.LiSSA,
    }
    assert public == {type(solver) for solver in SOLVERS.values()} | own


def curvature_of(name, kind="GaussNewton", **settings):
    case = cases.CASES[name]()
    rows, model = training_rows((case.X, case.y), case.wrap(**settings))
    return getattr(rue.curvature, kind)().at(model, rows)


class Matrix:
    """A curvature that is nothing but this matrix, and counts how often it is asked for."""

    device, dtype = torch.device("cpu"), torch.float64

    def __init__(self, values):
        self.matrix, self.asked = torch.as_tensor(values, dtype=torch.float64), 0
        self.size = self.rank = len(self.matrix)

    def product(self, vectors):
        self.asked += 1
        return vectors @ self.matrix

    def dense(self):
        self.asked += 1
        return self.matrix


def turned(values, seed=0):
    """A matrix with these eigenvalues, in no special directions."""
    basis, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))
    return (basis * np.asarray(values)) @ basis.T


@every_solver
@pytest.mark.parametrize("name", ["linear", "softplus", "convolution", "softmax", "recurrent"])
def test_every_solver_gives_the_explicit_inverse(solver, name):
    curvature = curvature_of(name)
    vectors = torch.randn(9, curvature.size, generator=generator(1), dtype=torch.float64)
    solved, residual = SOLVERS[solver].factor(curvature, 0.4).solve(vectors)
    expected = vectors.numpy() @ np.linalg.inv(curvature.dense().numpy() + 0.4 * np.eye(curvature.size))
    np.testing.assert_allclose(solved, expected, rtol=1e-6, atol=1e-9)
    assert residual < 1e-8


@every_solver
@pytest.mark.parametrize(
    "method", [rue.LinearRUE, lambda **s: rue.Laplace(linearised=True, **s)], ids=["RUE", "Laplace"]
)
def test_the_audit_does_not_depend_on_the_solver(solver, method):
    case = cases.convolution()
    settings = {"curvature": rue.curvature.GaussNewton(), "damping": Fixed(0.1)}
    dense = method(solver=Cholesky(), **settings).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    other = method(solver=SOLVERS[solver], **settings).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(other.std, dense.std, rtol=1e-6)


@every_solver
@pytest.mark.parametrize("damping", [0.2, 30.0])
def test_samples_have_the_inverse_as_their_covariance(solver, damping):
    """Many draws: the largest of 4×4 standardised entries stays below 5 standard errors."""
    curvature, count = curvature_of("linear"), 2_000 if "Gradient" in solver else 40_000  # iterations take their time
    draws = SOLVERS[solver].factor(curvature, damping).sample(count, generator(3)).numpy()
    expected = np.linalg.inv(curvature.dense().numpy() + damping * np.eye(curvature.size))
    error = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / len(draws))
    assert (np.abs(np.cov(draws.T) - expected) < 5 * error).all()


@given(seed=st.integers(0, 10_000), damping=st.floats(1e-3, 1e3))
def test_conjugate_gradients_solve_any_positive_definite_system(seed, damping):
    """A matrix with a wide spectrum, handed over as nothing but products."""
    curvature = Matrix(turned(np.logspace(-2, 3, 30), seed))
    wanted = torch.randn(5, 30, generator=generator(seed + 1), dtype=torch.float64)
    solved, residual = ConjugateGradient(tolerance=1e-9, rank=10).factor(curvature, damping).solve(wanted)
    expected = torch.linalg.solve(curvature.matrix + damping * torch.eye(30, dtype=torch.float64), wanted.T).T
    torch.testing.assert_close(solved, expected, rtol=1e-4, atol=1e-7)
    assert residual <= 1e-9


def test_a_right_hand_side_of_zero_is_solved_by_zero():
    curvature = curvature_of("linear")
    for solver in SOLVERS.values():
        solved, residual = solver.factor(curvature, 1.0).solve(torch.zeros(2, curvature.size))
        assert float(solved.abs().max()) == 0
        assert residual == 0


def test_iterations_that_have_not_converged_are_an_error():
    inverse = ConjugateGradient(max_steps=2, rank=0).factor(curvature_of("softplus"), 0.0)
    with pytest.raises(NotConvergedError, match="max_steps"):
        inverse.solve(torch.ones(1, 17))


def test_negative_curvature_is_met_with_an_error_by_every_solver_that_can_see_it():
    curvature = curvature_of("softplus", "Hessian", l2=0.0)
    assert float(torch.linalg.eigvalsh(curvature.dense())[0]) < 0
    for solver in (Cholesky(), Eigen()):
        with pytest.raises(NotPositiveDefiniteError, match="GaussNewton"):
            solver.factor(curvature, 0.0)
    with pytest.raises(NotPositiveDefiniteError):
        ConjugateGradient(rank=0).factor(curvature, 0.0).solve(torch.eye(17, dtype=torch.float64))


def test_the_eigensolver_reports_the_spectrum_and_its_negative_directions():
    curvature = curvature_of("softplus", "Hessian", l2=0.0)
    values = np.linalg.eigvalsh(curvature.dense().numpy())
    facts = Eigen().factor(curvature, 10.0).describe()
    np.testing.assert_allclose(facts["spectrum"], values, atol=1e-9)
    assert facts["negative_directions"] == (np.array(facts["spectrum"]) < 0).sum() > 0


@pytest.mark.parametrize("kind", ["Hessian", "GaussNewton"])
def test_the_papers_rule_lifts_the_smallest_eigenvalue_to_one_and_no_further(kind):
    curvature = curvature_of("softplus", kind, l2=0.0)
    value, reason, _ = SmallestEigenvalue()(curvature)
    assert value == pytest.approx(oracles.paper_damping(curvature.dense().numpy()))
    assert "smallest eigenvalue" in reason


def test_the_papers_rule_adds_nothing_to_a_matrix_that_is_large_enough():
    assert SmallestEigenvalue()(curvature_of("linear", l2=5.0)).value == 0


@pytest.mark.parametrize("kind", ["Hessian", "GaussNewton"])
def test_lanczos_finds_the_same_smallest_eigenvalue(kind, monkeypatch):
    dense = SmallestEigenvalue()(curvature_of("convolution", kind))
    monkeypatch.setattr("rue.solve.damping.DENSE_SIZE", 1)
    other = SmallestEigenvalue()(curvature_of("convolution", kind))
    assert other.value == pytest.approx(dense.value, rel=1e-4, abs=1e-4)
    assert ("Lanczos" if kind == "Hessian" else "fewer rows than parameters") in other.reason
    few = SmallestEigenvalue(20.0)(curvature_of("linear"))  # more rows than parameters: nothing is known in advance
    assert "Lanczos" in few.reason


def test_a_fraction_of_the_mean_eigenvalue_is_that():
    curvature = curvature_of("softplus")
    expected = 0.1 * np.linalg.eigvalsh(curvature.dense().numpy()).mean()
    assert MeanFraction(0.1)(curvature_of("softplus")).value == pytest.approx(expected)  # from rows
    assert MeanFraction(0.1)(curvature).value == pytest.approx(expected)  # from the matrix


def test_the_trace_of_a_hessian_is_estimated_without_the_matrix():
    curvature = curvature_of("softplus", "Hessian")
    estimate = curvature.trace()
    assert estimate == pytest.approx(float(curvature.dense().trace()), rel=0.2)
    assert curvature.trace() == pytest.approx(float(curvature.dense().trace()), rel=1e-12)


def test_fixed_and_no_damping_are_what_they_say():
    curvature = curvature_of("linear")
    assert Fixed(0.3)(curvature).value == 0.3
    assert NoDamping()(curvature).value == 0.0


def test_the_solver_is_chosen_by_size(monkeypatch):
    monkeypatch.setattr("rue.solve.choice.SMALL", 1)
    wide = curvature_of("convolution")  # 58 parameters, 24 outputs of rows
    assert isinstance(chosen_solver(wide, 0.0), Dual)
    assert isinstance(chosen_solver(curvature_of("convolution", l2=0.0), 0.0), Cholesky)
    assert isinstance(chosen_solver(curvature_of("linear"), 0.0), Cholesky)
    monkeypatch.setattr("rue.solve.choice.LARGE", 1)
    assert isinstance(chosen_solver(wide, 0.0), ConjugateGradient)
    monkeypatch.undo()
    assert isinstance(chosen_solver(wide, 0.0), Cholesky)


def test_the_units_of_the_features_do_not_matter():
    """A column of large numbers beside one of small ones is not a singular curvature."""
    case = cases.linear()
    units = torch.tensor([1e-6, 1.0, 1e7], dtype=torch.float64)
    scaled = copy.deepcopy(case.module)
    with torch.no_grad():
        scaled.weight.div_(units)
    plain = rue.LinearRUE(damping=NoDamping()).fit(case.wrap(l2=0.0), (case.X, case.y)).audit(case.X_new)
    model = rue.wrap(scaled, loss="squared_error", l2=0.0)
    other = rue.LinearRUE().fit(model, (case.X * units, case.y)).audit(case.X_new * units)
    np.testing.assert_allclose(other.std, plain.std, rtol=1e-6)
    assert other.facts["damping"] == 0


def test_iterations_damp_what_they_could_not_notice_to_be_singular():
    case = cases.convolution()
    with pytest.warns(rue.errors.RueWarning, match="singular without damping"):
        auditor = rue.LinearRUE(solver=ConjugateGradient()).fit(case.wrap(l2={"*weight": 0.3}), (case.X, case.y))
    assert auditor.facts["damping"] > 0


def test_a_float32_model_is_solved_by_iterations_with_their_default_tolerance():
    case = cases.convolution()
    exact = rue.LinearRUE().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    model = rue.wrap(copy.deepcopy(case.module).float(), loss="squared_error", l2=case.l2)
    audit = rue.LinearRUE(solver=ConjugateGradient()).fit(model, (case.X, case.y)).audit(case.X_new)
    assert audit.facts["tolerance"] == 1e-4
    assert audit.facts["residual"] <= 1e-4
    np.testing.assert_allclose(audit.std, exact.std, rtol=1e-2)


@pytest.mark.parametrize("solver", [Cholesky(), Dual(), ConjugateGradient(1e-8)], ids=repr)
def test_an_audit_that_solves_for_its_inputs_carries_the_residual(solver):
    case = cases.convolution()
    method = rue.Laplace(linearised=True, curvature=rue.curvature.GaussNewton(), damping=NoDamping(), solver=solver)
    audit = method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    assert 0 < audit.facts["residual"] < 1e-6


@pytest.mark.parametrize(
    ("at_once", "lengths"), [(1, [4, 4, 4, 4, 4, 4]), (2, [4, 4, 4, 4, 4, 4]), (5, [10, 10, 4])], ids=str
)
def test_the_dual_form_streams_its_rows_where_they_do_not_fit(monkeypatch, at_once, lengths):
    """58 parameters, 12 rows of 2 outputs that are read a few at a time, and room for five outputs in a block."""
    curvature = curvature_of("convolution")
    vectors = torch.randn(3, 58, generator=generator(1), dtype=torch.float64)
    monkeypatch.setattr("rue.solve.dual.free_bytes", lambda _: 16 * 8 * 58 * 5)
    monkeypatch.setattr("rue.core.chunks.CHUNK_BYTES", 8 * 58 * 2 * at_once)
    inverse = Dual().factor(curvature, 0.2)
    assert [len(block) for block in inverse.rows()] == lengths
    solved, residual = inverse.solve(vectors)
    expected = vectors.numpy() @ np.linalg.inv(curvature.dense().numpy() + 0.2 * np.eye(58))
    np.testing.assert_allclose(solved, expected, rtol=1e-8, atol=1e-10)
    assert residual < 1e-8


def test_a_dense_matrix_that_does_not_fit_is_refused_with_the_sizes(monkeypatch):
    monkeypatch.setattr("rue.solve.dense.free_bytes", lambda _: 1000)
    for solver in (Cholesky(), Eigen()):
        with pytest.raises(rue.errors.SettingError, match=r"would need .* are free; use solver=Dual"):
            solver.factor(curvature_of("softplus"), 1.0)


def test_free_memory_is_known():
    from rue.core.memory import free_bytes

    assert 2**26 < free_bytes(torch.device("cpu")) < 2**50


def test_a_float32_penalty_far_below_the_curvature_still_solves():
    """Factored in float64: a float32 Cholesky would fail here."""
    case = cases.convolution()
    model = rue.wrap(case.module.float(), loss="squared_error", l2=1e-6)
    audit = rue.LinearRUE(solver=Cholesky()).fit(model, (case.X, case.y)).audit(case.X_new)
    assert np.isfinite(audit.std).all()
    assert audit.facts["residual"] < 1e-6


@pytest.mark.parametrize("worst", range(4))
def test_the_residual_of_a_solve_is_that_of_its_worst_row(worst):
    """The matrix is the identity, and a solve is wrong by one part in so many."""
    wrong = torch.full((4, 1), 1e-9, dtype=torch.float64)
    wrong[worst] = 3e-7
    wanted = torch.randn(4, 5, generator=generator(0), dtype=torch.float64)
    assert checked(lambda v: v, wanted, lambda v: v * (1 + wrong), 0.0).residual == pytest.approx(3e-7, rel=1e-6)


@pytest.mark.parametrize("worst", range(4))
@pytest.mark.parametrize("size", [2.0, float("nan")])
def test_a_solve_that_fails_for_one_row_is_refused(worst, size):
    wrong = torch.zeros(4, 1, dtype=torch.float64)
    wrong[worst] = size
    with pytest.raises(NotConvergedError):
        checked(lambda v: v, torch.ones(4, 5, dtype=torch.float64), lambda v: v * (1 + wrong), 0.0)


def test_a_solve_that_is_not_good_enough_is_repeated_for_what_it_left():
    wanted = torch.randn(3, 5, generator=generator(0), dtype=torch.float64)
    solved, residual = checked(lambda v: v, wanted, lambda v: 0.999 * v, 0.0)  # a thousandth is left each time
    assert residual < 1e-6
    torch.testing.assert_close(solved, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("size", [2.0**-60, 1.0, 2.0**60])
def test_a_solve_that_leaves_a_thousandth_is_refused_in_any_units(size):
    """It misses a direction, so that repeating it does not help; a thousandth of one row is along that direction."""
    spectrum = np.array([1.0, 3.0, 10.0, 50.0, 100.0])
    matrix, inverse = (torch.from_numpy(turned(values)) for values in (size * spectrum, 1 / (size * spectrum)))
    basis = torch.linalg.qr(torch.randn(5, 5, generator=generator(0), dtype=torch.float64)).Q
    missed, norm = torch.outer(basis[0], basis[0]), float(100 * size)
    for share, fine in ((0.0, True), (1e-7, True), (1e-5, False), (1e-3, False)):
        wanted = torch.stack([basis[1], basis[1] + share * basis[0], basis[2]])

        def solve(rows):
            return (rows - rows @ missed) @ inverse

        if not fine:
            with pytest.raises(NotConvergedError, match="relative residual"):
                checked(lambda rows: rows @ matrix, wanted, solve, norm)
            continue
        solved, residual = checked(lambda rows: rows @ matrix, wanted, solve, norm)
        assert residual == pytest.approx(share, rel=1e-6, abs=1e-12)
        torch.testing.assert_close(solved @ matrix, wanted, rtol=0, atol=2e-7)


def test_iterations_report_the_residual_of_their_worst_row():
    curvature = curvature_of("softplus")
    vectors = torch.randn(6, curvature.size, generator=generator(1), dtype=torch.float64)
    solved, residual = ConjugateGradient(tolerance=1e-2, rank=0).factor(curvature, 0.4).solve(vectors)
    left = solved.numpy() @ (curvature.dense().numpy() + 0.4 * np.eye(curvature.size)) - vectors.numpy()
    relative = np.linalg.norm(left, axis=1) / np.linalg.norm(vectors.numpy(), axis=1)
    assert residual == pytest.approx(relative.max(), rel=1e-6)
    assert relative.max() > 1.1 * relative.min()


def test_iterations_that_are_not_a_number_are_refused():
    broken = Matrix(torch.full((3, 3), torch.nan))
    with pytest.raises(NotConvergedError, match="nan"):
        ConjugateGradient(rank=0).factor(broken, 1.0).solve(torch.ones(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("size", [2.0**-40, 1.0, 2.0**40])
@pytest.mark.parametrize("solver", [Cholesky(), Eigen(), PseudoInverse(most=0)], ids=repr)
def test_a_singular_curvature_is_refused_and_a_regular_one_inverted_in_any_units(solver, size):
    spectrum = np.logspace(0, 6, 12)
    vectors = np.random.default_rng(1).normal(size=(5, 12))
    regular = size * turned(spectrum)
    solved, residual = solver.factor(Matrix(regular), 0.0).solve(torch.from_numpy(vectors))
    np.testing.assert_allclose(solved, vectors @ turned(1 / spectrum) / size, rtol=1e-6, atol=1e-8 / size)
    assert residual < 1e-6
    X = np.random.default_rng(2).normal(size=(30, 6))
    X[:, -1] = X[:, 0]  # features that repeat each other
    for singular in (X.T @ X, turned([*spectrum, -1e-3]), turned([*spectrum, -1e9])):
        with pytest.raises(NotPositiveDefiniteError):
            solver.factor(Matrix(size * singular), 0.0)


@pytest.mark.parametrize("solver", [Cholesky(), Eigen(), PseudoInverse(most=0)], ids=repr)
@pytest.mark.parametrize("entry", [0.0, -2.0])
@pytest.mark.parametrize("place", range(3))
def test_a_parameter_that_nothing_bends_or_that_bends_down_is_refused(solver, entry, place):
    diagonal = np.array([1.0, 3.0, 0.5])
    diagonal[place] = entry
    with pytest.raises(NotPositiveDefiniteError):
        solver.factor(Matrix(np.diag(diagonal)), 0.0)
    solved = solver.factor(Matrix(np.diag(diagonal)), 2.5).solve(torch.eye(3)).vectors
    np.testing.assert_allclose(solved, np.diag(1 / (diagonal + 2.5)))


def test_a_factor_that_is_no_number_is_refused_even_where_the_factorisation_reports_success(monkeypatch):
    """As libraries for GPUs may."""
    whole = torch.linalg.cholesky_ex

    def silent(matrix):
        factor, failed = whole(matrix)
        factor[-1] = torch.nan
        return factor, torch.zeros_like(failed)

    monkeypatch.setattr("torch.linalg.cholesky_ex", silent)
    with pytest.raises(NotPositiveDefiniteError):
        Cholesky().factor(Matrix(np.eye(3)), 0.0)


@every_solver
def test_only_iterations_ask_for_the_curvature_again_when_they_solve(solver):
    curvature = curvature_of("linear")
    if solver != "Dual":  # which takes the rows of the curvature instead
        curvature = Matrix(curvature.dense())
    inverse = SOLVERS[solver].factor(curvature, 0.5)
    before = getattr(curvature, "asked", 0)
    inverse.solve(torch.eye(curvature.size, dtype=torch.float64))
    assert inverse.iterative == (getattr(curvature, "asked", 0) > before)
    assert inverse.iterative == ("Gradient" in solver)


def test_iterations_take_any_sensible_settings_and_no_others():
    for wrong in ({"tolerance": 0.0}, {"tolerance": 1.0}, {"tolerance": -1e-3}, {"max_steps": 0}, {"rank": -1}):
        with pytest.raises(SettingError, match="expected 0 < tolerance < 1"):
            ConjugateGradient(**wrong)
    wanted = torch.randn(2, 5, generator=generator(0), dtype=torch.float64)
    inverse = ConjugateGradient(max_steps=1, rank=0).factor(Matrix(3 * np.eye(5)), 1.0)  # one step is enough for it
    torch.testing.assert_close(inverse.solve(wanted).vectors, wanted / 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_iterations_are_as_exact_as_asked_by_default(dtype):
    """1e-6, and 1e-4 for products in float32; they stop soon after."""
    curvature = Matrix(turned(np.logspace(0, 4, 40)))
    curvature.dtype = dtype
    wanted = torch.randn(3, 40, generator=generator(0), dtype=torch.float64)
    residual = ConjugateGradient(rank=0).factor(curvature, 0.0).solve(wanted).residual
    limit = 1e-4 if dtype == torch.float32 else 1e-6
    assert limit / 100 < residual <= limit


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_a_preconditioner_of_the_rank_of_the_curvature_leaves_a_few_steps(damping):
    """Six steep directions over a flat floor take seven steps without one, and two with one."""
    steep = 10.0 ** np.arange(1, 7)
    curvature = Matrix(turned([*steep, *np.zeros(34)]))
    wanted = torch.randn(3, 40, generator=generator(0), dtype=torch.float64)
    if damping == 0:  # nothing can be solved outside the steep directions
        wanted = curvature.product(wanted)
    solved = ConjugateGradient(max_steps=2, rank=6).factor(curvature, damping).solve(wanted).vectors
    expected = wanted.numpy() @ turned([*(1 / (steep + damping)), *np.full(34, 1 / damping if damping else 0.0)])
    np.testing.assert_allclose(solved, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    with pytest.raises(NotConvergedError):
        ConjugateGradient(max_steps=2, rank=0).factor(curvature, damping).solve(wanted)


def test_sampling_by_iterations_needs_a_root_and_a_diagonal_penalty():
    case = cases.linear()
    coupled = case.wrap(l2=None, penalty=lambda named: named["weight"].sum().square())
    rows, model = training_rows((case.X, case.y), coupled)
    for curvature in (curvature_of("linear", "Hessian"), rue.curvature.GaussNewton().at(model, rows)):
        with pytest.raises(SettingError, match="sampling without a dense matrix"):
            ConjugateGradient().factor(curvature, 1.0).sample(2, generator(0))


def test_a_penalty_that_couples_parameters_is_not_damped_where_it_need_not_be():
    case = cases.linear()
    coupled = case.wrap(l2=None, penalty=lambda named: named["weight"].sum().square())
    rows, model = training_rows((case.X, case.y), coupled)
    curvature = rue.curvature.GaussNewton().at(model, rows)
    for solver in (None, ConjugateGradient(1e-10)):
        inverse, damped = invert(curvature, None, solver)
        assert damped.value == 0
        np.testing.assert_allclose(
            inverse.solve(torch.eye(4)).vectors, np.linalg.inv(curvature.dense().numpy()), rtol=1e-6, atol=1e-9
        )


def test_iterations_damp_only_where_a_parameter_has_no_penalty(monkeypatch):
    """They would not notice a singular curvature; a dense matrix shows it, so nothing is damped in advance."""
    for solver, penalties, damps in (
        (ConjugateGradient(), 0.3, False),
        (ConjugateGradient(), {"*weight": 0.3}, True),
        (None, {"*weight": 0.3}, False),
    ):
        damped = invert(curvature_of("convolution", l2=penalties), None, solver).damped
        assert (damped.value > 0) is damps
        assert bool(damped.warning) is damps
    monkeypatch.setattr("rue.core.solve.choice.SMALL", 1)
    monkeypatch.setattr("rue.core.solve.choice.LARGE", 30)  # below its 58 parameters, above its 24 outputs of rows
    inverse, damped = invert(curvature_of("convolution", l2={"*weight": 0.3}), None, None)
    assert damped.value > 0
    assert not inverse.iterative  # with a damping on every parameter the dual form will do


@pytest.mark.parametrize(
    ("solver", "damps"),
    [(Cholesky(), False), (Eigen(), False), (PseudoInverse(), False), (ConjugateGradient(), True), (Dual(), True)],
    ids=repr,
)
def test_what_the_data_determine_is_damped_only_for_a_solver_that_cannot_tell(solver, damps):
    """The bias has no penalty; iterations do not notice what is singular, and the dual form needs a penalty."""
    curvature = curvature_of("linear", l2={"weight": 0.3})
    inverse, damped = invert(curvature, None, solver)
    assert (damped.value > 0) is damps
    assert bool(damped.warning) is damps
    expected = np.linalg.inv(curvature.dense().numpy() + damped.value * np.eye(4))
    np.testing.assert_allclose(inverse.solve(torch.eye(4)).vectors, expected, rtol=1e-5, atol=1e-8)


class OwnShape(torch.nn.Module):
    """Flattens by hand, which torch cannot do without rows."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.reshape(len(x), -1))


@pytest.mark.parametrize("kind", ["GaussNewton", "Hessian"])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_logits_of_a_model_that_needs_rows_are_counted(classes, kind):
    """One row will do, and each logit that may rise with the others is a flat direction for each of its parameters."""
    X = torch.randn(30, 2, generator=generator(0), dtype=torch.float64)
    net = OwnShape(torch.nn.Linear(2, classes).double())
    with torch.no_grad():
        net.inner.weight.zero_()
    model = rue.wrap(net, loss="cross_entropy", l2=0.0)
    rows, model = training_rows((X, torch.arange(30) % classes), model)
    curvature = getattr(rue.curvature, kind)().at(model, rows)
    assert curvature.logits == classes
    inverse, damped = invert(curvature, None, None)
    assert damped.value == 0
    assert inverse.describe() == {"solver": "PseudoInverse", "flat_directions": 3}


def test_a_model_without_softmax_has_no_logits_of_which_only_differences_matter():
    assert curvature_of("linear").logits == curvature_of("bernoulli").logits == 0


def test_softmax_without_a_penalty_leaves_out_what_moves_no_probability():
    case = cases.softmax()
    net = torch.nn.Linear(2, 3).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0], [0.5, 0.5]]))
    rows, model = training_rows((case.X, case.y), rue.wrap(net, loss="cross_entropy", l2=0.0))
    curvature = rue.curvature.GaussNewton().at(model, rows)
    inverse, damped = invert(curvature, None, None)
    assert damped.value == 0
    assert not damped.warning
    assert inverse.describe() == {"solver": "PseudoInverse", "flat_directions": 3}
    apart = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], dtype=torch.float64)
    J = torch.einsum("ak,ckd->cad", apart, torch.from_numpy(oracles.output_jacobian(net, case.X))).flatten(0, 1)
    wanted = J.numpy() @ np.linalg.pinv(curvature.dense().numpy()) @ J.numpy().T
    np.testing.assert_allclose(inverse.solve(J).vectors @ J.T, wanted, atol=1e-9)
    for solver in (Cholesky(), ConjugateGradient()):  # a solver that was asked for is damped instead
        assert invert(curvature, None, solver).damped.value > 0


def test_a_curvature_without_any_bend_is_refused_by_iterations():
    with pytest.raises(NotPositiveDefiniteError):
        ConjugateGradient(rank=0).factor(Matrix(np.zeros((3, 3))), 0.0).solve(torch.ones(1, 3))


def test_dampings_take_positive_numbers_and_no_others():
    for value in (-1e-9, float("inf"), float("nan")):
        with pytest.raises(SettingError, match="finite number of at least 0"):
            Fixed(value)
    assert Fixed(0)(curvature_of("linear")).value == 0
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(SettingError, match="floor must be above 0"):
            SmallestEigenvalue(wrong)
        with pytest.raises(SettingError, match="fraction must be above 0"):
            MeanFraction(wrong)


def test_a_model_is_too_large_where_neither_its_parameters_nor_its_outputs_of_rows_fit(monkeypatch):
    case = cases.convolution()  # 58 parameters, 24 outputs of 12 rows
    rows, model = training_rows((case.X, case.y), case.wrap())
    for limit, beyond in ((23, True), (24, False), (57, False), (58, False)):
        monkeypatch.setattr("rue.core.solve.choice.LARGE", limit)
        assert too_large(model, rows) is beyond
    case = cases.linear()  # 4 parameters, 24 rows
    rows, model = training_rows((case.X, case.y), case.wrap())
    for limit, beyond in ((3, True), (4, False)):
        monkeypatch.setattr("rue.core.solve.choice.LARGE", limit)
        assert too_large(model, rows) is beyond


def test_the_dual_form_is_no_more_exact_than_rounding_allows():
    """A hundred rows, nearly copies of each other, far steeper than the penalty: what rounding leaves is no failure."""
    rng = np.random.default_rng(0)
    X = 1e3 * (rng.normal(size=(1, 150)) + 1e-3 * rng.normal(size=(100, 150)))
    net = torch.nn.Linear(150, 1, bias=False).double()
    rows, model = training_rows((X, rng.normal(size=100)), rue.wrap(net, loss="squared_error", l2=1e-3))
    vectors = torch.from_numpy(rng.normal(size=(4, 150)))
    solved = Dual().factor(rue.curvature.GaussNewton().at(model, rows), 0.0).solve(vectors).vectors
    across = vectors - vectors @ torch.from_numpy(np.linalg.pinv(X) @ X)  # the penalty alone bends these directions
    np.testing.assert_allclose(across @ solved.T, across @ vectors.T / 1e-3, rtol=1e-3)


@pytest.mark.parametrize("d", [3, 40])
def test_a_direction_is_flat_relative_to_the_steepest_one(d):
    """Equal correlations: one eigenvalue of about d, all others 1 − r; each parameter in units of its own."""
    units = np.logspace(-3, 3, d)
    for share, flat in ((1e-7, 0), (3e-11, 0), (3e-12, d - 1), (0.0, d - 1)):
        matrix = (np.ones((d, d)) * (1 - share * d) + share * d * np.eye(d)) * np.outer(units, units)
        if flat:
            with pytest.raises(NotPositiveDefiniteError, match=f"{flat} of {d} directions"):
                PseudoInverse(most=flat - 1).factor(Matrix(matrix), 0.0)
        assert PseudoInverse(most=flat).factor(Matrix(matrix), 0.0).describe()["flat_directions"] == flat


def test_the_pseudo_inverse_is_exact_for_what_flat_directions_do_not_move():
    """Features that repeat each other, and one that is always zero, in units of their own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 5)) * np.array([1e-4, 1.0, 1e3, 1.0, 10.0])
    X = np.hstack([X, np.zeros((20, 1))])
    inverse = PseudoInverse(most=3).factor(Matrix(X.T @ X), 0.0)
    hat = X @ np.linalg.pinv(X)
    solved, residual = inverse.solve(torch.from_numpy(X))
    np.testing.assert_allclose(solved.numpy() @ X.T, hat, atol=1e-9)
    assert residual < 1e-9
    moved = inverse.sample(40_000, generator(0)).numpy() @ X.T
    error = np.sqrt((hat**2 + np.outer(np.diag(hat), np.diag(hat))) / len(moved))
    assert (np.abs(np.cov(moved.T) - hat) < 5 * error).all()
    for few in (0, 2):
        with pytest.raises(NotPositiveDefiniteError, match="3 of 6 directions"):
            PseudoInverse(most=few).factor(Matrix(X.T @ X), 0.0)
    with pytest.raises(NotPositiveDefiniteError):
        PseudoInverse().factor(Matrix(turned([1.0, 2.0, -1e-6])), 0.0)


@pytest.mark.parametrize("d", [100, 300])
def test_the_pseudo_inverse_is_no_more_exact_than_rounding_allows(d):
    """Steep along one direction, almost flat along all others: a·I + 11ᵀ has an inverse in closed form."""
    vectors = torch.randn(15, d, generator=generator(0), dtype=torch.float64)
    for a in (1e-3, 1.3e-11 * d):
        inverse = PseudoInverse(most=0).factor(Matrix(a * np.eye(d) + np.ones((d, d))), 0.0)
        solved, residual = inverse.solve(vectors)
        wanted = vectors.numpy() / a - vectors.numpy().sum(1, keepdims=True) / (a * (a + d))
        np.testing.assert_allclose(solved, wanted, rtol=0, atol=1e-3 * np.abs(wanted).max())
        assert residual <= 1e-6


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_one_steep_direction_is_enough_for_a_pseudo_inverse(size):
    """All parameters move as one, or there is but one."""
    one = PseudoInverse(most=0).factor(Matrix([[size]]), 0.0)
    np.testing.assert_allclose(one.solve(torch.tensor([[3.0], [-2.0]])).vectors, [[3 / size], [-2 / size]])
    along = np.array([1.0, -2.0, 0.5])
    same = PseudoInverse(most=2).factor(Matrix(size * np.outer(along, along)), 0.0)
    solved = same.solve(torch.from_numpy(np.outer([1.0, 4.0], along))).vectors
    np.testing.assert_allclose(solved.numpy() @ along, np.array([1.0, 4.0]) / size)
