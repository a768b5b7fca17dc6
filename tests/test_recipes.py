"""Training stated as it was written: torch's losses, optimizers and starting points, against torch's own gradients."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import DataLoader, TensorDataset

import rue
from rue import losses
from rue.core.errors import DataError, ModelError, SettingError, ShapeError
from rue.core.solve import Cholesky, Projection
from rue.data.opening import training_rows
from rue.models.estimator import EstimatorBoundary
from snapshot import changed, module_picture, world_picture

GENERATOR = torch.Generator().manual_seed(0)
N, L2 = 12, 0.7
X = torch.randn(N, 3, generator=GENERATOR, dtype=torch.float64)
X_new = torch.randn(4, 3, generator=GENERATOR, dtype=torch.float64)
WEIGHT = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)


class MeanAndVariance(nn.Module):
    """Two outputs, the second above zero."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, x):
        mean, raw = self.inner(x).unbind(-1)
        return torch.stack([mean, functional.softplus(raw) + 0.3], dim=-1)


def network(k: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(k)
        return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, k)).double()


def linear(k: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(k)
        return nn.Linear(3, k).double()


def numbers(k: int) -> torch.Tensor:
    return torch.randn(N, k, generator=torch.Generator().manual_seed(k), dtype=torch.float64)


def yes_or_no(k: int) -> torch.Tensor:
    return (numbers(k) > 0).double()


def counts(k: int) -> torch.Tensor:
    return (3 * numbers(k).abs()).round()


def classes(k: int) -> torch.Tensor:
    return torch.arange(N) % k


def shares(k: int) -> torch.Tensor:
    return numbers(k).softmax(-1)


@dataclass(frozen=True)
class Trained:
    """A criterion of torch, targets for k outputs, and the same objective in our own words."""

    name: str
    k: int
    criterion: Callable[..., Any]
    targets: Callable[[int], torch.Tensor]
    said: Any
    l2_of_sum: float  # our l2 for their sum, in units of theirs
    l2_of_mean: float  # our l2 for their mean beside our sum, in units of theirs; n = 12


TRAINED = [
    *(Trained("MSELoss", k, nn.MSELoss, numbers, "squared_error", 1 / 2, N * k / 2) for k in (1, 2, 3)),
    *(
        Trained("HuberLoss", k, lambda **r: nn.HuberLoss(delta=0.4, **r), numbers, losses.huber(0.4), 1, N * k)
        for k in (1, 2)
    ),
    *(
        Trained("SmoothL1", k, lambda **r: nn.SmoothL1Loss(beta=0.4, **r), numbers, losses.huber(0.4), 0.4, 0.4 * N * k)
        for k in (1, 2)
    ),
    *(Trained("BCE", k, nn.BCEWithLogitsLoss, yes_or_no, "bernoulli", 1, N * k) for k in (1, 2)),
    Trained(
        "BCE, weighted",
        2,
        lambda **r: nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0), **r),
        yes_or_no,
        losses.bernoulli(3.0),
        1,
        2 * N,
    ),
    Trained(
        "BCE, weighted apart",
        2,
        lambda **r: nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0, 0.5]), **r),
        yes_or_no,
        losses.bernoulli([3.0, 0.5]),
        1,
        2 * N,
    ),
    *(Trained("Poisson", k, nn.PoissonNLLLoss, counts, "poisson", 1, N * k) for k in (1, 2)),
    Trained("Poisson, full", 2, lambda **r: nn.PoissonNLLLoss(full=True, **r), counts, "poisson", 1, 2 * N),
    *(Trained("CrossEntropy", k, nn.CrossEntropyLoss, classes, "cross_entropy", 1, N) for k in (2, 3)),
    Trained(
        "CrossEntropy, smoothed",
        3,
        lambda **r: nn.CrossEntropyLoss(label_smoothing=0.2, **r),
        classes,
        losses.cross_entropy(0.2),
        1,
        N,
    ),
    Trained(
        "CrossEntropy, weighted",
        3,
        lambda **r: nn.CrossEntropyLoss(WEIGHT, **r),
        classes,
        losses.cross_entropy(0.0, [0.5, 2.0, 3.0]),
        1,
        4 * 5.5,
    ),
    Trained(
        "CrossEntropy, both",
        3,
        lambda **r: nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.2, **r),
        classes,
        losses.cross_entropy(0.2, [0.5, 2.0, 3.0]),
        1,
        4 * 5.5,
    ),
    Trained(
        "CrossEntropy of shares",
        3,
        lambda **r: nn.CrossEntropyLoss(WEIGHT, **r),
        shares,
        losses.cross_entropy(0.0, [0.5, 2.0, 3.0]),
        1,
        N,
    ),
]
each_criterion = pytest.mark.parametrize("case", TRAINED, ids=lambda case: f"{case.name}, k = {case.k}")


