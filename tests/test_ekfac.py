"""EK-FAC: the variance by hand in eigenbases made by hand, exact where it must be, and refusals of all else."""

import pickle

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn
from torch.func import functional_call, jacrev, vmap
from torch.utils.data import DataLoader, TensorDataset

import rue
from rue.calibrate.leaving_one_out import leave_one_out
from rue.core.coordinates import CurvedRows
from rue.data.opening import training_rows
from sketch_cases import CASES, made
from snapshot import changed, module_picture

L2 = 0.3
LOSS = nn.CrossEntropyLoss(reduction="sum")


def dense():
    """Two linear layers, three classes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def picture():
    """A convolution of pictures of 4×4, and a linear layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(27, 3)).double()


def rows_for(net, n=40):
    source = torch.Generator().manual_seed(1)
    shape = (n, 4) if isinstance(net[0], nn.Linear) else (n, 2, 4, 4)
    X = torch.randn(shape, generator=source, dtype=torch.float64) * torch.linspace(0.5, 2, 4, dtype=torch.float64)
    return X, torch.randint(0, 3, (n,), generator=source), 0.5 + torch.rand(n, generator=source, dtype=torch.float64)


def every_jacobian(net, X):
    """(n, k, d), by reverse mode for every row."""
    named = dict(net.named_parameters())
    found = vmap(jacrev(lambda at, x: functional_call(net, at, x[None])[0]), (None, 0))(named, X)
    return torch.cat([part.flatten(2) for part in found.values()], 2).detach().numpy()


def patches(X):
    """What a 2×2 filter sees at 9 positions of a picture: (n, 9, 8)."""
    cut = [X[:, :, i : i + 2, j : j + 2].reshape(len(X), 8) for i in range(3) for j in range(3)]
    return np.stack(cut, 1)


