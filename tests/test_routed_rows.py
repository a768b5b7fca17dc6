"""Networks whose rows take different ways inside: no parameter is lost, and the answer is that of explicit matrices."""

import warnings

import numpy as np
import pytest
import torch
from rue.errors import DerivativeError, RueWarning
from torch import nn

import rue
from routed_cases import CASES, L2, RareBranch, Towers, deviations, jacobian, made
from rue.core import derivatives, row_by_row, together
from rue.models.torch import drawn_layers

SOLVERS = {
    "none": None,
    "Dual": rue.solve.Dual(),
    "Sketch": rue.solve.Sketch(500),
    "Streamed": rue.solve.StreamedDual(),
}


def model_of(net, l2=L2):
    return rue.wrap(net, loss="cross_entropy", l2=l2)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")  # untrained networks are meant
def test_the_deviation_is_that_of_plain_gradients_and_an_explicit_matrix(name, solver):
    net, X, y, others = made(name)
    audit = rue.LinearRUE(solver=SOLVERS[solver]).fit(model_of(net), (X, y)).audit(others)
    np.testing.assert_allclose(audit.std, deviations(net, X, y, others), rtol=1e-7)
    if solver == "Sketch":
        used = np.abs(jacobian(net, X)).max((0, 1)) > 0
        assert audit.facts["projected_to"] >= used.sum()


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
@pytest.mark.parametrize("size", [60, 500])
def test_a_loader_whose_rare_rows_come_last_loses_no_parameter(size):
    net, X, y, _ = made("towers")
    order = X[:, 0].argsort(stable=True)
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[order], y[order]), batch_size=8)
    view = rue.LinearRUE(solver=rue.solve.Sketch(size)).fit(model_of(net), batches).model.core
    wanted = view.coordinates.project(torch.tensor(jacobian(net, X[order])))
    torch.testing.assert_close(view.jacobian(X[order]), wanted, rtol=1e-9, atol=1e-12)
    assert set(view.coordinates.found.parameters) == view.coordinates.found.reached


def test_rows_that_use_a_known_layer_in_another_way_too_are_refused():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

        def forward(self, x):
            out = self.last(self.first(x[:, 1:]).tanh())
            return out + self.first.weight.square().sum() * (x[:, :1] == 4) if (x[:, 0] == 4).any() else out

    net, X = Twice().double(), made("towers")[1]
    sketch = model_of(net).core.sketched(X[:6], 200, 0)
    torch.testing.assert_close(sketch.jacobian(X[:6]), sketch.project(torch.tensor(jacobian(net, X[:6]))))
    with pytest.raises(DerivativeError, match=r"torch\.where"):
        sketch.jacobian(X[6:8])


def test_whatever_torch_says_of_rows_that_go_elsewhere_is_a_sentence():
    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.expert = nn.Linear(4, 3)

        def forward(self, x):
            rows = (x[:, 0] == 0).nonzero()[:, 0]
            return x.new_zeros(len(x), 3).index_copy(0, rows, self.expert(x[rows, 1:]))

    X = made("towers")[1]
    sketch = model_of(One().double()).core.sketched(X[X[:, 0] == 0], 200, 0)
    assert sketch.tapped
    with pytest.raises(DerivativeError, match=r"told apart layer by layer.*torch says"):
        sketch.jacobian(X)


@pytest.mark.parametrize("solver", ["Sketch", "Streamed"])
def test_rows_that_use_what_no_training_row_uses_are_warned_of(solver):
    net, X, y, others = made("towers")
    known = X[:, 0] != 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auditor = rue.LinearRUE(solver=SOLVERS[solver]).fit(model_of(net), (X[known], y[known]))
    with pytest.warns(RueWarning, match="51 parameters that no training row uses"):
        audit = auditor.audit(others)
    np.testing.assert_allclose(audit.std, deviations(net, X[known], y[known], others), rtol=1e-7, atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auditor.audit(others[:4])


def test_rows_are_looked_through_only_where_the_first_leave_parameters_out(monkeypatch):
    read, real = [], drawn_layers.looked_through
    monkeypatch.setattr(drawn_layers, "looked_through", lambda *both: read.append(1) or real(*both))
    net, X, *_ = made("bells")
    model_of(net).core.sketched(X, 200, 0)
    assert not read
    model_of(Towers().double()).core.sketched(X, 200, 0)
    assert read


@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_made_of_every_one(name):
    net, X, y, others = made(name)
    assert rue.plan(model_of(net), (X, y), inputs=others).chosen is not None


def test_a_sketch_with_room_for_all_parameters_combines_none_and_does_not_warn(monkeypatch):
    class Unused(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(5, 3))
            self.unused = [nn.Linear(50, 50)]
            self.add_module("rest", nn.ModuleList(self.unused))

        def forward(self, x):
            return self[0](x)

    _, X, y, others = made("bells")
    net = Unused().double()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        audit = rue.LinearRUE(solver=rue.solve.Sketch(10**5)).fit(model_of(net, 0.05), (X, y)).audit(others)
    assert not [one for one in seen if "coordinates" in str(one.message)]
    assert audit.facts["projected_to"] == 18
    exact = rue.LinearRUE(solver=rue.solve.Cholesky()).fit(model_of(net, 0.05), (X, y)).audit(others)
    np.testing.assert_allclose(audit.std, exact.std, rtol=1e-9)


@pytest.mark.parametrize("width", [1, 3, 40])
def test_as_many_coordinates_as_parameters_keep_every_one_of_them(width):
    """Vectors have an eighth of the coordinates of a matrix, but not where there is room for all."""
    net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1)).double()
    core = rue.wrap(net, loss="squared_error").core
    sketch = core.sketched(torch.randn(6, 1).double(), core.theta.numel(), 0)
    assert sketch.size == core.theta.numel()
    assert not sketch.combined


