"""Leave-one-out by influence against models that are really fitted without each row or group."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import oracles
import rue
from cases import CASES
from rue.calibrate.leaving_one_out import compare_with_refits, leave_one_out
from rue.core.concepts import Solution
from rue.core.errors import NumericalError, RueWarning
from rue.core.one_step import left_out, step_without
from rue.core.resample import Poisson
from rue.core.solve import Cholesky, ConjugateGradient, Dual, Fixed, NoDamping
from rue.data.opening import training_rows
from snapshot import changed, module_picture, world_picture

seed = st.integers(0, 10_000)
outputs = st.integers(1, 3)
groups = st.sampled_from([None, 9, 20])


class Linear(nn.Module):
    """f(x) = xθ for inputs (m, k, d): outputs that share all parameters."""

    def __init__(self, theta):
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(theta, dtype=torch.float64))

    def forward(self, x):
        return x @ self.theta


def ridge(design, y, weight, l2):
    """θ (d,) from design (n, k, d), targets (n, k) and weights (n,), as least squares with added rows."""
    n, k, d = design.shape
    root = np.sqrt(weight)[:, None]
    rows = np.vstack([(root[..., None] * design).reshape(n * k, d), np.sqrt(l2) * np.eye(d)])
    return np.linalg.lstsq(rows, np.concatenate([(root * y).ravel(), np.zeros(d)]), rcond=None)[0]


def problem(seed, k=1, groups=None, n=40, d=3, l2=0.4):
    """A fitted model and its data: weights of which some are zero, and groups whose rows lie apart."""
    random = np.random.default_rng(seed)
    design = random.normal(size=(n, k, d))
    y = design.sum(2) + random.standard_t(3, size=(n, k))
    weight = random.uniform(0.3, 2.0, size=n) * (random.uniform(size=n) > 0.1)
    group = np.arange(n) if groups is None else random.permutation(np.arange(n) % groups)
    model = rue.wrap(Linear(ridge(design, y, weight, l2)), loss="squared_error", l2=l2)
    return model, rue.Data(design, y, weight, None if groups is None else group), group, l2


def refitted(data, kept, l2):
    return ridge(data.X[kept], data.y[kept], data.weight[kept], l2)


def rows_of(values, k):
    return values.reshape(-1, k)


@settings(max_examples=12)
@given(seed, outputs, groups)
def test_for_ridge_regression_left_out_rows_are_those_of_refits(seed, k, groups):
    model, data, group, l2 = problem(seed, k, groups)
    found = leave_one_out(model, data)
    for label in np.unique(group):
        out = group == label
        says = data.X[out] @ refitted(data, ~out, l2)
        np.testing.assert_allclose(rows_of(found.prediction, k)[out], says, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(rows_of(found.residual, k)[out], says - data.y[out], rtol=1e-8, atol=1e-9)
        errors = 0.5 * ((says - data.y[out]) ** 2).sum(1)
        np.testing.assert_allclose(found.loss[out], errors, rtol=1e-8, atol=1e-9)


@given(seed, outputs, groups)
def test_leverage_is_how_far_a_fit_follows_its_own_target(seed, k, groups):
    model, data, _, l2 = problem(seed, k, groups, n=24)
    found = leave_one_out(model, data)
    for i in range(3):
        follows = 0.0
        for j in range(k):
            moved = data.y.copy()
            moved[i, j] += 1.0
            step = ridge(data.X, moved, data.weight, l2) - ridge(data.X, data.y, data.weight, l2)
            follows += data.X[i, j] @ step
        assert found.leverage[i] == pytest.approx(follows, rel=1e-8, abs=1e-10)
    assert found.effective_parameters == pytest.approx(found.leverage.sum(), rel=1e-12)
    assert 0 < found.effective_parameters < 3


@settings(max_examples=10)
@given(seed, groups)
def test_refits_of_a_ridge_regression_move_as_influence_says(seed, groups):
    model, data, _, l2 = problem(seed, groups=groups)
    count = groups or 20
    compared = compare_with_refits(
        model, data, lambda kept: rue.wrap(Linear(refitted(data, kept, l2)), loss="squared_error", l2=l2), count=count
    )
    assert compared.refits == count
    assert len(compared.row) == (20 if groups is None else 40)
    assert compared.correlation == pytest.approx(1.0, abs=1e-8)
    assert compared.slope == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(compared.influence, compared.refit, rtol=1e-8, atol=1e-9)


def logistic(outputs, targets):
    return nn.functional.softplus(outputs[:, 0]) - targets * outputs[:, 0]


def poisson(outputs, targets):
    return outputs[:, 0].exp() - targets * outputs[:, 0]


def trained(net, loss, X, y, l2):
    """To a gradient norm of 1e-8, from where the net is now: Newton's method, downwards in every direction."""
    net = copy.deepcopy(net)
    names, shapes = zip(*((name, p.shape) for name, p in net.named_parameters()), strict=True)

    def objective(theta):
        parts = theta.split([shape.numel() for shape in shapes])
        state = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        return loss(torch.func.functional_call(net, state, X), y).sum() + 0.5 * l2 * theta.square().sum()

    gradient = torch.func.grad(objective)
    theta = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    for _ in range(300):
        slope = gradient(theta)
        if slope.norm() < 1e-8:
            torch.nn.utils.vector_to_parameters(theta, net.parameters())
            return net
        values, vectors = torch.linalg.eigh(torch.func.jacrev(gradient)(theta))
        step = vectors @ (vectors.T @ slope / values.abs())
        while slope.norm() > 1e-4 and objective(theta - step) > objective(theta) - 0.1 * slope @ step:
            step = step / 2
        theta = theta - step
    raise AssertionError(f"gradient norm {slope.norm():.1e}")


