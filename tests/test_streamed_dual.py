"""The streamed dual form: exact audits of networks whose gradients are multiplied layer by layer and never kept."""

import pickle

import numpy as np
import pytest
import torch
from rue.curvature import GaussNewton
from rue.errors import DerivativeError, SettingError
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

import rue
from rue.calibrate.left_out import tangent
from rue.core.nested import leaves
from rue.data.opening import training_rows
from rue.models.torch import layer_products
from sketch_cases import CASES, WHOLE, made

L2 = 0.4
SOLVER = rue.solve.StreamedDual()


def squares(outputs, targets):
    return 0.5 * (outputs - targets[:, None]).square().sum(-1)


def plain_jacobian(core, inputs):
    """(n·k, d) by a backward pass for every row and output."""
    rows = []
    with torch.enable_grad():
        for row in range(len(inputs)):
            theta = core.theta.detach().requires_grad_()
            predicted = core.predict(theta, inputs[row : row + 1])[0]
            rows += [torch.autograd.grad(one, theta, retain_graph=True)[0] for one in predicted]
    return torch.stack(rows)


QUICK = ("picture", "adapters", "tied")  # the kinds that are also tried with little memory in every run


def case(name, l2=L2):
    """A network, a model of it, training rows, targets and other rows."""
    build, rows, *_ = {**CASES, **WHOLE}[name]
    net, X = made(build, rows)
    y = torch.randn(len(X), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    others = X.flip(0)[:6] + 0.1 if X.is_floating_point() else torch.where(X > 0, X % 11 + 1, X)[:6]
    return rue.wrap(net, loss=squares, l2=l2), X, y, others


@pytest.mark.parametrize(
    ("name", "room"),
    [pytest.param(name, 2**30, id=name) for name in (*CASES, *WHOLE)]
    + [
        pytest.param(name, 1, id=f"{name}, a column at a time", marks=[] if name in QUICK else pytest.mark.slow)
        for name in (*CASES, *WHOLE)
    ],
)
def test_products_are_those_of_plain_gradients_in_any_metric(name, room, monkeypatch):
    monkeypatch.setattr(layer_products, "free_bytes", lambda _: room)
    model, X, y, others = case(name)
    data, model = training_rows((X, y), model)
    core, source = model.core, torch.Generator().manual_seed(2)
    direction, vector = torch.randn(2, len(core.theta), generator=source, dtype=torch.float64)
    metric = torch.cat([(i + 1.0) * torch.ones(place.numel) for i, place in enumerate(core.layout.places())]).double()
    products = core.gradient_products(data, metric, direction)
    rows, other = plain_jacobian(core, X), plain_jacobian(core, others)
    k = len(rows) // len(X)
    close = {"rtol": 1e-9, "atol": 1e-11}
    gram = products.gram()
    torch.testing.assert_close(gram[:-1, :-1], rows / metric @ rows.T, **close)
    torch.testing.assert_close(gram[-1, :-1], rows @ direction, **close)
    torch.testing.assert_close(gram[:-1, -1], rows @ direction, **close)
    torch.testing.assert_close(gram[-1, -1], (metric * direction**2).sum(), **close)
    torch.testing.assert_close(products.along(vector)[:-1], rows @ vector, **close)
    torch.testing.assert_close(products.along(vector)[-1], (metric * direction * vector).sum(), **close)
    between, within = products.with_rows(others)
    torch.testing.assert_close(between[:, :, :-1].flatten(0, 1), other / metric @ rows.T, **close)
    torch.testing.assert_close(between[:, :, -1].flatten(), other @ direction, **close)
    apart = other.view(len(others), k, -1)
    torch.testing.assert_close(within, apart / metric @ apart.mT, **close)


@pytest.mark.parametrize("name", QUICK)
def test_gradients_that_are_kept_give_the_same_bits_and_no_row_is_read_again(name, monkeypatch):
    model, X, y, others = case(name)
    kept = rue.LinearRUE(solver=SOLVER).fit(model, (X, y))
    monkeypatch.setattr(layer_products, "room_to_keep", lambda _: 0)
    again = rue.LinearRUE(solver=SOLVER).fit(model, (X, y))
    monkeypatch.setattr(layer_products.LayerProducts, "_training", None)  # reading training rows is an error now
    seen = kept.audit(others).covariance
    monkeypatch.undo()
    assert np.array_equal(seen, again.audit(others).covariance)


def test_rows_in_parts_as_large_as_may_be_kept_are_those_of_all_at_once(monkeypatch):
    model, X, y, others = case("picture")
    data, model = training_rows((X, y), model)
    core = model.core
    plain = core.gradient_products(data, torch.ones_like(core.theta, dtype=torch.float64), core.theta)
    kept = plain.remembered()
    monkeypatch.setattr(layer_products.LayerProducts, "_at_once", lambda _: 2)
    for one, other in zip(kept.with_rows(others), plain.with_rows(others), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_metric_that_differs_within_a_matrix_is_kept():
    model, X, y, _ = case("layer norm")
    data, model = training_rows((X, y), model)
    metric = torch.linspace(1, 2, len(model.theta), dtype=torch.float64)
    rows = plain_jacobian(model.core, X)
    gram = model.core.gradient_products(data, metric, model.theta).gram()
    torch.testing.assert_close(gram[:-1, :-1], rows / metric @ rows.T)


def by_hand(model, X, y, others, l2):
    """Covariances of resampling and of the Laplace approximation from the d×d matrix, with squared errors."""
    core = training_rows((X, y), model)[1].core
    k = len(plain_jacobian(core, X[:1]))
    rows, other = (plain_jacobian(core, part).numpy().reshape(len(part), k, -1) for part in (X, others))
    inverse = np.linalg.inv(np.einsum("nki,nkj->ij", rows, rows) + l2 * np.eye(rows.shape[2]))
    residual = core.predict(core.theta, X).numpy() - y.numpy()[:, None]
    gradients = np.einsum("nkd,nk->nd", rows, residual)
    gradients = gradients - gradients.mean(0)
    moved = other @ inverse
    return moved @ (gradients.T @ gradients) @ moved.swapaxes(1, 2), moved @ other.swapaxes(1, 2)


@pytest.mark.parametrize("name", [*CASES, *WHOLE])
def test_audits_are_those_of_the_whole_matrix(name):
    model, X, y, others = case(name)
    resampled, posterior = by_hand(model, X, y, others, L2)
    seen = rue.LinearRUE(solver=SOLVER).fit(model, (X, y)).audit(others).covariance
    np.testing.assert_allclose(np.reshape(seen, resampled.shape), resampled, rtol=1e-8, atol=1e-10 * resampled.max())
    laplace = rue.Laplace(linearised=True, curvature=GaussNewton(), damping=rue.solve.NoDamping(), solver=SOLVER)
    seen = laplace.fit(model, (X, y)).audit(others).covariance  # also of what no training row has
    np.testing.assert_allclose(np.reshape(seen, posterior.shape), posterior, rtol=1e-8, atol=1e-10 * posterior.max())


def classes(opt="rest", n=60, flipped=0.25):
    """A small network of three classes with some labels wrong, at rest under an l2 or stopped, and other rows."""
    source = torch.Generator().manual_seed(0)
    X = torch.randn(n + 20, 6, generator=source, dtype=torch.float64)
    y = (X[:, :3] + 0.5 * X[:, 3:]).argmax(1)
    wrong = torch.rand(len(y), generator=source) < flipped
    y = torch.where(wrong, (y + 1) % 3, y)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3)).double()
    decay = L2 if opt == "rest" else 0.0
    kind = torch.optim.LBFGS if opt == "rest" else torch.optim.AdamW
    search = kind(net.parameters(), **({"max_iter": 800, "line_search_fn": "strong_wolfe"} if decay else {"lr": 3e-3}))

    def objective():
        search.zero_grad()
        loss = nn.functional.cross_entropy(net(X[:n]), y[:n], reduction="sum")
        loss = loss + 0.5 * decay * sum(part.square().sum() for part in net.parameters())
        loss.backward()
        return loss

    for _ in range(1 if decay else 150):
        search.step(objective)
    return net.eval(), X[:n], y[:n], X[n:]