def penalised(net: nn.Module, loss: torch.Tensor, centre: dict[str, torch.Tensor] | None = None) -> torch.Tensor:
    parts = [(p - (0 if centre is None else centre[name])).square().sum() for name, p in net.named_parameters()]
    return loss + 0.5 * L2 * sum(parts)


def flat(parts) -> torch.Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def gradient(objective: torch.Tensor, net: nn.Module) -> torch.Tensor:
    return flat(torch.autograd.grad(objective, list(net.parameters())))


def our_gradient(model: rue.Model, data: Any) -> torch.Tensor:
    """Of Σ loss + penalty, as a method sees it."""
    rows, bound = training_rows(data, model)
    theta = bound.theta.clone().requires_grad_()
    value = bound.penalty(theta)
    for batch in rows.batches():
        value = value + (batch.weight * bound.loss(bound.predict(theta, batch.inputs), batch.targets)).sum()
    return torch.autograd.grad(value, theta)[0]


def assert_proportional(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one / one.norm(), other / other.norm(), rtol=1e-9, atol=1e-9)


def trained_to_rest(net: nn.Module, objective: Callable[[], torch.Tensor]) -> nn.Module:
    optimizer = torch.optim.LBFGS(
        net.parameters(), max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        value = objective()
        value.backward()
        return value

    optimizer.step(closure)
    return net


# Losses


@each_criterion
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_gradient_of_torchs_objective_is_ours_times_a_number(case, reduction):
    net, y, criterion = network(case.k), case.targets(case.k), case.criterion(reduction=reduction)
    theirs = gradient(penalised(net, criterion(net(X), y)), net)
    assert_proportional(our_gradient(rue.wrap(net, loss=criterion, l2=L2), (X, y)), theirs)


@each_criterion
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_values_that_users_reduce_themselves_are_reduced_as_they_say(case, reduction):
    net, y, criterion = network(case.k), case.targets(case.k), case.criterion(reduction="none")
    values = criterion(net(X), y)
    theirs = gradient(penalised(net, values.mean() if reduction == "mean" else values.sum()), net)
    assert_proportional(our_gradient(rue.wrap(net, loss=criterion, l2=L2, reduction=reduction), (X, y)), theirs)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("full", [False, True])
def test_the_gaussian_of_a_mean_and_a_variance_is_torchs(reduction, full):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, y = MeanAndVariance().double(), numbers(1)[:, 0]
    criterion = nn.GaussianNLLLoss(full=full, reduction=reduction)
    outputs = net(X)
    theirs = gradient(penalised(net, criterion(outputs[:, 0], y, outputs[:, 1])), net)
    model = rue.wrap(net, loss=criterion, l2=L2)
    assert_proportional(our_gradient(model, (X, y)), theirs)
    rule, at = model.core.stated_loss, outputs.detach()
    for i in range(N):
        automatic = torch.autograd.functional.hessian(lambda f, i=i: rule.value(f[None], y[i : i + 1])[0], at[i])
        torch.testing.assert_close(rule.hessian(at[i : i + 1], y[i : i + 1])[0], automatic)


@each_criterion
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_an_audit_of_a_net_at_rest_is_the_one_said_in_our_own_words(case, reduction):
    y, criterion = case.targets(case.k), case.criterion(reduction=reduction)
    net = linear(case.k)
    trained_to_rest(net, lambda: penalised(net, criterion(net(X), y)))
    times = case.l2_of_sum if reduction == "sum" else case.l2_of_mean
    model = rue.wrap(net, loss=criterion, l2=L2)
    assert our_gradient(model, (X, y)).abs().max() < 1e-6
    found = rue.LinearRUE().fit(model, (X, y)).audit(X_new)
    by_hand = rue.LinearRUE().fit(rue.wrap(net, loss=case.said, l2=L2 * times), (X, y)).audit(X_new)
    np.testing.assert_allclose(found.std, by_hand.std, rtol=1e-6)
    np.testing.assert_allclose(found.prediction, by_hand.prediction, rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "kind", "targets"),
    [
        (functional.mse_loss, nn.MSELoss, numbers),
        (functional.cross_entropy, nn.CrossEntropyLoss, classes),
        (functional.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss, yes_or_no),
        (functional.huber_loss, nn.HuberLoss, numbers),
        (functional.smooth_l1_loss, nn.SmoothL1Loss, numbers),
        (functional.poisson_nll_loss, nn.PoissonNLLLoss, counts),
    ],
)
def test_a_function_is_read_as_the_object_without_settings(function, kind, targets):
    net, y = network(2), targets(2)
    theirs = gradient(penalised(net, function(net(X), y)), net)
    for loss in (function, kind()):
        assert_proportional(our_gradient(rue.wrap(net, loss=loss, l2=L2), (X, y)), theirs)