def compared_with_retraining(net, loss, X, y, l2, seed=0):
    net = trained(net, loss, X, y, l2)

    def wrapped(net):
        return rue.wrap(net, loss=loss, l2=l2)

    return compare_with_refits(
        wrapped(net), (X, y), lambda kept: wrapped(trained(net, loss, X[kept], y[kept], l2)), seed=seed
    )


def table(n, p, seed):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, p, generator=generator, dtype=torch.float64)
    return X, X[:, 0] - 0.5 * X[:, 1], generator


@pytest.mark.parametrize("loss", [logistic, poisson])
def test_twenty_refits_of_a_generalised_linear_model_move_nearly_so(loss):
    X, rate, generator = table(150, 4, seed=0)
    y = (
        torch.bernoulli(rate.sigmoid(), generator=generator)
        if loss is logistic
        else torch.poisson(rate.exp(), generator=generator)
    )
    compared = compared_with_retraining(nn.Linear(4, 1).double(), loss, X, y, 0.5)
    assert compared.refits == 20
    assert compared.correlation >= 0.98
    assert compared.slope == pytest.approx(1.0, abs=0.15)


def softmax(penalty, seed=0, n=90):
    """Three classes by a linear softmax model at its optimum, under l2 = (on weights, on biases)."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2))
    y = np.argmax(X @ random.normal(size=(2, 3)) + random.gumbel(size=(n, 3)), axis=1)
    coefficients = np.repeat(penalty, [6, 3])
    J = oracles.softmax_rows(X, 3)
    return X, y, J, coefficients, oracles.softmax_fit(J, y, coefficients)


def softmax_model(theta, penalty):
    net = nn.Linear(2, 3).double()
    torch.nn.utils.vector_to_parameters(torch.tensor(theta), net.parameters())
    return rue.wrap(net, loss="cross_entropy", l2={"weight": penalty[0], "bias": penalty[1]})


SOFTMAX_PENALTIES = pytest.mark.parametrize("penalty", [(0.0, 0.0), (0.5, 0.0)], ids=["none", "none on the bias"])


@SOFTMAX_PENALTIES
def test_logits_that_may_rise_together_are_left_out_of_the_curvature_and_not_damped(penalty):
    X, y, J, coefficients, theta = softmax(penalty)
    found = leave_one_out(softmax_model(theta, penalty), (X, y))
    logits, leverage = oracles.softmax_left_out(J, y, theta, coefficients)
    np.testing.assert_allclose(
        found.prediction - found.prediction.mean(1, keepdims=True),
        logits - logits.mean(1, keepdims=True),
        rtol=1e-8,
        atol=1e-10,
    )
    np.testing.assert_allclose(found.leverage, leverage, rtol=1e-8, atol=1e-10)
    assert found.facts["damping"] == 0
    assert found.facts["flat_directions"] == (3 if penalty == (0.0, 0.0) else 1)


def test_without_a_penalty_the_effective_parameters_of_softmax_are_those_that_differences_have():
    X, y, _, _, theta = softmax((0.0, 0.0))
    found = leave_one_out(softmax_model(theta, (0.0, 0.0)), (X, y))
    assert found.effective_parameters == pytest.approx(6, abs=1e-8)  # 9, of which 3 move no probability


@SOFTMAX_PENALTIES
def test_refits_of_a_softmax_model_move_as_influence_says(penalty):
    X, y, J, coefficients, theta = softmax(penalty, n=900)  # so many that one step is within two per cent of a refit

    def refit(kept):
        return softmax_model(oracles.softmax_fit(J[kept], y[kept], coefficients, theta), penalty)

    compared = compare_with_refits(softmax_model(theta, penalty), (X, y), refit, count=20)
    said, done = (
        change - change.mean(1, keepdims=True) for change in (compared.influence_change, compared.refit_change)
    )
    assert np.corrcoef(said.ravel(), done.ravel())[0, 1] > 0.999
    assert (said * done).sum() / (said**2).sum() == pytest.approx(1, abs=0.02)


def softplus_network(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(2, 20), nn.Softplus(), nn.Linear(20, 1)).double()


def half_square(outputs, targets):
    return 0.5 * (outputs[:, 0] - targets).square()


SLOW = [pytest.param(seed, l2, marks=pytest.mark.slow) for seed in (1, 2) for l2 in (0.1, 0.5)]


@pytest.mark.training
@pytest.mark.parametrize(("seed", "l2"), [(0, 0.5), *SLOW])
def test_twenty_refits_of_a_converged_network_move_much_as_influence_says(seed, l2):
    X, line, generator = table(200, 2, seed)
    y = (2 * line).sin() + 0.3 * torch.randn(200, generator=generator, dtype=torch.float64)
    compared = compared_with_retraining(softplus_network(seed), half_square, X, y, l2, seed=seed)
    assert compared.refits == 20
    assert compared.correlation >= 0.9


def test_hc3_by_group_is_the_spread_of_refits_without_each_group():
    random = np.random.default_rng(0)
    X, group = random.normal(size=(60, 1, 3)), random.integers(0, 11, size=60)
    y = X[..., 0] + random.normal(size=(60, 1)) * (0.2 + np.abs(X[..., 1]))
    theta, X_new = ridge(X, y, np.ones(60), 0.0), random.normal(size=(7, 1, 3))
    method = rue.LinearRUE(meat="HC3", damping=NoDamping(), resampler=Poisson())
    audit = method.fit(rue.wrap(Linear(theta), loss="squared_error"), rue.Data(X, y, group=group)).audit(X_new)
    moved = [ridge(X[group != g], y[group != g], np.ones((group != g).sum()), 0.0) - theta for g in range(11)]
    spread = sum((X_new[:, 0] @ step) ** 2 for step in moved)  # CR3: Σ over groups of (β₋g − β)(β₋g − β)ᵀ
    np.testing.assert_allclose(audit.std**2, spread, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:.*effective parameters")  # a dozen rows
@pytest.mark.parametrize("name", CASES)
def test_a_single_newton_step_is_that_of_the_whole_matrix(name):
    case = CASES[name]()
    group = np.arange(len(case.y)) // 2
    found = leave_one_out(case.wrap(), rue.Data(case.X, case.y, group=group))
    H = oracles.gauss_newton(case.module, case.row_loss, case.X, case.y, case.l2)
    J = oracles.output_jacobian(case.module, case.X)
    curvature = oracles.loss_output_hessian(case.module, case.row_loss, case.X, case.y)
    L = oracles.gradient_matrix(case.module, case.row_loss, case.X, case.y)
    for label in range(3):
        out = np.flatnonzero(group == label)
        without = H - sum(J[i].T @ curvature[i] @ J[i] for i in out)
        step = np.linalg.solve(without, L[:, out].sum(1))
        for i in out:
            moved = np.atleast_1d(found.prediction[i] - found.fitted[i])
            np.testing.assert_allclose(moved, J[i] @ step, rtol=1e-6, atol=1e-9)


def test_solvers_agree():
    model, data, _, _ = problem(0, k=2)
    dense = leave_one_out(model, data)
    for solver in (Dual(), ConjugateGradient(tolerance=1e-12)):
        other = leave_one_out(model, data, solver=solver)
        np.testing.assert_allclose(other.prediction, dense.prediction, rtol=1e-8)
        np.testing.assert_allclose(other.leverage, dense.leverage, rtol=1e-8, atol=1e-12)


def test_infinite_damping_leaves_predictions_as_they_are():
    model, data, _, _ = problem(0)
    with pytest.warns(RueWarning, match="damping"):
        found = leave_one_out(model, data, damping=Fixed(1e15))
    np.testing.assert_allclose(found.prediction, found.fitted, rtol=1e-12)
    assert found.effective_parameters == pytest.approx(0.0, abs=1e-10)


def test_a_shuffled_loader_says_which_row_is_which():
    model, data, _, _ = problem(0)
    X, y = torch.tensor(data.X), torch.tensor(data.y)
    found = leave_one_out(model, (X, y))
    shuffled = leave_one_out(model, DataLoader(TensorDataset(X, y), batch_size=7, shuffle=True))
    assert not np.array_equal(shuffled.row, found.row)
    np.testing.assert_allclose(shuffled.prediction, found.prediction[shuffled.row], rtol=1e-12)
    np.testing.assert_allclose(shuffled.leverage, found.leverage[shuffled.row], rtol=1e-10)


def test_refits_read_a_shuffled_loader_in_the_same_order():
    _, data, _, l2 = problem(0)
    loader = DataLoader(TensorDataset(torch.tensor(data.X), torch.tensor(data.y)), batch_size=7, shuffle=True)
    plain = rue.Data(data.X, data.y, np.ones(40))
    net = Linear(refitted(plain, np.arange(40), l2))

    def refit(kept):
        torch.rand(3)  # a training that draws random numbers
        return rue.wrap(Linear(refitted(plain, kept, l2)), loss="squared_error", l2=l2)

    compared = compare_with_refits(rue.wrap(net, loss="squared_error", l2=l2), loader, refit, count=5)
    np.testing.assert_allclose(compared.influence, compared.refit, rtol=1e-8)


def test_under_a_mean_the_penalty_stays_that_of_all_rows():
    model, data, _, l2 = problem(0)
    mean = rue.wrap(model.core.module, loss="squared_error", l2=l2 / data.weight.sum(), reduction="mean")
    np.testing.assert_allclose(leave_one_out(mean, data).prediction, leave_one_out(model, data).prediction, rtol=1e-10)


def test_what_comes_back_is_in_the_shape_of_the_outputs():
    for k, shape in ((1, (40,)), (2, (40, 2))):
        model, data, _, _ = problem(0, k=k)
        found = leave_one_out(model, data)
        assert found.fitted.shape == found.prediction.shape == found.residual.shape == shape
        assert found.loss.shape == found.leverage.shape == found.row.shape == found.unit.shape == (40,)
        assert found.n == 40
        assert found.mean_loss == pytest.approx((found.loss * data.weight).sum() / data.weight.sum(), rel=1e-12)
        assert all(value.dtype == np.float64 for value in (found.prediction, found.loss, found.leverage))
        assert found.facts["units"] == 40
        assert found.facts["residual"] < 1e-8


def test_single_precision_gives_nearly_the_same():
    model, data, _, l2 = problem(0)
    net = copy.deepcopy(Linear(model.theta.numpy())).float()
    single = leave_one_out(rue.wrap(net, loss="squared_error", l2=l2), data)
    np.testing.assert_allclose(single.prediction, leave_one_out(model, data).prediction, atol=1e-4)


def test_too_many_effective_parameters_are_said():
    model, data, _, _ = problem(0, n=6)
    with pytest.warns(RueWarning, match=r"effective parameters for 6 rows .* above 0.3.* held-out rows"):
        found = leave_one_out(model, data)
    assert found.effective_parameters / 6 > 0.3
    assert len(found.facts["warnings"]) == 1


def test_of_logits_that_count_by_their_differences_one_is_not_free():
    X, y = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 3, axis=0), np.arange(9) % 3  # any label is as likely
    with pytest.warns(RueWarning, match=r"6.0 effective parameters for 9 rows of 2 free outputs are a share of 0.33"):
        leave_one_out(softmax_model(np.zeros(9), (0.0, 0.0)), (X, y))


def test_a_row_that_alone_determines_a_parameter_cannot_be_left_out():
    alone = np.eye(40)[:, None, :3]
    model = rue.wrap(Linear(np.ones(3)), loss="squared_error", l2=0.0)
    with pytest.raises(NumericalError):
        leave_one_out(model, (alone, np.ones(40)))


def test_the_module_and_the_world_stay_as_they_were():
    net = softplus_network(0)
    X, y, _ = table(200, 2, seed=1)
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    before, world = module_picture(net), world_picture()
    leave_one_out(model, (X, y))
    compare_with_refits(
        model, (X, y), lambda kept: rue.wrap(softplus_network(len(kept)), loss="squared_error"), count=2
    )
    assert changed(before, module_picture(net)) == []
    assert changed(world, world_picture()) == []


def test_the_seed_says_which_rows_are_left_out():
    model, data, _, _ = problem(0)
    left = []

    def refit(kept):
        left.append(np.setdiff1d(np.arange(40), kept).tolist())
        return model

    first = compare_with_refits(model, data, refit, count=4, seed=1)
    second = compare_with_refits(model, data, refit, count=4, seed=1)
    assert left[:4] == left[4:]
    assert first.row.tolist() == second.row.tolist() == [row for rows in left[:4] for row in rows]
    assert len(set(first.row.tolist())) == 4
    assert np.isnan(first.correlation)  # the refits did not move at all
    assert first.slope == 0.0


def test_a_comparison_reads_as_a_sentence():
    model, data, _, l2 = problem(0)
    compared = compare_with_refits(
        model, data, lambda kept: rue.wrap(Linear(refitted(data, kept, l2)), loss="squared_error", l2=l2), count=3
    )
    assert "against 3 refits (3 rows left out): the changes correlate 1.000, refits moved 1.00 times" in str(compared)


@pytest.mark.parametrize("residuals", [(3e-8, 1e-9, 2e-9), (1e-9, 3e-8, 2e-9), (1e-9, 2e-9, 3e-8)])
def test_the_residual_of_left_out_rows_is_that_of_the_worst_batch(residuals):
    said = iter(residuals)

    class Says:
        def solve(self, vectors):
            return Solution(torch.zeros_like(vectors), next(said))

    case = CASES["linear"]()
    rows, model = training_rows(DataLoader(TensorDataset(case.X, case.y), batch_size=8), case.wrap())
    assert left_out(model, rows, Says()).residual == 3e-8


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("gone", [[0], [3], [0, 7, 8, 19], [5, 14, 15]])
def test_rows_left_out_together_move_the_parameters_to_those_of_a_refit(k, gone, monkeypatch):
    """Least squares with a penalty: one step is exact. The rows are read in several pieces."""
    monkeypatch.setattr("rue.core.chunks.CHUNK_BYTES", 8 * k * 3 * 5)
    rng = np.random.default_rng(k)
    design, y, weight = rng.normal(size=(20, k, 3)), rng.normal(size=(20, k)), rng.uniform(0.5, 2.0, size=20)
    theta = ridge(design, y, weight, 0.4)
    model = rue.wrap(Linear(theta), loss="squared_error", l2=0.4)
    rows, bound = training_rows(rue.Data(torch.from_numpy(design), torch.from_numpy(y), weight=weight), model)
    inverse = Cholesky().factor(rue.curvature.GaussNewton().at(bound, rows), 0.0)
    step = step_without(bound, rows, inverse, torch.tensor(gone))
    rest = np.setdiff1d(np.arange(20), gone)
    np.testing.assert_allclose(theta + step.numpy(), ridge(design[rest], y[rest], weight[rest], 0.4), rtol=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_unit_with_leverage_one_moves_by_its_own_influence_and_the_rest_as_without_them(k, grouped):
    """One output of one row alone determines a parameter. The model is at no optimum, so that every row pulls."""
    rng = np.random.default_rng(k)
    n, d, sole = 12, 4, 5
    design, y, weight = rng.normal(size=(n, k, d)), rng.normal(size=(n, k)), rng.uniform(0.5, 2.0, size=n)
    design[..., -1] = 0.0
    design[sole, 0, -1] = 2.0
    theta = rng.normal(size=d)
    unit = rng.permutation(np.arange(n) % 5) if grouped else np.arange(n)
    model = rue.wrap(Linear(theta), loss="squared_error", l2=0.0)
    rows, bound = training_rows(rue.Data(design, y, weight, unit if grouped else None), model)
    inverse = Cholesky().factor(rue.curvature.GaussNewton().at(bound, rows), 0.0)
    with pytest.raises(NumericalError, match="leverage one"):
        left_out(bound, rows, inverse)
    found = left_out(bound, rows, inverse, sole="first order")
    H = np.einsum("n,nka,nkb->ab", weight, design, design)
    slope = weight[:, None] * (design @ theta - y)
    for one in np.unique(unit):
        mine = np.flatnonzero(unit == one)
        J, curved, r = design[mine].reshape(-1, d), np.repeat(weight[mine], k), slope[mine].ravel()
        M = J @ np.linalg.inv(H) @ J.T
        if sole in mine:
            reach, pull, turn = M, r, np.eye(len(r))
        else:  # what the rows of other units say
            reach = J @ np.linalg.inv(H - (J.T * curved) @ J) @ J.T
            pull, turn = (
                np.linalg.solve(np.eye(len(r)) - curved[:, None] * M, r),
                np.linalg.inv(np.eye(len(r)) - M * curved),
            )
        moved = M @ pull
        for place, row in enumerate(mine):
            own = slice(place * k, place * k + k)
            close = {"rtol": 1e-7, "atol": 1e-9}
            np.testing.assert_allclose(found.prediction[row] - found.fitted[row], moved[own], **close)
            np.testing.assert_allclose(found.prediction[row] - found.fitted[row], (reach @ r)[own], **close)
            np.testing.assert_allclose(found.slope[row], found.prediction[row].numpy() - y[row], **close)
            np.testing.assert_allclose(found.pull[row], pull[own], **close)
            np.testing.assert_allclose(found.drawn[row], (M @ r)[own], **close)
            np.testing.assert_allclose(found.reach[row], reach[own, own], **close)
            np.testing.assert_allclose(found.turn[row], turn[own, own], **close)
            assert float(found.share[row]) == pytest.approx((curved * np.diag(M))[own].sum(), rel=1e-9)
    assert found.effective == pytest.approx(d)
