"""Every derivative against explicit loops, on every kind of model."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

import cases
import oracles
import rue
from rue.core import derivatives, gradient_sums
from rue.core.curvature import symmetric
from rue.core.errors import DerivativeError
from rue.core.resample import Multinomial
from rue.data.opening import training_rows

every_case = pytest.mark.parametrize("name", cases.CASES)


def bound(case, weight=None):
    data = rue.Data(case.X, case.y, weight=weight)
    rows, model = training_rows(data, case.wrap())
    return model, rows


def weights_of(case):
    return np.random.default_rng(0).uniform(0.2, 2.0, size=len(case.y))


@every_case
def test_the_jacobian_is_the_oracles(name):
    case = cases.CASES[name]()
    model, _ = bound(case)
    found = derivatives.jacobian(model, model.read(case.X_new))
    np.testing.assert_allclose(found, oracles.output_jacobian(case.module, case.X_new), rtol=1e-9, atol=1e-12)


@every_case
def test_the_rows_of_gradients_are_the_oracles_with_example_weights(name):
    case = cases.CASES[name]()
    model, rows = bound(case, weights_of(case))
    found = torch.cat([gradients for _, gradients in derivatives.gradient_batches(model, rows)])
    expected = oracles.gradient_matrix(case.module, case.row_loss, case.X, case.y, weights_of(case)).T
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@every_case
def test_the_dense_gauss_newton_matrix_is_the_oracles(name):
    case = cases.CASES[name]()
    model, rows = bound(case, weights_of(case))
    found = rue.curvature.GaussNewton().at(model, rows).dense()
    expected = oracles.gauss_newton(case.module, case.row_loss, case.X, case.y, case.l2, weights_of(case))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in cases.CASES if name != "recurrent"])
def test_the_dense_hessian_is_the_oracles(name):
    case = cases.CASES[name]()
    model, rows = bound(case, weights_of(case))
    found = rue.curvature.Hessian().at(model, rows).dense()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = oracles.hessian(case.module, case.row_loss, case.X, case.y, case.l2, weights_of(case))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def test_the_hessian_of_a_recurrent_net_is_the_finite_difference_of_its_gradient():
    case = cases.recurrent()
    model, rows = bound(case)
    H = rue.curvature.Hessian().at(model, rows).dense().numpy()
    theta, step = oracles.flat(case.module), 1e-5

    def gradient(at):
        twin = cases.recurrent().module
        torch.nn.utils.vector_to_parameters(torch.tensor(at), twin.parameters())
        return oracles.gradient_matrix(twin, case.row_loss, case.X, case.y).sum(1) + case.l2 * at

    for j in (0, 7, 20, len(theta) - 1):
        ahead, behind = theta.copy(), theta.copy()
        ahead[j] += step
        behind[j] -= step
        np.testing.assert_allclose(H[j], (gradient(ahead) - gradient(behind)) / (2 * step), atol=1e-6)


@every_case
@pytest.mark.parametrize("kind", ["Hessian", "GaussNewton"])
def test_products_with_blocks_of_vectors_are_the_dense_matrix_times_them(name, kind):
    case = cases.CASES[name]()
    model, rows = bound(case, weights_of(case))
    curvature = getattr(rue.curvature, kind)().at(model, rows)
    vectors = torch.randn(37, curvature.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(curvature.product(vectors), vectors @ curvature.dense(), rtol=1e-8, atol=1e-9)


@given(seed=st.integers(0, 1000))
def test_weighted_gradients_and_the_gradient_rows_are_adjoint(seed):
    """⟨Lᵀv, w⟩ = ⟨v, Lw⟩."""
    case = cases.softplus()
    model, rows = bound(case)
    w = Multinomial().draw(rows.n, 1, torch.Generator().manual_seed(seed))
    v = torch.randn(model.theta.numel(), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    gradients = torch.cat([block for _, block in derivatives.gradient_batches(model, rows)])
    left = (gradients @ v) @ w[0]
    right = gradient_sums.weighted_gradients(model, rows, w)[0] @ v
    assert float(left) == pytest.approx(float(right), rel=1e-9, abs=1e-12)


@every_case
def test_sums_of_pulled_slopes_are_the_weighted_gradients_of_the_rows(name):
    case = cases.CASES[name]()
    model, rows = bound(case, weights_of(case))

    def slopes(predicted, targets):
        slope = derivatives.loss_gradient(model, predicted, targets)
        return torch.stack([slope, 2 * slope])

    found = gradient_sums.pulled_sums(model, rows, slopes)
    expected = oracles.gradient_matrix(case.module, case.row_loss, case.X, case.y, weights_of(case)).sum(1)
    np.testing.assert_allclose(found, [expected, 2 * expected], rtol=1e-9, atol=1e-10)


def test_a_model_that_cannot_be_vectorised_falls_back_to_a_loop_with_the_same_answer():
    class Branching(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = cases.softplus().module

        def forward(self, x):
            if x.sum().item() > 1e9:  # data-dependent control flow: vmap refuses .item()
                return -self.inner(x)
            return self.inner(x)

    case = cases.softplus()
    plain = rue.LinearRUE().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    looped = rue.LinearRUE().fit(rue.wrap(Branching(), loss=case.loss, l2=case.l2), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(looped.score, plain.score, rtol=1e-9)


def test_a_penalty_of_small_differences_between_neighbours_is_not_taken_for_diagonal():
    """Smooth vectors hardly feel it; the probe must be rough."""
    net = torch.nn.Linear(1500, 1, bias=False).double()
    model = rue.wrap(net, loss="squared_error", l2=1e-8, penalty=lambda p: 1e-6 * p["weight"].diff(n=2).square().sum())
    rows, model = training_rows(
        (torch.randn(3, 1500, generator=torch.Generator().manual_seed(0)), torch.zeros(3)), model
    )
    assert rue.curvature.GaussNewton().at(model, rows).penalty_diagonal() is None


def test_a_module_that_squeezes_all_axes_is_audited_like_one_that_does_not():
    class Squeezing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = cases.softplus().module

        def forward(self, x):
            return self.inner(x).squeeze()

    case = cases.softplus()
    plain = rue.LinearRUE().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    found = rue.LinearRUE().fit(rue.wrap(Squeezing(), loss=case.loss, l2=case.l2), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(found.score, plain.score, rtol=1e-12)


@every_case
def test_the_penaltys_curvature_is_found_to_be_diagonal_exactly_when_it_is(name):
    case = cases.CASES[name]()
    model, rows = bound(case)
    diagonal = rue.curvature.GaussNewton().at(model, rows).penalty_diagonal()
    torch.testing.assert_close(diagonal, torch.full_like(diagonal, case.l2))


def test_a_penalty_that_couples_parameters_is_not_taken_for_diagonal():
    case = cases.linear()
    model = case.wrap(l2=None, penalty=lambda named: named["weight"].sum().square())
    rows, model = training_rows((case.X, case.y), model)
    curvature = rue.curvature.GaussNewton().at(model, rows)
    assert curvature.penalty_diagonal() is None
    G = oracles.gauss_newton(case.module, case.row_loss, case.X, case.y, 0.0)
    G[:3, :3] += 2.0
    np.testing.assert_allclose(curvature.dense(), G, rtol=1e-10)
    assert curvature.trace() == pytest.approx(np.trace(G))


class OldTanh(torch.autograd.Function):
    """A layer written by hand in the old style, which torch.func refuses; it can be differentiated twice."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return upstream * (1 - x.tanh().square())


