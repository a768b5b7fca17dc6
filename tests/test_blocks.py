"""Blocks: every layer for itself, against blocks of an explicit matrix, and refusals of all else."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap

import rue
from rue.core.solve import block_diagonal
from rue.data.opening import training_rows
from snapshot import changed, module_picture

L2, DAMPING = 0.3, 0.2
LOSS = nn.CrossEntropyLoss(reduction="sum")


class Two(nn.Module):
    """Parameters of the module's own, two linear layers and a norm: four layers."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.tensor([0.1, -0.2, 0.3, 0.4]))
        self.first, self.norm, self.second = nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 3, bias=False)

    def forward(self, x):
        return self.second(torch.tanh(self.norm(self.first(x + self.shift))))


SIZES = (4, 25, 10, 15)


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Two().double().eval()


def rows(n=40):
    source = torch.Generator().manual_seed(1)
    X = torch.randn(n, 4, generator=source, dtype=torch.float64)
    weight = 0.5 + torch.rand(n, generator=source, dtype=torch.float64)
    return X, torch.randint(0, 3, (n,), generator=source), weight


def jacobians(net, X):
    named = dict(net.named_parameters())
    found = vmap(jacrev(lambda at, x: functional_call(net, at, x[None])[0]), (None, 0))(named, X)
    return torch.cat([part.flatten(2) for part in found.values()], 2).detach().numpy()


def masked(matrix):
    """The matrix with zeros where a row and a column are of different layers."""
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    return matrix * (owner[:, None] == owner[None, :])


def by_hand(net, X, y, weight):
    """The curvature without its penalty, and the covariance of the resampled gradient: (d, d) each."""
    p = torch.softmax(net(X), 1).detach().numpy()
    J, w = jacobians(net, X), weight.numpy()
    curved = w[:, None, None] * (np.einsum("ij,jk->ijk", p, np.eye(3)) - p[:, :, None] * p[:, None, :])
    gradients = w[:, None] * np.einsum("nkd,nk->nd", J, p - np.eye(3)[y])
    centred = gradients - gradients.mean(0)
    return np.einsum("nkd,nkl,nle->de", J, curved, J), centred.T @ centred


def test_the_covariance_is_a_sandwich_of_matrices_without_what_connects_layers():
    net, new = network(), rows(47)[0][40:]
    X, y, weight = rows()
    before = module_picture(net)
    method = rue.LinearRUE(solver=rue.solve.Blocks(), damping=rue.solve.Fixed(DAMPING))
    auditor = method.fit(rue.wrap(net, loss=LOSS, l2=L2), rue.Data(X, y, weight=weight))
    assert changed(before, module_picture(net)) == []
    curved, meat = by_hand(net, X, y.numpy(), weight)
    inverse = np.linalg.inv(masked(curved) + (L2 + DAMPING) * np.eye(sum(SIZES)))
    J = jacobians(net, new)
    wanted = np.einsum("mkd,de,mle->mkl", J, inverse @ masked(meat) @ inverse, J)
    np.testing.assert_allclose(auditor.audit(new).covariance, wanted, rtol=1e-7)
    assert auditor.facts["blocks"] == SIZES


def test_solves_and_samples_are_those_of_the_blocks():
    net, (X, y, weight) = network(), rows()
    data, model = training_rows(rue.Data(X, y, weight=weight), rue.wrap(net, loss=LOSS, l2=L2))
    seen = model.seen_by(rue.solve.Blocks(), data, diagonal=True)
    inverse = rue.solve.Blocks().factor(rue.curvature.GaussNewton().at(seen, data), DAMPING)
    exact = np.linalg.inv(masked(by_hand(net, X, y.numpy(), weight)[0]) + (L2 + DAMPING) * np.eye(sum(SIZES)))
    vectors = torch.randn(3, sum(SIZES), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solved, residual = inverse.solve(vectors)
    np.testing.assert_allclose(solved, vectors.numpy() @ exact, rtol=1e-8)
    assert residual < 1e-9
    draws = inverse.sample(20_000, torch.Generator().manual_seed(0)).numpy()
    error = np.sqrt((exact**2 + np.outer(np.diag(exact), np.diag(exact))) / len(draws))
    assert (np.abs(np.cov(draws.T) - exact) < 5.5 * error).all()


def test_of_one_layer_it_is_the_exact_answer():
    X, y, _ = rows()
    model = rue.wrap(nn.Linear(4, 3).double(), loss=LOSS, l2=L2)
    exact, seen = (
        rue.LinearRUE(solver=solver).fit(model, (X, y)).audit(X[:5]).covariance
        for solver in (rue.solve.Cholesky(), rue.solve.Blocks())
    )
    np.testing.assert_allclose(seen, exact, rtol=1e-9)


@pytest.mark.parametrize(
    "method", [rue.CalibratedRUE, rue.ClassifierRUE, rue.RUE, rue.Laplace], ids=lambda method: method.__name__
)
def test_methods_that_need_single_rows_are_refused(method):
    X, y, _ = rows()
    with pytest.raises(rue.errors.SettingError, match="serves LinearRUE alone"):
        method(solver=rue.solve.Blocks()).fit(rue.wrap(network(), loss=LOSS, l2=L2), (X, y))


def test_what_leaves_rows_out_or_explains_them_is_refused():
    X, y, _ = rows()
    model, unknown = rue.wrap(network(), loss=LOSS, l2=L2), rue.wrap(network(), loss=LOSS)
    with pytest.raises(rue.errors.SettingError, match="HC3"):
        rue.LinearRUE(solver=rue.solve.Blocks(), meat="HC3").fit(model, (X, y))
    with pytest.raises(rue.errors.SettingError, match="the l2 of training"):
        rue.LinearRUE(solver=rue.solve.Blocks()).fit(unknown, (X, y))
    with pytest.raises(rue.errors.SettingError, match="nothing to explain"):
        rue.LinearRUE(solver=rue.solve.Blocks()).fit(model, (X, y)).audit(X[:2]).explain(0)
    with pytest.raises(rue.errors.SettingError, match="GaussNewton"):
        rue.LinearRUE(solver=rue.solve.Blocks(), curvature=rue.curvature.Hessian()).fit(model, (X, y))


def test_a_layer_that_is_too_large_is_refused_with_its_size(monkeypatch):
    X, y, _ = rows()
    monkeypatch.setattr(block_diagonal, "LARGEST", 24)
    with pytest.raises(rue.errors.SettingError, match="largest of 4 layers has 25 parameters"):
        rue.LinearRUE(solver=rue.solve.Blocks()).fit(rue.wrap(network(), loss=LOSS, l2=L2), (X, y))


def test_a_layer_that_nothing_bends_is_singular():
    X, y, _ = rows()
    model = rue.wrap(network(), loss=LOSS, l2={"first.*": L2, "second.*": L2, "shift": L2, "norm.*": 0.0})
    data, bound = training_rows((X * 0, y), model)  # the same row again and again
    seen = bound.seen_by(rue.solve.Blocks(), data, diagonal=True)
    with pytest.raises(rue.errors.NotPositiveDefiniteError, match="layer of 10 parameters"):
        rue.solve.Blocks().factor(rue.curvature.GaussNewton().at(seen, data), 0.0)


def test_models_without_layers_are_refused():
    from sklearn.ensemble import GradientBoostingRegressor

    X, y, _ = (part.numpy() for part in rows())
    trees = rue.wrap(GradientBoostingRegressor(n_estimators=3).fit(X, y))
    with pytest.raises(rue.errors.SettingError, match="layers of a torch module"):
        rue.LinearRUE(solver=rue.solve.Blocks()).fit(trees, (X, y))