def test_a_mean_of_weighted_rows_divides_by_their_weights():
    net, y, weight = network(2), numbers(2), torch.rand(N, generator=GENERATOR, dtype=torch.float64)
    values = functional.mse_loss(net(X), y, reduction="none")
    theirs = gradient(penalised(net, (weight[:, None] * values).sum() / (2 * weight.sum())), net)
    assert_proportional(our_gradient(rue.wrap(net, loss=nn.MSELoss(), l2=L2), rue.Data(X, y, weight=weight)), theirs)


def test_class_weights_are_counted_over_all_batches_of_a_loader_and_through_an_estimator():
    net, y = network(3), classes(3)
    criterion = nn.CrossEntropyLoss(WEIGHT)
    model = rue.wrap(net, loss=criterion, l2=L2)
    loader = DataLoader(TensorDataset(X, y), batch_size=5)
    theirs = gradient(penalised(net, criterion(net(X), y)), net)
    assert_proportional(our_gradient(model, loader), theirs)
    labelled = replace(
        model,
        boundary=EstimatorBoundary(
            model.boundary, lambda x: x, lambda x: net(x).detach().numpy(), encode=lambda names: names - 10
        ),
    )
    _, bound = training_rows((X, y + 10), labelled)
    assert bound.describe()["penalty_scale"] == pytest.approx(4 * 5.5)


def test_facts_say_the_loss_the_reduction_and_what_the_penalty_weighs():
    facts = rue.LinearRUE().fit(rue.wrap(linear(2), loss=nn.MSELoss(), l2=L2), (X, numbers(2))).facts
    assert facts["loss"] == "squared_error"
    assert facts["reduction"] == "mean"
    assert facts["l2"] == L2
    assert facts["penalty_scale"] == N  # n k / 2
    assert rue.wrap(linear(2), loss=nn.MSELoss(reduction="sum")).describe()["reduction"] == "sum"
    assert rue.wrap(linear(2), loss=nn.MSELoss(reduction="none")).describe()["reduction"] == "sum"
    assert rue.wrap(linear(2), loss="squared_error").describe()["reduction"] == "sum"
    assert rue.wrap(linear(2), loss=nn.MSELoss(), reduction="mean").describe()["reduction"] == "mean"


def test_one_call_takes_the_whole_recipe():
    net, y = linear(1), numbers(1)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=L2)
    centre = copy.deepcopy(linear(2).state_dict())
    centre = {name: value[:1] for name, value in centre.items()}
    recipe = {"loss": nn.MSELoss(), "optimizer": sgd, "centre": centre}
    audit = rue.audit(net, train=(X, y), inputs=X_new, **recipe)
    wanted = rue.CalibratedRUE().fit(rue.wrap(net, **recipe), (X, y)).audit(X_new)
    np.testing.assert_array_equal(audit.score, wanted.score)
    assert audit.facts["l2"] == L2