class Unvectorised(torch.nn.Module):
    """The same outputs from a last step that torch.func refuses."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return OldTanh.apply(self.inner(x)).atanh()


@pytest.mark.parametrize("name", ["convolution", "softplus"])
def test_every_derivative_of_a_model_that_cannot_be_vectorised_is_the_oracles(name):
    case = cases.CASES[name]()
    data = rue.Data(case.X, case.y, weight=weights_of(case))
    rows, model = training_rows(data, rue.wrap(Unvectorised(case.module), loss=case.loss, l2=case.l2))
    J, theta = oracles.output_jacobian(case.module, case.X_new), oracles.flat(case.module)
    k, d = J.shape[1:]
    vectors = torch.randn(4, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cotangents = torch.randn(len(J), k, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    close = {"rtol": 1e-8, "atol": 1e-10}
    np.testing.assert_allclose(derivatives.jacobian(model, case.X_new), J, **close)
    np.testing.assert_allclose(
        derivatives.pushed(model, case.X_new, vectors), np.einsum("ckd,rd->ckr", J, vectors), **close
    )
    np.testing.assert_allclose(
        derivatives.pulled_back(model, case.X_new, cotangents), np.einsum("ckd,ck->cd", J, cotangents), **close
    )
    members = np.stack([oracles.predict_at(case.module, theta + v, case.X_new) for v in vectors.numpy()])
    np.testing.assert_allclose(derivatives.member_outputs(model, model.theta + vectors, case.X_new), members, **close)
    tangent = oracles.predict_at(case.module, theta, case.X_new) + J @ vectors[0].numpy()
    np.testing.assert_allclose(
        derivatives.on_the_tangent(model, model.theta + vectors[0], case.X_new).detach(), tangent, **close
    )
    for kind, oracle in (("GaussNewton", oracles.gauss_newton), ("Hessian", oracles.hessian)):
        wanted = vectors.numpy() @ oracle(case.module, case.row_loss, case.X, case.y, case.l2, weights_of(case))
        np.testing.assert_allclose(getattr(rue.curvature, kind)().at(model, rows).product(vectors), wanted, **close)


def test_a_loss_may_have_parameters_of_its_own():
    """They are constants here: the loss is linear in the first output, and the other plays no part."""
    scale = torch.nn.Parameter(torch.tensor(3.0, dtype=torch.float64))
    case = cases.convolution()

    def loss(outputs, targets):
        return scale * (outputs[:, 0] - targets[:, 0])

    _, model = training_rows((case.X, case.y), rue.wrap(case.module, loss=loss, l2=1.0))
    f = case.module(case.X).detach()
    slope = derivatives.loss_gradient(model, f, case.y)
    np.testing.assert_allclose(slope.detach(), np.tile([3.0, 0.0], (len(f), 1)))
    np.testing.assert_array_equal(derivatives.loss_hessian(model, f, case.y), np.zeros((len(f), 2, 2)))


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_an_asymmetry_beyond_rounding_is_refused_in_any_units(size):
    matrix = torch.tensor([[4.0, 1.0, 0.0], [1.0, -9.0, 2.0], [0.0, 2.0, 1.0]], dtype=torch.float64)
    skew = torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    for dtype, rounding, error in ((torch.float64, 1e-9, 1e-4), (torch.float32, 1e-4, 1e-1)):
        torch.testing.assert_close(symmetric(size * (matrix + rounding * skew), dtype), size * matrix)
        with pytest.raises(DerivativeError, match="not symmetric"):
            symmetric(size * (matrix - error * skew), dtype)
    torch.testing.assert_close(symmetric(0 * matrix, torch.float64), 0 * matrix)


def test_derivatives_of_coupled_rows_are_those_of_coxs_likelihood_by_hand():
    """Times with ties, rows without an event, weights: the likelihood as a plain sum over events."""
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(9, 2)))
    time, event = rng.integers(1, 6, size=9).astype(float), np.array([1, 0, 1, 1, 0, 1, 1, 0, 1.0])
    weight = torch.from_numpy(rng.uniform(0.5, 2.0, size=9))
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softplus(), torch.nn.Linear(3, 1)).double()
    data = rue.Data(X, np.stack([time, event], 1), weight=weight.numpy())
    rows, model = training_rows(data, rue.wrap(net, loss=rue.losses.cox(), l2=0.5))
    d = model.theta.numel()

    def objective(f, w):
        total = 0
        for i in np.flatnonzero(event):
            at_risk = np.flatnonzero(time >= time[i])
            total = total + w[i] * ((w[at_risk] * f[at_risk].exp()).sum().log() - f[i])
        return total

    def outputs(theta):
        parts = theta.split([p.numel() for p in net.parameters()])
        named = {name: part.view(p.shape) for (name, p), part in zip(net.named_parameters(), parts, strict=True)}
        return torch.func.functional_call(net, named, (X,))[:, 0]

    J = torch.from_numpy(oracles.output_jacobian(net, X))[:, 0]
    f, theta = net(X)[:, 0].detach(), torch.from_numpy(oracles.flat(net))
    by_weight = torch.autograd.functional.jacobian(
        lambda w: torch.func.grad(lambda at: objective(at, w))(f), weight
    ).T  # row i: how the slope at every output changes with the weight of row i
    ((batch, found),) = derivatives.gradient_batches(model, rows)
    torch.testing.assert_close(found, weight[:, None] * by_weight @ J)
    assert batch.rows == slice(0, 9)
    penalty = 0.5 * torch.eye(d, dtype=torch.float64)
    bent = torch.autograd.functional.hessian(lambda at: objective(at, weight), f)
    vectors = torch.randn(3, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for kind, wanted in (
        ("GaussNewton", J.T @ bent @ J + penalty),
        ("Hessian", torch.autograd.functional.hessian(lambda at: objective(outputs(at), weight), theta) + penalty),
    ):
        curvature = getattr(rue.curvature, kind)().at(model, rows)
        torch.testing.assert_close(curvature.product(vectors), vectors @ wanted)
        torch.testing.assert_close(curvature.dense(), wanted)
        assert curvature.trace() == pytest.approx(float(wanted.trace()))
    curvature = rue.curvature.GaussNewton().at(model, rows)
    root = torch.cat(list(curvature.root()))
    torch.testing.assert_close(root.T @ root, J.T @ bent @ J)
    assert len(root) == curvature.rank == 9


@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("name", ["softplus", "convolution", "bernoulli"])
def test_a_hessian_from_many_blocks_is_the_oracles(monkeypatch, name, vectors):
    """17, 58 and 3 parameters by eight or sixteen unit vectors at a time, which pass one or two at a time."""
    case = cases.CASES[name]()
    model, rows = bound(case, weights_of(case))
    monkeypatch.setattr("rue.core.curvature.VECTORS", vectors)
    monkeypatch.setattr("rue.core.products.VECTORS", vectors)
    found = rue.curvature.Hessian().at(model, rows).dense()
    expected = oracles.hessian(case.module, case.row_loss, case.X, case.y, case.l2, weights_of(case))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize("batch_size", [1, 5, 100])
@pytest.mark.parametrize("parts", [derivatives.jacobian_batches, derivatives.gradient_batches])
def test_every_training_row_is_read_once_and_under_its_own_number(monkeypatch, parts, batch_size, at_once):
    """Twelve rows of two outputs, in batches of the loader that are cut again to fit in memory."""
    case = cases.convolution()
    loader = DataLoader(TensorDataset(case.X, case.y), batch_size=batch_size)
    rows, model = training_rows(rue.Data(loader, weight=weights_of(case)), case.wrap())
    monkeypatch.setattr("rue.core.chunks.CHUNK_BYTES", 8 * 58 * 2 * at_once)
    wanted = oracles.output_jacobian(case.module, case.X)
    if parts is derivatives.gradient_batches:
        wanted = oracles.gradient_matrix(case.module, case.row_loss, case.X, case.y, weights_of(case)).T
    seen = []
    for part, derived in parts(model, rows):
        numbers = list(range(part.rows.start, part.rows.stop))
        assert 0 < len(numbers) == len(derived) <= min(at_once, batch_size)
        seen += numbers
        torch.testing.assert_close(part.inputs, case.X[numbers])
        torch.testing.assert_close(part.targets, case.y[numbers])
        np.testing.assert_allclose(part.weight, weights_of(case)[numbers])
        np.testing.assert_allclose(derived, wanted[numbers], rtol=1e-9, atol=1e-12)
    assert seen == list(range(12))


def test_as_many_rows_as_outputs_have_the_jacobians_of_each_alone():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.PReLU(4), torch.nn.Linear(4, 4)).double()
    X = torch.randn(4, 3, dtype=torch.float64)
    core = rue.wrap(net, loss="squared_error").core
    found = derivatives.derived_jacobian(core, X)
    np.testing.assert_allclose(found, oracles.output_jacobian(net, X), rtol=1e-9, atol=1e-12)
