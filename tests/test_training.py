"""Training many networks at once is training each of them with a plain loop around torch.optim.Adam."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import cases
import rue
from rue.cli import paper_network
from rue.core.errors import DataError, ModelError, NumericalError, SettingError
from rue.methods.fitting import fitting
from rue.methods.integrated import Adam, RefitBootstrap, training
from rue.methods.integrated.training import Settled, TrainingSets, objective_of, train
from snapshot import changed, world_picture

CLOSE = {"rtol": 1e-9, "atol": 1e-12}


def plainly(net, X, y, recipe, seed, l2=0.0, weight=None):
    """Adam in shuffled minibatches, one network, nothing clever: the parameters (d,)."""
    net = copy.deepcopy(net)
    weight = torch.ones(len(X), dtype=torch.float64) if weight is None else weight
    optimiser = torch.optim.Adam(net.parameters(), lr=recipe.learning_rate)
    order = torch.Generator().manual_seed(seed)
    steps, step = recipe.epochs * -(-len(X) // recipe.batch), 0
    for _ in range(recipe.epochs):
        shuffled = torch.randperm(len(X), generator=order)
        for start in range(0, len(X), recipe.batch):
            rows = shuffled[start : start + recipe.batch]
            if recipe.decay:
                optimiser.param_groups[0]["lr"] = recipe.learning_rate * (1 - step / steps * (1 - 1 / steps))
            residual = net(X[rows]).reshape(len(rows), -1) - y[rows].reshape(len(rows), -1)
            penalty = sum((p**2).sum() for p in net.parameters())
            loss = (weight[rows] * (residual**2).sum(1)).sum() / (2 * len(rows)) + l2 / (2 * len(X)) * penalty
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def networks(count, outputs=1):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return [nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, outputs)).double() for _ in range(count)]


def rows(g, n, outputs=1):
    generator = torch.Generator().manual_seed(2)
    X = torch.randn(g, n, 2, generator=generator, dtype=torch.float64)
    y = X[..., :1].sin() + 0.3 * torch.randn(g, n, outputs, generator=generator, dtype=torch.float64)
    return X, y


def flat(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def together(nets, X, y, recipe, seeds, l2=0.0, weight=None, **settings):
    """`train` for nets (g, r) in a nested list."""
    starts = torch.stack([torch.stack([flat(net) for net in own]) for own in nets])
    weight = torch.ones(*starts.shape[:2], X.shape[1], dtype=torch.float64) if weight is None else weight
    objective = objective_of(rue.wrap(nets[0][0], loss="squared_error", l2=l2), X.shape[1])
    return train(objective, starts, TrainingSets(X, y, seeds), weight, recipe, **settings)


@pytest.mark.parametrize("decay", [False, True])
@pytest.mark.parametrize(("n", "batch"), [(12, 4), (13, 5), (9, 100), (5, 1)])
def test_one_network_is_a_plain_loop_also_with_a_last_partial_batch(n, batch, decay):
    (net,), (X, y), recipe = networks(1), rows(1, n), Adam(4, batch, 0.05, decay)
    found = together([[net]], X, y, recipe, [3], l2=0.7)
    np.testing.assert_allclose(found[0, 0], plainly(net, X[0], y[0], recipe, 3, l2=0.7), **CLOSE)


@pytest.mark.parametrize("outputs", [1, 2])
def test_many_networks_on_many_weighted_sets_are_as_many_plain_loops(outputs, fell_back):
    nets, (X, y) = networks(6, outputs), rows(3, 11, outputs)
    nets = [nets[:2], nets[2:4], nets[4:]]
    weight = torch.rand(3, 2, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
    recipe = Adam(3, 4, 0.03)
    found = together(nets, X, y, recipe, [5, 2, 9], l2=0.4, weight=weight)
    for i, seed in enumerate([5, 2, 9]):
        for j in range(2):
            alone = plainly(nets[i][j], X[i], y[i], recipe, seed, l2=0.4, weight=weight[i, j])
            np.testing.assert_allclose(found[i, j], alone, **CLOSE)
    assert not fell_back  # all six at once


def test_a_weight_of_two_counts_a_row_twice_in_a_full_batch():
    (net,), (X, y) = networks(1), rows(1, 8)
    double = torch.ones(1, 1, 8, dtype=torch.float64)
    double[..., 2] = 2
    found = together([[net]], X, y, Adam(5, 8, 0.05), [0], weight=double)
    extra = torch.cat([X, X[:, 2:3]], 1), torch.cat([y, y[:, 2:3]], 1)
    scaled = together([[net]], *extra, Adam(5, 9, 0.05), [0], weight=torch.full((1, 1, 9), 9 / 8))
    np.testing.assert_allclose(found, scaled, **CLOSE)


@pytest.mark.parametrize(
    ("every", "fall", "history", "stops"),
    [
        (1, 0.5, [2.0, 1.5], False),  # fell by just so much
        (1, 0.5, [2.0, 1.75], True),
        (1, 0.5, [2.0, 1.25], False),
        (1, 0.0, [1.0, 1.5], True),
        (2, 0.5, [2.0, 1.0, 1.5, 0.5], False),  # means of 1.5 and 1
        (2, 0.5, [2.0, 1.0, 1.5, 1.0], True),
        (2, 0.5, [9.0, 9.0, 2.0, 1.0, 1.5, 1.0], True),  # only the last two pairs count
        (2, 0.5, [2.0, 1.0, 1.5, 1.5, 1.5], False),  # in the middle of a pair
        (2, 0.5, [1.0, 1.0], False),  # nothing to compare with
        (3, 0.5, [1.0, 1.0, 1.0, 1.0, 1.0], False),
    ],
)
def test_training_settles_when_the_mean_of_some_passes_falls_by_less_than_asked(every, fall, history, stops):
    assert Settled(every, fall)(history) is stops


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_training_ends_after_the_first_pass_that_gains_too_little(factor):
    nets, (X, y) = networks(2), rows(1, 13)
    passes = [together([nets], X, y, Adam(epochs, 13, 0.05), [3])[0] for epochs in range(1, 8)]
    thetas = [torch.stack([flat(net) for net in nets]), *passes]
    model = rue.wrap(nets[0], loss="squared_error")
    error = [np.mean([float((model.predict(one, X[0]) - y[0]).square().mean()) for one in both]) for both in thetas]
    gained = -np.diff(error) / 2  # by each pass, of the mean objective of both networks
    fall = factor * gained[2]
    ended = next((i + 2 for i in range(6) if gained[i] < fall), 7)  # known after one pass more
    found = together([nets], X, y, Adam(7, 13, 0.05, settled=Settled(1, fall)), [3])[0]
    np.testing.assert_allclose(found, thetas[ended], **CLOSE)
    assert ended == (4 if factor > 1 else 5)


@pytest.fixture
def fell_back(monkeypatch):
    """The calls of the loop that takes over."""
    calls, own = [], training._one_by_one
    monkeypatch.setattr(training, "_one_by_one", lambda *arguments: calls.append(1) or own(*arguments))
    return calls


def test_a_network_that_cannot_be_vectorised_is_trained_by_itself(fell_back):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        nets = [[cases.Branching().double()] for _ in range(2)]
    (X, y), recipe = rows(2, 7), Adam(3, 3, 0.05)
    found = together(nets, X, y, recipe, [1, 4], l2=0.2)
    for i, seed in enumerate([1, 4]):
        np.testing.assert_allclose(found[i, 0], plainly(nets[i][0], X[i], y[i], recipe, seed, l2=0.2), **CLOSE)
    assert fell_back


def test_what_cannot_be_vectorised_is_trained_in_other_processes(fell_back):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = cases.Branching().double()
    (X, y), recipe = rows(2, 7), Adam(2, 5, 0.02)
    found = together([[net, net]] * 2, X, y, recipe, [1, 4], l2=0.2, workers=2)
    for i, seed in enumerate([1, 4]):
        alone = plainly(net, X[i], y[i], recipe, seed, l2=0.2)
        for j in range(2):
            np.testing.assert_allclose(found[i, j], alone, **CLOSE)
    assert fell_back


def test_recurrent_networks_are_trained_at_once(fell_back):
    case, recipe = cases.recurrent(), Adam(2, 5, 0.02)
    X, y = case.X[None].repeat(2, 1, 1), case.y[None, :, None].repeat(2, 1, 1)
    found = together([[case.module]] * 2, X, y, recipe, [1, 4], l2=0.2)
    for i, seed in enumerate([1, 4]):
        np.testing.assert_allclose(found[i, 0], plainly(case.module, case.X, case.y, recipe, seed, l2=0.2), **CLOSE)
    assert not fell_back


def test_both_ways_of_training_agree_also_in_what_they_draw(monkeypatch):
    (X, y), starts = rows(2, 7), torch.stack([torch.stack([flat(net)]) for net in networks(2)])
    model = rue.wrap(networks(1)[0], loss="squared_error", l2=0.1)

    def objective(theta, inputs, targets, weights):
        x, uniform = inputs
        assert uniform.shape[1:] == (3,)
        return (weights * model.loss(model.predict(theta, x) + uniform[:, :1], targets)).mean()

    sets, weight = TrainingSets(X, y, [3, 4], draws=3), torch.ones(2, 1, 7)
    at_once = train(objective, starts, sets, weight, Adam(2, 3))
    monkeypatch.setattr(training, "_vectorises", lambda *_: False)
    np.testing.assert_allclose(train(objective, starts, sets, weight, Adam(2, 3)), at_once, **CLOSE)


def test_inputs_may_be_dicts_of_parts():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 1)

        def forward(self, a, b):
            return self.linear(torch.stack([a, b], 1))

    (X, y), net, recipe = rows(1, 9), Sum().double(), Adam(2, 4, 0.05)
    alone = plainly(net.linear, X[0], y[0], recipe, 0)
    parts = {"a": X[..., 0], "b": X[..., 1]}
    objective = objective_of(rue.wrap(net, loss="squared_error"), 9)
    found = train(objective, flat(net)[None, None], TrainingSets(parts, y, [0]), torch.ones(1, 1, 9), recipe)
    np.testing.assert_allclose(found[0, 0], alone, **CLOSE)


def test_training_leaves_the_world_alone():
    world = world_picture()
    together([networks(1)], *rows(1, 7), Adam(2, 3), [0])
    assert changed(world, world_picture()) == []


def test_divergence_is_an_error_with_advice():
    with pytest.raises(NumericalError, match="308"):
        together([networks(1)], *rows(1, 7), Adam(3, 3, 1e308), [0])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"epochs": 0}, "got 0"),
        ({"epochs": 2.5}, r"2\.5"),
        ({"batch": 0}, "batch must be a whole number of at least 1, got 0"),
        ({"batch": True}, "batch must be"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive"),
        ({"learning_rate": float("inf")}, "learning_rate must be positive"),
    ],
)
def test_wrong_settings_are_refused(settings, complaint):
    with pytest.raises(SettingError, match=complaint):
        Adam(**settings)


# What cannot be trained side by side


def frozen(seed):
    net = networks(seed + 1)[seed]
    net[0].requires_grad_(False)
    return net


def line():
    """Fixed weights, with outputs on both sides of zero."""
    net = nn.Linear(2, 1)
    nn.init.constant_(net.weight, 1.0)
    nn.init.zeros_(net.bias)
    return net


def wrapped(net, **settings):
    return rue.wrap(net, **{"loss": "squared_error", "l2": 0.1, **settings})


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (wrapped(frozen(0)), wrapped(frozen(1)), "output and loss"),
        (wrapped(networks(1)[0]), wrapped(networks(1)[0], l2=0.2), "penalty"),
        (wrapped(networks(1)[0]), wrapped(networks(1)[0], loss=lambda f, y: (f[:, 0] - y[:, 0]).abs()), "loss"),
        (wrapped(line()), wrapped(line().double()), "output and loss and penalty"),
        (wrapped(line()), wrapped(nn.Sequential(line(), nn.ReLU())), "output and loss"),
    ],
    ids=["frozen layers", "penalties", "losses", "precisions", "activations"],
)
def test_models_that_differ_in_more_than_their_parameters_are_refused(one, other, what):
    X, y = rows(1, 8)
    with pytest.raises(ModelError, match=f"model 1 has another {what} than the first.*fit these apart"):
        RefitBootstrap(training=Adam(1)).fit_many([one, other], [(X[0], y[0])] * 2)


def test_a_mean_over_other_weights_has_another_penalty_and_is_refused():
    X, y = rows(1, 8)
    model = wrapped(networks(1)[0], reduction="mean")
    heavy = rue.Data(X[0], y[0], weight=np.full(8, 2.0))
    with pytest.raises(ModelError, match="model 1"):
        RefitBootstrap(training=Adam(1)).fit_many([model, model], [(X[0], y[0]), heavy])


def test_stacked_sets_are_the_rows_in_order_with_their_weights_and_seeds():
    X, y = rows(2, 9)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[1], y[1, :, 0]), batch_size=4)
    model = wrapped(networks(1)[0])
    weight = np.arange(9.0)
    with fitting(rue.RUE(), model, rue.Data(X[0], y[0], weight)) as one, fitting(rue.RUE(), model, loader) as other:
        sets, weights = training.stack([one, other], 5)
    assert torch.equal(sets.inputs, X)
    assert torch.equal(sets.targets, y)
    assert list(sets.seeds) == [5, 6]
    np.testing.assert_array_equal(weights, [weight, np.ones(9)])
    with pytest.raises(DataError, match=r"\[8, 9\] rows"):
        RefitBootstrap().fit_many([model, model], [(X[0], y[0]), (X[1, 1:], y[1, 1:])])


# The paper's network


def test_the_default_recipe_is_that_of_the_papers_network():
    default = Adam()
    assert default == paper_network.RECIPE
    assert (default.epochs, default.batch, default.learning_rate) == (500, 128, 0.001)  # section 4.1


def test_the_papers_networks_trained_together_are_those_trained_alone(monkeypatch):
    monkeypatch.setattr(paper_network, "RECIPE", Adam(3, paper_network.BATCH, paper_network.LEARNING_RATE))
    generator = torch.Generator().manual_seed(0)
    data = [(torch.randn(150, 3, generator=generator), torch.randn(150, generator=generator)) for _ in range(3)]
    together = paper_network.train_many(data, [4, 0, 9])
    for net, (X, y), seed in zip(together, data, [4, 0, 9], strict=True):
        alone = paper_network.paper_network(3, seed)
        paper_network.train(alone, X, y, seed, epochs=3)
        assert not torch.equal(flat(alone), flat(paper_network.paper_network(3, seed)))
        np.testing.assert_allclose(flat(net), flat(alone), rtol=1e-5, atol=1e-6)