class Doubled(nn.MSELoss):
    """Another loss than its name says."""

    def forward(self, input, target):  # noqa: A002  torch's own name
        return 2 * super().forward(input, target)


@pytest.mark.parametrize(
    ("loss", "error", "said"),
    [
        (nn.SmoothL1Loss(beta=0.0), ModelError, 'the nearest loss that has one is loss="huber"'),
        (nn.L1Loss(), ModelError, "absolute"),
        (functional.l1_loss, ModelError, "absolute"),
        (nn.L1Loss, ModelError, "absolute"),
        (nn.CrossEntropyLoss, ModelError, "CrossEntropyLoss"),
        (nn.BCEWithLogitsLoss(pos_weight=torch.ones(2, 2)), ModelError, r"has shape \(2, 2\), expected one number"),
        (Doubled(), ModelError, "Doubled gives one number for a whole batch, and only torch's own"),
    ],
)
def test_what_is_no_loss_of_ours_is_refused(loss, error, said):
    with pytest.raises(error, match=said):
        rue.wrap(linear(2), loss=loss, l2=L2)


def test_what_the_data_show_to_be_wrong_is_refused():
    ignored = torch.where(torch.arange(N) == 3, -100, classes(3))
    with pytest.raises(DataError, match="-100"):
        rue.LinearRUE().fit(rue.wrap(linear(3), loss=nn.CrossEntropyLoss(), l2=L2), (X, ignored))
    with pytest.raises(DataError, match="4 of 12"):
        rue.LinearRUE().fit(rue.wrap(linear(3), loss=nn.CrossEntropyLoss(ignore_index=0), l2=L2), (X, classes(3)))
    loss = nn.BCEWithLogitsLoss(pos_weight=torch.ones(3))
    with pytest.raises(SettingError, match="pos_weight has 3 entries for 2 outputs"):
        rue.LinearRUE().fit(rue.wrap(linear(2), loss=loss, l2=L2), (X, yes_or_no(2)))
    with pytest.raises(ShapeError, match=r"torch\.stack"):
        rue.LinearRUE().fit(rue.wrap(linear(1), loss=nn.GaussianNLLLoss(), l2=L2), (X, numbers(1)))


# Optimizers

DECAYING = [
    *(torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adadelta),
    *(torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam),
]


@pytest.mark.parametrize("kind", DECAYING, ids=lambda kind: kind.__name__)
def test_weight_decay_in_the_gradient_is_the_l2(kind):
    net = linear(1)
    model = rue.wrap(net, loss=nn.MSELoss(), optimizer=kind(net.parameters(), weight_decay=0.3))
    assert model.describe()["l2"] == 0.3
    assert model.describe()["l2_given"] is True
    assert rue.wrap(net, loss=nn.MSELoss(), optimizer=kind(net.parameters())).describe()["l2_given"] is True


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.ASGD], ids=lambda kind: kind.__name__)
def test_what_an_optimizer_trained_is_at_rest_under_the_penalty_it_says(kind):
    net, y, criterion = linear(2), numbers(2), nn.MSELoss()
    settings = {"t0": 1e9, "lambd": 0.2} if kind is torch.optim.ASGD else {}
    optimizer = kind(net.parameters(), lr=0.1, weight_decay=0.3, **settings)
    falling = ExponentialLR(optimizer, 0.99)
    for _ in range(1500):
        optimizer.zero_grad()
        criterion(net(X), y).backward()
        optimizer.step()
        if kind is torch.optim.Adam:
            falling.step()
    model = rue.wrap(net, loss=criterion, optimizer=optimizer)
    without = rue.wrap(net, loss=criterion, l2=0.0)
    assert our_gradient(model, (X, y)).norm() < 1e-3 * our_gradient(without, (X, y)).norm()


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, torch.optim.Rprop], ids=lambda kind: kind.__name__)
def test_an_optimizer_without_decay_says_that_there_is_none(kind):
    net = linear(1)
    facts = rue.wrap(net, loss=nn.MSELoss(), optimizer=kind(net.parameters())).describe()
    assert (facts["l2"], facts["l2_given"]) == (0.0, True)


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize(
    "make",
    [
        lambda parameters, decay: torch.optim.AdamW(parameters, weight_decay=decay),
        lambda parameters, decay: torch.optim.Adam(parameters, weight_decay=decay, decoupled_weight_decay=True),
        lambda parameters, decay: torch.optim.NAdam(parameters, weight_decay=decay, decoupled_weight_decay=True),
        lambda parameters, decay: torch.optim.RAdam(parameters, weight_decay=decay, decoupled_weight_decay=True),
        lambda parameters, decay: torch.optim.Adafactor(parameters, weight_decay=decay),
    ],
)
def test_decay_apart_from_the_gradient_is_no_penalty_and_leaves_l2_unknown(make, decay):
    net = linear(1)
    facts = rue.wrap(net, loss=nn.MSELoss(), optimizer=make(net.parameters(), decay)).describe()
    assert (facts["l2"], facts["l2_given"]) == (0.0, False)
    assert "apart from the gradient" in facts["l2_reason"]
    said = rue.wrap(net, loss=nn.MSELoss(), optimizer=make(net.parameters(), decay), l2=0.1).describe()
    assert (said["l2"], said["l2_given"]) == (0.1, True)