# ------------------------------------------------------------------------------------ several rows together


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["bells", "wrong together"])
def test_a_wrong_rule_for_several_rows_is_found_and_rows_are_taken_one_by_one(name, dtype):
    net, X, *_ = made(name)
    net, X = net.to(dtype), X.to(dtype)
    core, wanted = model_of(net).core, torch.tensor(jacobian(net, X)).to(dtype)
    close = {"rtol": 1e-4, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-12}
    torch.testing.assert_close(derivatives.derived_jacobian(core, X), wanted, **close)
    weights = torch.randn(len(X), 3, dtype=dtype)
    pulled = derivatives._derived_pull(core, X, weights)
    torch.testing.assert_close(pulled, torch.einsum("nk,nkd->nd", weights, wanted), **close)
    if name == "bells":  # torch has no second derivatives of distances
        return
    moves = torch.randn(2, wanted.shape[2], dtype=dtype)
    torch.testing.assert_close(derivatives.pushed(core, X, moves), wanted @ moves.T, **close)
    moved = derivatives.member_outputs(core, core.theta + 0.01 * moves, X)
    each = torch.stack([core.predict(core.theta + 0.01 * move, X) for move in moves])
    torch.testing.assert_close(moved, each)


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_rows_taken_one_by_one_for_a_wrong_rule_are_counted_with_the_reason(monkeypatch):
    monkeypatch.setattr(row_by_row, "MANY", 30)
    net, X, y, _ = made("wrong together")
    with pytest.warns(RueWarning, match="apart, relative, from plain backward passes"):
        facts = rue.LinearRUE().fit(model_of(net), (X, y)).facts
    assert facts["row_by_row"] >= len(X)


def test_a_right_rule_is_tried_once_for_a_model_and_a_number_of_rows(monkeypatch):
    tried, real = [], together._apart
    monkeypatch.setattr(together, "_apart", lambda *pair: tried.append(1) or real(*pair))
    net, X, *_ = made("named arguments")
    core = model_of(net).core
    for rows in (X, X, X[:7], X[:7]):
        derivatives.derived_jacobian(core, rows)
    assert len(tried) == 2
    count = len(together._verdicts)
    del core
    assert len(together._verdicts) < count  # nothing is remembered of models that are gone


# ------------------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize("solver", [rue.solve.Sketch(10**4), rue.solve.StreamedDual(), rue.solve.EKFAC()])
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_no_light_is_green_for_a_network_that_was_not_looked_at(solver):
    _, X, y, others = made("bells")
    torch.manual_seed(0)
    model = model_of(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double(), 0.05)
    seen = rue.LinearRUE().fit(model, (X, y)).check(5 * others)
    found = rue.LinearRUE(solver=solver).fit(model, (X, y)).check(5 * others)
    for name in ("linearisation", "negative curvature"):
        assert seen[name].light == "amber"
        assert "curves are not seen" in found.missing[name]


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_a_rare_branch_beyond_the_rows_that_are_tried_is_found():
    net = RareBranch().double()
    X = torch.randn(400, 5, generator=torch.Generator().manual_seed(0)).double()
    X[:, 0], y = 0, torch.arange(400) % 3
    X[300:305, 0] = 4
    audit = rue.LinearRUE(solver=rue.solve.Sketch(500)).fit(model_of(net), (X, y)).audit(X[298:303])
    np.testing.assert_allclose(audit.std, deviations(net, X, y, X[298:303]), rtol=1e-7)