def both(method, model, data, others, **settings):
    plain, streamed = (method(solver=solver, **settings).fit(model, data) for solver in (None, SOLVER))
    return plain.audit(others), streamed.audit(others)


@pytest.mark.parametrize("opt", ["rest", "stopped"])
@pytest.mark.parametrize("meat", ["HC0", "HC3"])
def test_classes_weights_and_groups_have_the_plain_covariance(opt, meat):
    net, X, y, others = classes(opt)
    model = rue.wrap(net, loss="cross_entropy", l2=L2)
    weight = 0.5 + np.arange(len(X)) % 3
    for data in ((X, y), rue.Data(X, y, weight=weight), rue.Data(X, y, weight=weight, group=np.arange(len(X)) // 4)):
        plain, streamed = both(rue.LinearRUE, model, data, others, meat=meat)
        np.testing.assert_array_equal(streamed.prediction, plain.prediction)
        np.testing.assert_allclose(streamed.covariance, plain.covariance, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("opt", ["rest", "stopped"])
@pytest.mark.parametrize("l2", [L2, None])
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_the_default_audit_of_classes_is_the_plain_one_under_a_penalty_that_treats_parameters_alike(
    opt, l2, monkeypatch
):
    """It searches the penalty of a tangent in units of each parameter, which axes of gradients do not have."""
    monkeypatch.setattr(tangent, "_metric", lambda model, _: torch.ones_like(model.theta, dtype=torch.float64))
    net, X, y, others = classes(opt)
    plain, streamed = both(rue.ClassifierRUE, rue.wrap(net, loss="cross_entropy", l2=l2), (X, y), others)
    np.testing.assert_allclose(streamed.score, plain.score, rtol=1e-8)
    np.testing.assert_allclose(streamed.probability, plain.probability, rtol=1e-8)
    np.testing.assert_allclose(streamed.covariance, plain.covariance, rtol=1e-7, atol=1e-10)


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_without_a_stated_penalty_one_that_the_parameters_rest_under_is_found():
    net, X, y, others = classes("rest")
    plain, streamed = both(rue.LinearRUE, rue.wrap(net, loss="cross_entropy"), (X, y), others)
    assert streamed.facts["tangent_penalty"] == pytest.approx(L2, rel=1e-3)
    np.testing.assert_allclose(streamed.covariance, plain.covariance, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_labels_that_were_learnt_by_heart_are_not_taken_for_left_out_predictions():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 1))
    X, noise = torch.randn(150, 20), 0.5
    y = X[:, 0] + noise * torch.randn(len(X))
    search = torch.optim.AdamW(net.parameters(), 1e-3)
    for _ in range(300):
        search.zero_grad()
        nn.functional.mse_loss(net(X)[:, 0], y).backward()
        search.step()
    audit = rue.CalibratedRUE(solver=SOLVER).fit(rue.wrap(net, loss="squared_error"), (X, y)).audit(torch.randn(50, 20))
    assert audit.total_std.mean() > 0.8 * noise


@pytest.mark.parametrize("method", [rue.LinearRUE, rue.ClassifierRUE])
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_explanations_name_the_same_rows_with_the_same_effects(method, monkeypatch):
    monkeypatch.setattr(tangent, "_metric", lambda model, _: torch.ones_like(model.theta, dtype=torch.float64))
    net, X, y, others = classes()
    plain, streamed = both(method, rue.wrap(net, loss="cross_entropy", l2=L2), (X, y), others)
    for row in (0, 7):
        wanted, found = (audit.explain(row).to_frame().select_dtypes("number") for audit in (plain, streamed))
        assert wanted.shape[1] > 1
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


def test_penalties_of_layers_are_kept_and_others_refused():
    net, X, y, others = classes()
    by_layer = rue.wrap(net, loss="cross_entropy", l2={"0.*": 2.0, "2.weight": 0.1, "2.bias": 0.5})
    plain, streamed = both(rue.LinearRUE, by_layer, (X, y), others)
    np.testing.assert_allclose(streamed.covariance, plain.covariance, rtol=1e-8)
    method = rue.LinearRUE(solver=SOLVER)
    with pytest.raises(SettingError, match="on every parameter or on none"):
        method.fit(rue.wrap(net, loss="cross_entropy", l2={"*.weight": 1.0, "*.bias": 0.0}), (X, y))
    coupled = rue.wrap(net, loss="cross_entropy", penalty=lambda named: named["0.weight"].sum().square())
    with pytest.raises(SettingError, match="couples no parameters"):
        method.fit(coupled, (X, y))


def test_models_without_layers_and_coupled_rows_are_refused():
    from lightgbm import LGBMRegressor

    X = np.random.default_rng(0).normal(size=(40, 4))
    trees = rue.wrap(LGBMRegressor(n_estimators=5, min_child_samples=5, verbose=-1).fit(X, X[:, 0]))
    with pytest.raises(SettingError, match="layers of a torch module"):
        rue.LinearRUE(solver=SOLVER).fit(trees, (X, X[:, 0]))
    cox = rue.wrap(nn.Linear(4, 1, bias=False).double(), loss="cox", l2=L2)
    with pytest.raises(SettingError, match="do not depend on each other"):
        rue.LinearRUE(solver=SOLVER).fit(cox, (X, np.stack([np.arange(40.0) + 1, np.ones(40)], 1)))


def test_batches_of_any_size_and_a_pickled_auditor_give_the_same_answer():
    net, X, y, others = classes()
    model = rue.wrap(net, loss="cross_entropy", l2=L2)
    whole = rue.LinearRUE(solver=SOLVER).fit(model, (X, y))
    parts = rue.LinearRUE(solver=SOLVER).fit(model, DataLoader(TensorDataset(X, y), batch_size=7))
    std = whole.audit(others).std
    np.testing.assert_allclose(parts.audit(others).std, std, rtol=1e-8)
    np.testing.assert_allclose(
        np.concatenate([whole.audit(others[:4]).std, whole.audit(others[4:]).std]), std, rtol=1e-8
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(whole)).audit(others).std, std)


def test_in_single_precision_the_answer_is_the_same_but_for_rounding():
    net, X, y, others = classes()
    exact = rue.LinearRUE().fit(rue.wrap(net, loss="cross_entropy", l2=L2), (X, y)).audit(others)
    single = rue.wrap(net.float(), loss="cross_entropy", l2=L2)
    seen = rue.LinearRUE(solver=SOLVER).fit(single, (X.float(), y)).audit(others.float())
    np.testing.assert_allclose(seen.std, exact.std, rtol=1e-4)


def test_the_gradient_of_a_new_row_may_have_parts_that_no_training_row_has():
    net = nn.Linear(5, 1, bias=False).double()
    X = torch.eye(5, dtype=torch.float64)
    model = rue.wrap(net, loss="squared_error", l2=L2)
    method = rue.Laplace(linearised=True, curvature=GaussNewton(), damping=rue.solve.NoDamping(), solver=SOLVER)
    variance = method.fit(model, (X[:2].repeat(2, 1), torch.zeros(4))).audit(X[1:3]).std ** 2
    np.testing.assert_allclose(variance, [1 / (2 + L2), 1 / L2], rtol=1e-10)


def test_coordinates_of_a_direction_give_its_effect_on_every_row():
    net, X, y, _ = classes()
    model = rue.LinearRUE(solver=SOLVER).fit(rue.wrap(net, loss="cross_entropy", l2=L2), (X, y)).model
    view = model.core
    moved = torch.randn(2, len(view.inner.theta), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = (plain_jacobian(view.inner, X) @ moved.T).view(len(X), 3, 2)
    torch.testing.assert_close(view.jacobian(X) @ view.coordinates.project(moved).T, wanted)
    torch.testing.assert_close(view.coordinates.project(view.inner.centre - view.inner.theta), view.centre)


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation of torch returns."""

    most = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        outcome = function(*args, **(kwargs or {}))
        made = [leaf for leaf in leaves(outcome) if isinstance(leaf, torch.Tensor)]
        self.most = max([self.most, *(leaf.untyped_storage().nbytes() for leaf in made)])
        return outcome


class Twice(nn.Module):
    """A dense layer at two positions of every row, so that gradients are no products of two vectors."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, x):
        return self.second(self.first(torch.stack([x, x.roll(1, -1)], 1)).tanh().sum(1))


@pytest.mark.parametrize(
    ("net", "width", "n", "limit"),
    [
        (nn.Sequential(nn.Linear(1400, 1400), nn.Tanh(), nn.Linear(1400, 2)), 1400, 150, 2**25),  # 4.4 GiB in all
        (Twice(120), 120, 60, 2**20),  # 7 MiB in all
    ],
    ids=["pairs", "entries"],
)
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")  # the networks are not trained
def test_gradients_of_all_rows_are_never_in_memory(net, width, n, limit, monkeypatch):
    monkeypatch.setattr(layer_products, "free_bytes", lambda _: 4 * limit // 8)
    source = torch.Generator().manual_seed(0)
    X, y = torch.randn(n, width, generator=source), torch.randint(0, 2, (n,), generator=source)
    method, model = rue.LinearRUE(solver=SOLVER), rue.wrap(net.eval(), loss="cross_entropy", l2=L2)
    with Largest() as noted:
        std = method.fit(model, (X, y)).audit(X[:5]).std
    assert noted.most <= limit
    assert 4 * n * 2 * len(model.theta) > 5 * limit
    assert (std > 0).all()


def test_rows_of_another_length_are_refused_not_misread():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 4)

        def forward(self, x):
            return self.inner(x).sum((1, 2))

    source = torch.Generator().manual_seed(0)
    X = torch.randn(8, 1, 3, generator=source, dtype=torch.float64)
    auditor = rue.LinearRUE(solver=SOLVER).fit(
        rue.wrap(Words().double(), loss="squared_error", l2=L2), (X, torch.zeros(8))
    )
    with pytest.raises(DerivativeError, match="pad every batch"):
        auditor.audit(torch.cat([X, X], 1))


def test_gradients_that_are_misread_are_refused(monkeypatch):
    from rue.models.torch import held_gradients

    net, X, y, _ = classes()
    real = held_gradients.Pairs.products
    monkeypatch.setattr(held_gradients.Pairs, "products", lambda self, left, right: real(self, 1.1 * left, right))
    with pytest.raises(DerivativeError, match="plain backward passes"):
        rue.LinearRUE(solver=SOLVER).fit(rue.wrap(net, loss="cross_entropy", l2=L2), (X, y))