def test_decay_is_read_group_by_group_and_what_was_not_trained_is_not_audited():
    net = network(2)
    groups = [{"params": [net[2].bias], "weight_decay": 0.0}, {"params": [net[2].weight]}]
    sgd = torch.optim.SGD(groups, lr=0.1, weight_decay=0.3)
    model = rue.wrap(net, loss=nn.MSELoss(), optimizer=sgd)
    assert model.describe()["parameters"] == ("2.weight", "2.bias")
    torch.testing.assert_close(model.core.l2, torch.tensor([0.3] * 6 + [0.0] * 2, dtype=torch.float64))
    chosen = rue.wrap(net, loss=nn.MSELoss(), optimizer=sgd, select="2.weight", l2={"2.weight": 0.3})
    assert chosen.describe()["parameters"] == ("2.weight",)
    with pytest.raises(SettingError, match=r"select names 0.weight, which the optimizer did not train"):
        rue.wrap(net, loss=nn.MSELoss(), optimizer=sgd, select="*.weight")
    net[2].bias.requires_grad_(False)
    assert rue.wrap(net, loss=nn.MSELoss(), optimizer=sgd).describe()["parameters"] == ("2.weight",)


class Lion(torch.optim.Optimizer):
    """An optimizer from elsewhere."""

    def __init__(self, parameters, **defaults):
        super().__init__(parameters, defaults)


def test_an_optimizer_that_is_not_known_must_not_decay_unless_l2_is_said():
    net = linear(1)
    quiet = rue.wrap(net, loss=nn.MSELoss(), optimizer=Lion(net.parameters(), weight_decay=0.0)).describe()
    assert (quiet["l2"], quiet["l2_given"]) == (0.0, False)
    decaying = Lion(net.parameters(), weight_decay=0.3)
    with pytest.raises(SettingError, match=r"what Lion does with weight_decay=0.3 is not known here; say l2="):
        rue.wrap(net, loss=nn.MSELoss(), optimizer=decaying)
    assert rue.wrap(net, loss=nn.MSELoss(), optimizer=decaying, l2=0.1).describe()["l2"] == 0.1


# Starting points


def test_a_fine_tuned_net_is_at_rest_under_a_penalty_around_where_it_started():
    net, y = network(2), numbers(2)
    start = copy.deepcopy(net)
    centre = {name: p.detach().clone() for name, p in start.named_parameters()}
    trained_to_rest(net, lambda: penalised(net, functional.mse_loss(net(X), y), centre))
    for given in (start, centre, {name: value.numpy() for name, value in centre.items()}):
        model = rue.wrap(net, loss=nn.MSELoss(), l2=L2, centre=given)
        assert our_gradient(model, (X, y)).abs().max() < 1e-6
    assert our_gradient(rue.wrap(net, loss=nn.MSELoss(), l2=L2), (X, y)).abs().max() > 1e-2