def basis_by_hand(net, X, weight):
    """Q (d, d), whose columns are the coordinates: Kronecker products for two matrices, and biases as they are."""
    last = net[-1].weight.detach().numpy()
    hidden = net[:2](X).detach().numpy()  # after tanh
    p = torch.softmax(net(X), 1).detach().numpy()
    curved = weight[:, None, None] * (np.einsum("ij,jk->ijk", p, np.eye(3)) - p[:, :, None] * p[:, None, :])
    flat = hidden.reshape(len(X), -1)
    through = last.T[None] * (1 - flat**2)[:, :, None]  # (n, hidden, k), what comes back before tanh
    if isinstance(net[0], nn.Linear):
        entered, back = X.numpy()[:, None], through[:, None]  # (n, positions, b), (n, positions, a, k)
    else:
        entered, back = patches(X.numpy()), through.reshape(len(X), 3, 9, 3).swapaxes(1, 2)
    first = [
        np.einsum("npak,nkl,npel->ae", back, curved, back),
        np.einsum("n,npb,npc->bc", weight, entered, entered),
    ]
    second = [curved.sum(0), np.einsum("n,nb,nc->bc", weight, flat, flat)]
    turned = [np.kron(*(np.linalg.eigh(moment)[1] for moment in both)) for both in (first, second)]
    parts = [turned[0], np.eye(len(net[0].bias)), turned[1], np.eye(3)]
    whole, at = np.zeros((sum(map(len, parts)),) * 2), 0
    for part in parts:
        whole[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    return whole, curved


def covariance_by_hand(net, X, y, weight, new):
    """J diag(m / (c + λ)²) Jᵀ for a bootstrap of the rows: (m, k, k)."""
    basis, curved = basis_by_hand(net, X, weight)
    rows, audited = every_jacobian(net, X) @ basis, every_jacobian(net, new) @ basis
    curvature = np.einsum("nkd,nkl,nld->d", rows, curved, rows)
    slope = torch.softmax(net(X), 1).detach().numpy() - np.eye(3)[y]
    gradients = weight[:, None] * np.einsum("nkd,nk->nd", rows, slope)
    variance = (gradients**2).sum(0) - gradients.sum(0) ** 2 / len(X)
    return np.einsum("mkd,d,mld->mkl", audited, variance / (curvature + L2) ** 2, audited)


@pytest.mark.parametrize("build", [dense, picture])
def test_the_covariance_is_the_diagonal_sandwich_in_eigenbases_made_by_hand(build):
    net = build()
    X, y, weight = rows_for(net)
    new = rows_for(net, 47)[0][40:]
    before = module_picture(net)
    data = rue.Data(X, y, weight=weight)
    auditor = rue.LinearRUE(solver=rue.solve.EKFAC()).fit(rue.wrap(net, loss=LOSS, l2=L2), data)
    assert changed(before, module_picture(net)) == []
    wanted = covariance_by_hand(net, X, y.numpy(), weight.numpy(), new)
    np.testing.assert_allclose(auditor.audit(new).covariance, wanted, rtol=1e-6)
    inside, alone = auditor.facts["in_eigenbases"], auditor.facts["diagonal_alone"]
    biases = sum(p.numel() for name, p in net.named_parameters() if "bias" in name)
    assert (inside, alone) == (auditor.facts["d"] - biases, biases)


@pytest.mark.parametrize("resampler", [rue.resample.Poisson(), rue.resample.Multinomial()])
def test_where_curvature_and_gradients_are_diagonal_in_some_basis_it_is_the_exact_answer(resampler):
    """Rows along one axis each: in the eigenbasis of the inputs nothing is lost, whichever way the axes are turned."""
    source = np.random.default_rng(0)
    turn = np.linalg.qr(source.normal(size=(5, 5)))[0]
    axes = np.eye(5)[np.arange(60) % 5] * (1 + np.arange(60) % 5)[:, None]
    y = axes @ source.normal(size=5) + source.normal(size=60)
    X = torch.tensor(axes @ turn)
    net = nn.Linear(5, 1, bias=False).double()
    net.weight.data[0] = torch.linalg.lstsq(X, torch.tensor(y)[:, None]).solution[:, 0]
    model = rue.wrap(net, loss="squared_error", l2=0.0)
    exact, seen = (
        rue.LinearRUE(solver=solver, resampler=resampler).fit(model, (X, y)).audit(X[:5] + 0.3)
        for solver in (rue.solve.Cholesky(), rue.solve.EKFAC())
    )
    np.testing.assert_allclose(seen.std, exact.std, rtol=1e-9)


def test_the_variance_is_the_same_in_batches_of_any_size_and_after_pickling():
    net = picture()
    X, y, _ = rows_for(net)
    model = rue.wrap(net, loss=LOSS, l2=L2)
    whole = rue.LinearRUE(solver=rue.solve.EKFAC()).fit(model, (X, y))
    parts = rue.LinearRUE(solver=rue.solve.EKFAC()).fit(model, DataLoader(TensorDataset(X, y), batch_size=7))
    std = whole.audit(X[:9]).std
    np.testing.assert_allclose(parts.audit(X[:9]).std, std, rtol=1e-7)
    np.testing.assert_allclose(np.concatenate([whole.audit(X[:4]).std, whole.audit(X[4:9]).std]), std, rtol=1e-9)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(whole)).audit(X[:9]).std, std)


def test_weights_are_repeated_rows_where_no_mean_is_taken_out():
    net = dense()
    X, y, _ = rows_for(net)
    model, counts = rue.wrap(net, loss=LOSS, l2=L2), torch.arange(40) % 3
    solver = rue.solve.EKFAC()
    weighted, repeated = (
        solver.factor(rue.curvature.GaussNewton().at(seen, rows), 0.0).values
        for seen, rows in (
            seen_in_eigenbases(model, rue.Data(X, y, weight=counts.double())),
            seen_in_eigenbases(model, (X.repeat_interleave(counts, 0), y.repeat_interleave(counts))),
        )
    )
    torch.testing.assert_close(weighted, repeated)


def seen_in_eigenbases(model, data):
    rows, bound = training_rows(data, model)
    return bound.seen_by(rue.solve.EKFAC(), rows, diagonal=True), rows


