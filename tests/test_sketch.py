"""Sketches: what is read off the layers of a network is its gradient, combined; audits in few coordinates follow."""

import pickle

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import nn

import rue
from rue.calibrate.leaving_one_out import leave_one_out
from rue.core import derivatives
from rue.core.curvature import GaussNewton
from rue.models.torch import drawn_layers, layer_sketch, tried_layers
from rue.models.torch.blocks import LayerBlock, Place, planned
from sketch_cases import CASES, WHOLE, made
from snapshot import changed, module_picture


def core_of(net):
    return rue.wrap(net, loss=lambda outputs, _: outputs.square().sum(-1)).core


def plain_jacobian(core, inputs):
    """(n, k, d) by a backward pass for every row and output."""
    rows = []
    with torch.enable_grad():
        for row in range(len(inputs)):
            theta = core.theta.detach().requires_grad_()
            predicted = core.predict(theta, inputs[row : row + 1])[0]
            rows.append(torch.stack([torch.autograd.grad(one, theta, retain_graph=True)[0] for one in predicted]))
    return torch.stack(rows)


@pytest.mark.parametrize("size", [60, 10**6])
@pytest.mark.parametrize("name", [*CASES, *WHOLE])
def test_what_is_read_off_layers_is_the_plain_gradient_in_the_same_combinations(name, size):
    build, rows, *_ = {**CASES, **WHOLE}[name]
    net, inputs = made(build, rows)
    core = core_of(net)
    sketch = core.sketched(inputs, size, 0)
    wanted = sketch.project(plain_jacobian(core, inputs))
    torch.testing.assert_close(sketch.jacobian(inputs), wanted, rtol=1e-9, atol=1e-12)
    assert sketch.size <= max(size, 2 * len(core.layout.names))


@pytest.mark.parametrize("name", [*CASES, *WHOLE])
def test_only_parameters_of_unknown_layers_have_their_gradients_taken_whole(name):
    build, rows, *whole = {**CASES, **WHOLE}[name]
    net, inputs = made(build, rows)
    core = core_of(net)
    sketch = core.sketched(inputs, 60, 0)
    read = {place.offset for place in sketch.tapped}
    named = zip(core.layout.names, core.layout.places(), strict=True)
    missing = {name for name, place in named if not any(place.offset <= at < place.end for at in read)}
    assert missing == (whole[0] if whole else set())


@pytest.mark.parametrize("name", ["picture", "sentence", "LSTM"])
def test_passes_in_half_precision_give_the_same_gradients_but_for_rounding(name, monkeypatch):
    monkeypatch.setattr(drawn_layers, "_halved", lambda _: True)
    build, rows, *_ = CASES[name]
    net, inputs = made(build, rows)
    inputs = inputs.float() if inputs.is_floating_point() else inputs
    core = core_of(net.float())
    half = core.sketched(inputs, 200, 0)
    exact = half.project(plain_jacobian(core, inputs))
    assert half.half
    assert half.describe()["layers_in"] == "bfloat16"
    assert float((half.jacobian(inputs) - exact).norm() / exact.norm()) < tried_layers.ROUNDED


def test_half_precision_that_is_too_coarse_for_a_network_is_not_used(monkeypatch):
    monkeypatch.setattr(drawn_layers, "_halved", lambda _: True)
    monkeypatch.setattr(tried_layers, "ROUNDED", 1e-4)
    net, inputs = made(*CASES["picture"])
    sketch = core_of(net.float()).sketched(inputs.float(), 200, 0)
    assert not sketch.half
    assert not sketch.generic


def test_all_coordinates_together_keep_every_product():
    net, inputs = made(*CASES["picture"])
    core = core_of(net)
    rows = core.sketched(inputs, 10**6, 0).jacobian(inputs).flatten(0, 1)
    full = plain_jacobian(core, inputs).flatten(0, 1)
    torch.testing.assert_close(rows @ rows.T, full @ full.T)