def test_a_fresh_head_is_shrunk_towards_zero_and_frozen_parts_and_buffers_are_passed_over():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).double().eval()
    net[0].bias.requires_grad_(False)
    start = {name: value + 1 for name, value in net.state_dict().items() if not name.startswith("2.")}
    model = rue.wrap(net, loss=nn.MSELoss(), l2=L2, centre=start)
    parts = model.core.layout.split(model.core.centre)
    assert "0.bias" not in parts
    torch.testing.assert_close(parts["0.weight"], start["0.weight"])
    assert not parts["2.weight"].any()
    assert not parts["2.bias"].any()
    assert not rue.wrap(net, loss=nn.MSELoss(), l2=L2).core.centre.any()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.last = nn.Linear(3, 3)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def test_a_tied_weight_is_found_under_either_name():
    net = Tied().double()
    model = rue.wrap(net, loss=nn.MSELoss(), l2=L2, centre={"last.weight": torch.ones(3, 3)})
    assert bool((model.core.layout.split(model.core.centre)["first.weight"] == 1).all())


def test_a_centre_that_is_the_trained_net_itself_is_refused():
    net = linear(1)
    for centre in (net, net.state_dict(), copy.deepcopy(net)):
        with pytest.raises(SettingError, match=r"copy\.deepcopy"):
            rue.wrap(net, loss=nn.MSELoss(), l2=L2, centre=centre)


def test_the_centre_of_a_projection_is_its_nearest_point_in_the_units_of_the_penalty():
    net, y = network(2), numbers(2)
    centre = {name: p.detach() + 1 for name, p in net.named_parameters()}
    for l2, size in (({"*.weight": L2, "0.bias": 5.0}, 6), (L2, 8), ({"*.weight": L2}, 30), (None, 4)):
        model = rue.wrap(net, loss=nn.MSELoss(), l2=l2, centre=centre)
        rows, bound = training_rows((X, y), model)
        seen = Projection(size=size).view(bound.core, rows)
        basis = np.concatenate([seen.directions.numpy(), np.eye(len(bound.theta))[seen.free.numpy()]])
        unit = np.sqrt(np.where(bound.core.l2 > 0, bound.core.l2, 1.0))  # the penalty is ½Σ(unit·away)²
        away = (bound.core.centre - bound.theta).numpy()
        nearest = np.linalg.lstsq((basis * unit).T, away * unit, rcond=None)[0]
        np.testing.assert_allclose(seen.centre.numpy(), nearest, rtol=1e-6, atol=1e-6)
        assert seen.centre.shape == seen.theta.shape
        exact = Cholesky().view(bound.core, rows)
        assert torch.equal(exact.centre, bound.core.centre)


def test_estimators_shrink_towards_zero():
    model = rue.wrap(Ridge().fit(X.numpy(), numbers(1).numpy()[:, 0]))
    assert torch.equal(model.core.centre, torch.zeros_like(model.theta))


def test_net_optimizer_and_start_are_as_they_were():
    net, y = network(1), numbers(1)
    start = copy.deepcopy(net).requires_grad_(True)
    with torch.no_grad():
        net[2].bias.add_(1.0)
    adam = torch.optim.Adam(net.parameters(), weight_decay=0.1)
    nn.functional.mse_loss(net(X), y).backward()
    adam.step()
    state, pictures, world = (
        copy.deepcopy(adam.state_dict()),
        [module_picture(m) for m in (net, start)],
        world_picture(),
    )
    rue.LinearRUE().fit(rue.wrap(net, loss=nn.MSELoss(), optimizer=adam, centre=start), (X, y)).audit(X_new)
    assert [changed(before, module_picture(m)) for before, m in zip(pictures, (net, start), strict=True)] == [[], []]
    assert changed(world, world_picture()) == []
    assert str(adam.state_dict()) == str(state)