@pytest.mark.parametrize("name", CASES)
def test_of_every_kind_of_layer_the_bases_are_orthogonal_and_the_coordinates_those_of_plain_gradients(name):
    net, inputs = made(*CASES[name][:2])
    core = rue.wrap(net, loss=lambda outputs, _: outputs.square().sum(-1)).core
    with torch.enable_grad():
        theta = core.theta.detach().requires_grad_()
        outputs = core.predict(theta, inputs)
        each = [torch.autograd.grad(one, theta, retain_graph=True)[0] for one in outputs.flatten()]
    plain = torch.stack(each).unflatten(0, outputs.shape)
    root = torch.eye(outputs.shape[1]).double().expand(len(inputs), -1, -1)
    bases = core.eigenbases(lambda: iter([inputs]), [CurvedRows(inputs, root, torch.ones(len(inputs)))])
    seen = bases.jacobian(inputs)
    torch.testing.assert_close(seen, bases.project(plain), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(torch.einsum("nkd,mld->nkml", seen, seen), torch.einsum("nkd,mld->nkml", plain, plain))
    assert bases.describe()["in_eigenbases"] > 0


class Words(nn.Module):
    """A table, a norm, a linear layer, and one whose weight is the table once more."""

    def __init__(self, tied=False):
        super().__init__()
        self.tokens, self.norm, self.inner = nn.Embedding(6, 4), nn.LayerNorm(4), nn.Linear(4, 4)
        self.head = nn.Linear(4, 6)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, x):
        return self.head(torch.tanh(self.inner(self.norm(self.tokens(x).mean(1)))))


@pytest.mark.parametrize("tied", [False, True])
def test_tables_norms_and_biases_stay_as_they_are_also_where_a_table_is_a_layer_too(tied):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = Words(tied).double()
    X, y = torch.randint(0, 6, (30, 6), generator=torch.Generator().manual_seed(0)).split([5, 1], 1)
    auditor = rue.LinearRUE(solver=rue.solve.EKFAC()).fit(rue.wrap(net, loss=LOSS, l2=L2), (X, y[:, 0]))
    assert auditor.facts["diagonal_alone"] == 24 + 8 + 4 + 6  # table, norm, two biases
    assert auditor.facts["in_eigenbases"] == (16 if tied else 16 + 24)
    assert np.isfinite(auditor.audit(X[:3]).std).all()


def test_rows_are_ranked_much_as_by_the_exact_answer():
    net = dense()
    X, y, _ = rows_for(net, 300)
    model = rue.wrap(net, loss=LOSS, l2=L2)
    exact, seen = (
        rue.LinearRUE(solver=solver).fit(model, (X[:200], y[:200])).audit(X[200:]).std.mean(1)
        for solver in (rue.solve.Cholesky(), rue.solve.EKFAC())
    )
    assert spearmanr(exact, seen)[0] > 0.5


@pytest.mark.parametrize(
    "method", [rue.CalibratedRUE, rue.ClassifierRUE, rue.RUE, rue.Laplace], ids=lambda method: method.__name__
)
def test_methods_that_need_single_rows_are_refused(method):
    net = dense()
    X, y, _ = rows_for(net)
    with pytest.raises(rue.errors.SettingError, match="serves LinearRUE alone"):
        method(solver=rue.solve.EKFAC()).fit(rue.wrap(net, loss=LOSS, l2=L2), (X, y))


def test_rows_that_are_left_out_or_explained_are_refused():
    net = dense()
    X, y, _ = rows_for(net)
    model = rue.wrap(net, loss=LOSS, l2=L2)
    with pytest.raises(rue.errors.SettingError, match="HC3"):
        rue.LinearRUE(solver=rue.solve.EKFAC(), meat="HC3").fit(model, (X, y))
    with pytest.raises(rue.errors.SettingError, match="serves LinearRUE alone"):
        leave_one_out(model, (X, y), solver=rue.solve.EKFAC())
    with pytest.raises(rue.errors.SettingError, match="nothing to explain"):
        rue.LinearRUE(solver=rue.solve.EKFAC()).fit(model, (X, y)).audit(X[:2]).explain(0)