@pytest.mark.parametrize(
    ("lengths", "most", "side"),
    [((12, 9), 20, 1), ((12, 9), 32, 4), ((3, 30), 24, 1), ((1, 30), 5, 1), ((12, 30), 50, 2), ((12, 9), 20, 0)],
)
def test_combinations_are_the_identity_on_average(lengths, most, side):
    grouping, unit = planned(lengths, most, side), torch.eye(lengths[0] * lengths[1], dtype=torch.float64)
    place, total = Place(0, lengths, (lengths[1], 1)), torch.zeros_like(unit)
    for seed in range(400):
        rows = LayerBlock.drawn(place, False, grouping, seed, unit).project(unit)
        total += rows @ rows.T / 400
    assert grouping.size <= most
    assert abs(float(total.diagonal().mean()) - 1) < 1e-9
    assert float((total - unit).abs().max()) < 0.1  # a standard error of at most .02


@pytest.mark.parametrize("name", [*CASES, *WHOLE])
def test_the_way_from_the_centre_to_the_parameters_is_kept_exactly(name):
    build, rows, *_ = {**CASES, **WHOLE}[name]
    net, inputs = made(build, rows)
    centre = {key: 0.3 * part.detach() + 0.1 for key, part in net.named_parameters()}
    core = rue.wrap(net, loss=lambda outputs, _: outputs.square().sum(-1), l2=1.0, centre=centre).core
    away = core.theta - core.centre
    sketch = core.sketched(inputs, 150, 0)
    alone = [block for block in sketch.blocks.values() if block.size == 1 < block.place.numel]
    for block in alone:  # vectors with a single coordinate
        away[block.place.offset : block.place.end] = 0
    wanted = plain_jacobian(core, inputs) @ away
    torch.testing.assert_close(sketch.jacobian(inputs) @ sketch.project(away), wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("lengths", "most", "side"),
    [((12, 9), 32, 4), ((3, 30), 24, 1), ((1, 30), 5, 1), ((30, 1), 5, 1), ((12, 9), 20, 0)],
)
def test_beside_a_kept_direction_combinations_are_the_identity_on_average(lengths, most, side):
    grouping, unit = planned(lengths, most, side), torch.eye(lengths[0] * lengths[1], dtype=torch.float64)
    place, total = Place(0, lengths, (lengths[1], 1)), torch.zeros_like(unit)
    kept = torch.linspace(-1, 2, len(unit), dtype=torch.float64)
    for seed in range(400):
        block = LayerBlock.drawn(place, False, grouping, seed, unit).keeping(kept)
        rows = block.project(unit)
        torch.testing.assert_close(rows @ (rows.T @ kept), kept)
        total += rows @ rows.T / 400
    assert block.size == grouping.size + 1
    assert float((total - unit).abs().max()) < 0.1


def test_a_row_that_reaches_other_layers_is_refused_not_misread():
    class Longer(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(1, 9, 1))
            self.head = nn.Linear(1, 1)

        def forward(self, x):
            return self.head((x.unsqueeze(-1) + self.shift[:, : x.shape[1]]).sum(1))

    core = core_of(Longer().double())
    sketch = core.sketched(torch.randn(4, 5).double(), 100, 0)
    with pytest.raises(rue.errors.DerivativeError, match="pad every batch"):
        sketch.jacobian(torch.randn(4, 6).double())


def test_memory_that_runs_out_halves_the_rows_and_goes_on(monkeypatch):
    net, inputs = made(*CASES["layer norm"])
    sketch = core_of(net).sketched(inputs, 60, 0)
    wanted, sizes, real = sketch.jacobian(inputs), [], layer_sketch.LayerSketch._of_piece

    def small(self, piece, followed):
        sizes.append(len(piece))
        if len(piece) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, piece, followed)

    monkeypatch.setattr(layer_sketch.LayerSketch, "_of_piece", small)
    torch.testing.assert_close(sketch.jacobian(inputs), wanted)
    assert sizes == [7, 3, 1, 1, 1, 1, 1, 1, 1]


