"""Modules whose forward passes move rows about, hide parameters or have odd ones: the answer is the exact one."""

import numpy as np
import pytest
import torch
from torch import nn

import rue

X = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
y = (X.sum(1) > 0).long()


class Ordered(nn.Module):
    """Rows in another order inside, and back again at the end."""

    def __init__(self, order):
        super().__init__()
        self.first, self.last, self.order = nn.Linear(6, 5), nn.Linear(5, 2), order

    def forward(self, x):
        order = self.order(x)
        return self.last(self.first(x[order]).tanh())[order.argsort()]


class Scaled(nn.Module):
    """A parameter that is a number, used in a way that is not known."""

    def __init__(self, use):
        super().__init__()
        self.first, self.last, self.number, self.use = (
            nn.Linear(6, 5),
            nn.Linear(5, 2),
            nn.Parameter(torch.ones(())),
            use,
        )

    def forward(self, x):
        return self.last(self.use(self.first(x), self.number).tanh())


class Recurrent(nn.Module):
    """A recurrent layer whose state is projected."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.LSTM(2, 5, proj_size=2, batch_first=True, bidirectional=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.layer(x.view(-1, 3, 2))[0][:, -1])


class Mapped(nn.Module):
    """Parameters that are seen inside `torch.func` alone."""

    def __init__(self, mapped):
        super().__init__()
        self.weight, self.last, self.mapped = nn.Parameter(torch.randn(5, 6)), nn.Linear(5, 2), mapped

    def forward(self, x):
        return self.last(self.mapped(self.weight, x).tanh())


class Divided(nn.Module):
    """Batches in parts."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, x):
        return torch.cat([self.last(self.first(part).tanh()) for part in x.split(8)])


def rare_last(x):
    rare = (x[:, 0] > 1.5).long()
    return rare.argsort(stable=True)


CASES = {
    "sorted": lambda: Ordered(lambda x: x[:, 0].argsort()),
    "turned if many": lambda: Ordered(lambda x: torch.arange(len(x)).flip(0) if len(x) > 8 else torch.arange(len(x))),
    "few rows last": lambda: Ordered(rare_last),
    "difference": lambda: Scaled(lambda x, number: x - number),
    "ratio": lambda: Scaled(lambda x, number: x / number),
    "exponential": lambda: Scaled(lambda x, number: x * number.exp()),
    "projected states": Recurrent,
    "mapped weights": lambda: Mapped(lambda weight, x: torch.func.vmap(lambda w: x @ w, out_dims=1)(weight)),
    "mapped rows": lambda: Mapped(lambda weight, x: torch.func.vmap(lambda row: weight @ row)(x)),
    "mapped layer": lambda: Mapped(lambda weight, x: torch.func.vmap(lambda r: nn.functional.linear(r, weight))(x)),
    "divided": Divided,
}


@pytest.mark.parametrize("name", CASES)
def test_the_audit_is_the_exact_one(name):
    torch.manual_seed(0)
    model = rue.wrap(CASES[name]().double().eval(), loss=nn.CrossEntropyLoss(reduction="sum"), l2=0.5)
    exact = rue.LinearRUE(solver=rue.solve.Cholesky()).fit(model, (X, y)).audit(X[:12]).std
    for solver in (rue.solve.Sketch(5000), rue.solve.StreamedDual()):
        audit = rue.LinearRUE(solver=solver).fit(model, (X, y)).audit(X[:12])
        np.testing.assert_allclose(audit.std, exact, rtol=1e-6)
        assert audit.facts["whole_gradients"] > 0


def test_what_torch_cannot_differentiate_is_said_in_a_sentence():
    class Overwritten(Divided):
        def forward(self, x):
            hidden = self.first(x).tanh()
            hidden.mul_(2.0)
            return self.last(hidden)

    with pytest.raises(rue.errors.DerivativeError, match="no backward pass"):
        rue.LinearRUE().fit(rue.wrap(Overwritten().double().eval(), loss=nn.CrossEntropyLoss(), l2=0.5), (X, y))


@pytest.mark.parametrize("solver", [rue.solve.Sketch(5000), rue.solve.StreamedDual()])
def test_a_hessian_is_refused_where_gradients_alone_are_read(solver):
    model = rue.wrap(Divided().double().eval(), loss=nn.CrossEntropyLoss(reduction="sum"), l2=0.5)
    with pytest.raises(rue.errors.SettingError, match="no second derivatives"):
        rue.LinearRUE(curvature=rue.curvature.Hessian(), solver=solver).fit(model, (X, y))


@pytest.mark.parametrize("solver", [rue.solve.Projection(60), rue.solve.StreamedDual(), rue.solve.Sketch(5000)])
def test_a_fixed_damping_is_the_same_with_every_solver(solver):
    torch.manual_seed(0)
    model = rue.wrap(Divided().double().eval(), loss=nn.CrossEntropyLoss(reduction="sum"), l2=0.5)
    damping = rue.solve.Fixed(1.0)
    exact = rue.LinearRUE(damping=damping, solver=rue.solve.Cholesky()).fit(model, (X, y)).audit(X[:12]).std
    audit = rue.LinearRUE(damping=damping, solver=solver).fit(model, (X, y)).audit(X[:12])
    np.testing.assert_allclose(audit.std, exact, rtol=1e-3)


def test_a_damping_by_the_eigenvalues_of_fewer_coordinates_warns():
    torch.manual_seed(0)
    model = rue.wrap(Divided().double().eval(), loss=nn.CrossEntropyLoss(reduction="sum"), l2=0.5)
    with pytest.warns(rue.errors.RueWarning, match="eigenvalues of .* coordinates"):
        rue.LinearRUE(damping=rue.solve.MeanFraction(0.1), solver=rue.solve.Projection(20)).fit(model, (X, y))


@pytest.mark.parametrize("method", [rue.LinearRUE, rue.ClassifierRUE])
def test_a_penalty_that_is_searched_in_other_coordinates_warns(method):
    torch.manual_seed(0)
    model = rue.wrap(Divided().double().eval(), loss=nn.CrossEntropyLoss(reduction="sum"))
    with pytest.warns(rue.errors.RueWarning, match="no l2 is stated"):
        method(solver=rue.solve.StreamedDual()).fit(model, (X, y))


def test_a_stated_penalty_that_is_searched_all_the_same_warns():
    torch.manual_seed(0)
    model = rue.wrap(Divided().double().eval(), loss=nn.CrossEntropyLoss(reduction="sum"), l2=0.5)  # not trained
    with pytest.warns(rue.errors.RueWarning, match="not at rest under the l2 that is stated, so that a penalty is"):
        rue.ClassifierRUE(solver=rue.solve.StreamedDual()).fit(model, (X, y))