def test_an_unknown_penalty_is_refused_unless_there_is_a_damping():
    net = dense()
    X, y, _ = rows_for(net)
    unknown, known = rue.wrap(net, loss=LOSS), rue.wrap(net, loss=LOSS, l2=L2)
    with pytest.raises(rue.errors.SettingError, match="the l2 of training"):
        rue.LinearRUE(solver=rue.solve.EKFAC()).fit(unknown, (X, y))
    damped = rue.LinearRUE(solver=rue.solve.EKFAC(), damping=rue.solve.Fixed(L2)).fit(unknown, (X, y))
    plain = rue.LinearRUE(solver=rue.solve.EKFAC()).fit(known, (X, y))
    np.testing.assert_allclose(damped.audit(X[:5]).std, plain.audit(X[:5]).std, rtol=1e-9)


def test_groups_penalties_that_couple_and_other_curvatures_are_refused():
    net = dense()
    X, y, _ = rows_for(net)
    method = rue.LinearRUE(solver=rue.solve.EKFAC())
    model = rue.wrap(net, loss=LOSS, l2=L2)
    with pytest.raises(rue.errors.SettingError, match="20 groups"):
        method.fit(model, rue.Data(X, y, group=np.arange(40) // 2))
    coupled = rue.wrap(net, loss=LOSS, penalty=lambda named: named["0.weight"].sum().square())
    with pytest.raises(rue.errors.SettingError, match="couples no parameters"):
        method.fit(coupled, (X, y))
    with pytest.raises(rue.errors.SettingError, match="GaussNewton"):
        rue.LinearRUE(solver=rue.solve.EKFAC(), curvature=rue.curvature.Hessian()).fit(model, (X, y))


def test_rows_whose_losses_depend_on_each_other_are_refused():
    X, _, time = rows_for(dense())
    model = rue.wrap(nn.Linear(4, 1, bias=False).double(), loss="cox", l2=L2)
    with pytest.raises(rue.errors.SettingError, match="do not depend on each other"):
        rue.LinearRUE(solver=rue.solve.EKFAC()).fit(model, (X.numpy(), np.stack([time, np.ones(40)], 1)))


@pytest.mark.parametrize("solver", [rue.solve.EKFAC(), rue.solve.Sketch(), rue.solve.Projection()], ids=repr)
def test_another_method_fits_the_model_of_an_audit_in_other_coordinates(solver):
    """As the baselines of a report do."""
    net = dense()
    X, y, _ = rows_for(net)
    auditor = rue.LinearRUE(solver=solver).fit(rue.wrap(net, loss=LOSS, l2=L2), (X, y))
    assert rue.NearestNeighbours().fit(auditor.model, (X, y)).audit(X[:5]).score.shape == (5,)


def test_models_without_layers_are_refused():
    from lightgbm import LGBMRegressor

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4, dtype=torch.float64))

        def forward(self, x):
            return (x * self.scale).sum(1)

    X, y, _ = rows_for(dense())
    with pytest.raises(rue.errors.SettingError, match="no matrix of weights"):
        rue.LinearRUE(solver=rue.solve.EKFAC()).fit(rue.wrap(Scale(), loss="squared_error", l2=L2), (X, y.double()))
    trees = rue.wrap(LGBMRegressor(n_estimators=5, min_child_samples=5, verbose=-1).fit(X.numpy(), y.numpy()))
    with pytest.raises(rue.errors.SettingError, match="layers of a torch module"):
        rue.LinearRUE(solver=rue.solve.EKFAC()).fit(trees, (X.numpy(), y.numpy()))