def ridge(n=60, l2=0.7):
    """A network at the minimum of a penalised squared error."""
    source = torch.Generator().manual_seed(0)
    X = torch.randn(n, 3, generator=source, dtype=torch.float64)
    y = X[:, 0].sin() + 0.3 * torch.randn(n, generator=source, dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    search = torch.optim.LBFGS(net.parameters(), max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def objective():
        search.zero_grad()
        loss = 0.5 * (net(X)[:, 0] - y).square().sum() + 0.5 * l2 * sum(p.square().sum() for p in net.parameters())
        loss.backward()
        return loss

    search.step(objective)
    return rue.wrap(net, loss="squared_error", l2=l2), X, y, net


@pytest.mark.parametrize("method", [rue.LinearRUE, rue.CalibratedRUE])
def test_with_as_many_coordinates_as_parameters_the_audit_is_the_exact_one(method):
    model, X, y, _ = ridge()
    exact = method().fit(model, (X, y)).audit(X[:9] + 0.1)
    sketched = method(solver=rue.solve.Sketch(10**4)).fit(model, (X, y)).audit(X[:9] + 0.1)
    np.testing.assert_array_equal(sketched.prediction, exact.prediction)
    np.testing.assert_allclose(sketched.std, exact.std, rtol=1e-6)
    if method is rue.LinearRUE:
        np.testing.assert_allclose(sketched.score, exact.score, rtol=1e-6)


def test_members_move_on_the_tangent_and_the_module_is_as_it_was():
    model, X, y, net = ridge()
    before = module_picture(net)
    exact = rue.LinearRUE().fit(model, (X, y)).audit(X[:9])
    sampled = rue.RUE(members=4000, curvature=GaussNewton(), damping=rue.solve.NoDamping(), solver=rue.solve.Sketch())
    assert changed(before, module_picture(net)) == []
    np.testing.assert_allclose(sampled.fit(model, (X, y)).audit(X[:9]).std, exact.std, rtol=0.06)


@pytest.mark.filterwarnings("ignore:the rows tell about:rue.errors.RueWarning")  # few coordinates are meant
def test_the_same_seed_gives_the_same_bits_also_after_pickling():
    model, X, y, _ = ridge()
    auditor = rue.LinearRUE(solver=rue.solve.Sketch(30)).fit(model, (X, y))
    again = rue.LinearRUE(solver=rue.solve.Sketch(30)).fit(model, (X, y))
    other = rue.LinearRUE(solver=rue.solve.Sketch(30, seed=1)).fit(model, (X, y))
    scores = auditor.audit(X[:5]).score
    np.testing.assert_array_equal(again.audit(X[:5]).score, scores)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(auditor)).audit(X[:5]).score, scores)
    assert not np.array_equal(other.audit(X[:5]).score, scores)


def test_penalties_of_layers_are_kept_and_uneven_ones_refused():
    _, X, y, net = ridge()
    by_layer = rue.wrap(net, loss="squared_error", l2={"0.*": 2.0, "2.*": 0.1})
    exact = rue.LinearRUE().fit(by_layer, (X, y)).audit(X[:9]).std
    every = rue.solve.Sketch(10**4)
    np.testing.assert_allclose(rue.LinearRUE(solver=every).fit(by_layer, (X, y)).audit(X[:9]).std, exact, rtol=1e-6)
    coupled = rue.wrap(net, loss="squared_error", penalty=lambda named: named["0.weight"].sum().square())
    with pytest.raises(rue.errors.SettingError, match="couples no parameters"):
        rue.LinearRUE(solver=every).fit(coupled, (X, y))
    uneven = rue.wrap(net, loss="squared_error", penalty=lambda named: (named["0.weight"][0] ** 2).sum())
    with pytest.raises(rue.errors.SettingError, match="one penalty for all numbers"):
        rue.LinearRUE(solver=every).fit(uneven, (X, y))


def test_fewer_coordinates_than_tensors_are_refused_with_the_number_it_takes():
    model, X, y, _ = ridge()
    with pytest.raises(rue.errors.SettingError, match="size=2 is less than one coordinate for each") as refused:
        rue.LinearRUE(solver=rue.solve.Sketch(2)).fit(model, (X, y))
    enough = int(str(refused.value).split("at least ")[1].split()[0])
    with pytest.warns(rue.errors.RueWarning, match="the rows tell about"):
        facts = rue.LinearRUE(solver=rue.solve.Sketch(enough)).fit(model, (X, y)).facts
    assert facts["projected_to"] <= enough


def test_a_model_without_layers_is_refused():
    from lightgbm import LGBMRegressor

    _, X, y, _ = ridge()
    trees = rue.wrap(LGBMRegressor(n_estimators=5, min_child_samples=5, verbose=-1).fit(X.numpy(), y.numpy()))
    with pytest.raises(rue.errors.SettingError, match="layers of a torch module"):
        rue.LinearRUE(solver=rue.solve.Sketch()).fit(trees, (X.numpy(), y.numpy()))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = torch.tensor(X[order] / 8 - 1, dtype=torch.float32), torch.tensor(y[order])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))
        optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
        with torch.enable_grad():
            for _ in range(60):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(X[:400]), y[:400]).backward()
                optimizer.step()
    return net.eval(), X, y


def margin_variance(audit):
    """The variance of the margin between the two leading classes."""
    first, second = np.argsort(-audit.prediction, axis=1)[:, :2].T
    rows, covariance = np.arange(len(first)), audit.covariance
    return covariance[rows, first, first] + covariance[rows, second, second] - 2 * covariance[rows, first, second]


@pytest.mark.filterwarnings("ignore:the rows tell about:rue.errors.RueWarning")  # few coordinates are meant
def test_a_sketch_of_half_the_size_ranks_margins_as_the_exact_answer(digits):
    net, X, y = digits
    model = rue.wrap(net, loss=nn.CrossEntropyLoss(reduction="sum"), l2=1.0)
    exact, sketched = (
        margin_variance(rue.LinearRUE(solver=solver).fit(model, (X[:400], y[:400])).audit(X[400:600]))
        for solver in (rue.solve.Cholesky(), rue.solve.Sketch(1500))
    )
    assert spearmanr(exact, sketched)[0] > 0.93
    assert 0.8 < np.median(sketched / exact) < 1.25


def test_a_sketch_that_keeps_less_than_the_rows_tell_warns_and_says_how_many_it_takes(digits):
    net, X, y = digits
    data = X[:400], y[:400]
    model = rue.wrap(net, loss=nn.CrossEntropyLoss(reduction="sum"), l2=1.0)
    told = leave_one_out(model, data).effective_parameters
    with pytest.warns(rue.errors.RueWarning, match="effective parameters, and the sketch keeps") as warned:
        rue.LinearRUE(solver=rue.solve.Sketch(400)).fit(model, data)
    said = float(str(warned[0].message).split("about ")[1].split()[0])
    assert 0.5 * told < said < 1.2 * told  # of the few coordinates themselves
    rue.LinearRUE(solver=rue.solve.Sketch(10**4)).fit(model, data)  # all of them: nothing to warn of


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_of_followed_classes_the_derivatives_are_those_of_all_and_of_others_zero(digits):
    net, X, y = digits
    sketch = core_of(net).sketched(X[:50], 200, 0)
    likeliest = net(X[:50]).topk(2, dim=1).indices
    every, two = sketch.jacobian(X[:50]), sketch.jacobian(X[:50], likeliest)
    torch.testing.assert_close(two, every[torch.arange(50)[:, None], likeliest])
    model = rue.wrap(net, loss=nn.CrossEntropyLoss(), l2=1.0)
    view = rue.LinearRUE(solver=rue.solve.Sketch(200, followed=2)).fit(model, (X[:50], y[:50])).model.core
    leading = torch.zeros(50, 10, dtype=torch.bool).scatter_(1, likeliest, True)
    torch.testing.assert_close(view.jacobian(X[:50])[leading], every[leading])
    assert not bool(view.jacobian(X[:50])[~leading].any())


@pytest.mark.filterwarnings("ignore:no l2 is stated:rue.errors.RueWarning")
@pytest.mark.filterwarnings("ignore:the rows tell about:rue.errors.RueWarning")  # few coordinates are meant
def test_a_network_that_is_too_large_is_read_once(digits, monkeypatch):
    net, X, y = digits
    monkeypatch.setattr("rue.core.solve.choice.LARGE", 2500)
    monkeypatch.setattr("rue.core.solve.sketch.SIZES", (800,))
    read, real = [], layer_sketch.LayerSketch._read_off

    def counted(self, inputs, followed):
        read.append(len(inputs))
        return real(self, inputs, followed)

    monkeypatch.setattr(layer_sketch.LayerSketch, "_read_off", counted)
    monkeypatch.setattr(derivatives, "derived_jacobian", None)  # nothing takes a gradient whole
    monkeypatch.setattr(derivatives, "_derived_pull", None)
    with pytest.warns(rue.errors.RueWarning, match="too many for an exact solve"):
        auditor = rue.ClassifierRUE().fit(rue.wrap(net, loss=nn.CrossEntropyLoss()), (X[:400], y[:400]))
    assert sum(size for size in read if size > 2) == 400  # one or two rows tell the number of outputs
    read.clear()
    assert auditor.audit(X[400:500]).score.shape == (100,)
    assert sum(read) == 100
    assert auditor.facts["projected_to"] <= 800