@pytest.mark.parametrize("build", [dense, picture])
def test_the_preconditioner_is_the_inverse_that_is_diagonal_in_eigenbases_made_by_hand(build):
    net, damping = build(), 0.2
    X, y, weight = rows_for(net)
    basis, curved = basis_by_hand(net, X, weight.numpy())
    rows = every_jacobian(net, X) @ basis
    values = np.einsum("nkd,nkl,nld->d", rows, curved, rows) + L2 + damping
    curvature = curvature_of(net, rue.Data(X, y, weight=weight))
    found = rue.solve.EigenBases().at(curvature, damping)(torch.eye(len(basis), dtype=torch.float64))
    np.testing.assert_allclose(found, (basis / values) @ basis.T, rtol=1e-6, atol=1e-9)


def curvature_of(net, data, **settings):
    rows, model = training_rows(data, rue.wrap(net, **{"loss": LOSS, "l2": L2, **settings}))
    return rue.curvature.GaussNewton().at(model, rows)


@pytest.mark.parametrize("name", CASES)
def test_for_every_kind_of_layer_the_preconditioner_is_symmetric_and_positive(name):
    net, inputs = made(*CASES[name][:2])
    data = (inputs, torch.zeros(len(inputs)))
    loss = lambda outputs, _: outputs.square().sum(-1)  # noqa: E731  it is an argument
    curvature = curvature_of(net, data, loss=loss)
    matrix = rue.solve.EigenBases().at(curvature, 0.0)(torch.eye(curvature.size, dtype=torch.float64))
    torch.testing.assert_close(matrix, matrix.T)
    assert float(torch.linalg.eigvalsh(matrix)[0]) > 0


class Idle(nn.Module):
    """A linear layer, and parameters that no output depends on."""

    def __init__(self):
        super().__init__()
        self.before, self.layer = nn.Parameter(torch.ones(2)), nn.Linear(4, 3)
        self.after = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.layer(x)


@pytest.mark.parametrize("build", [dense, picture, Idle], ids=lambda build: build.__name__)
def test_iterations_with_eigenbases_end_in_the_exact_inverse(build):
    net = build().double()
    X, y, _ = rows_for(net if build is not Idle else dense())
    curvature = curvature_of(net, (X, y), l2=L2)
    vectors = torch.randn(4, curvature.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solver = rue.solve.ConjugateGradient(tolerance=1e-10, preconditioner=rue.solve.EigenBases())
    solved = solver.factor(curvature, 0.1).solve(vectors).vectors
    exact = vectors.numpy() @ np.linalg.inv(curvature.dense().numpy() + 0.1 * np.eye(curvature.size))
    np.testing.assert_allclose(solved, exact, rtol=1e-6, atol=1e-9)


def test_one_step_is_enough_where_the_curvature_is_diagonal_in_eigenbases():
    """A single linear layer under squared error, whose eigenvalues differ by a factor of a thousand."""
    X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * torch.logspace(0, 3, 5)
    net = nn.Linear(5, 1, bias=False).double()
    curvature = curvature_of(net, (X, torch.zeros(60)), loss="squared_error")
    solver = rue.solve.ConjugateGradient(max_steps=1, tolerance=1e-8, preconditioner=rue.solve.EigenBases())
    assert solver.factor(curvature, 0.0).solve(torch.eye(5)).residual < 1e-8
    audit = rue.LinearRUE(solver=solver).fit(curvature.model, (X, torch.zeros(60))).audit(X[:2])
    assert audit.facts["preconditioner"] == "EigenBases"


def test_a_preconditioner_is_one_object_and_needs_layers_to_be_diagonal_in():
    with pytest.raises(rue.errors.SettingError, match="rank=50"):
        rue.solve.ConjugateGradient(rank=50, preconditioner=rue.solve.EigenBases())
    with pytest.raises(rue.errors.SettingError, match="such as EigenBases"):
        rue.solve.ConjugateGradient(preconditioner="ekfac")
    net = dense()
    X, y, _ = rows_for(net)
    solver = rue.solve.ConjugateGradient(preconditioner=rue.solve.EigenBases())
    with pytest.raises(rue.errors.SettingError, match="GaussNewton"):
        rue.LinearRUE(solver=solver, curvature=rue.curvature.Hessian()).fit(rue.wrap(net, loss=LOSS, l2=L2), (X, y))
