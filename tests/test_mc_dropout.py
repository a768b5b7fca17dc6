"""Dropout against masks by hand, a plain training loop, and grids."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn
from torch.nn.functional import linear

import cases
import rue
from rue.core.errors import DataError, ModelError, SettingError
from rue.methods.integrated import Adam, MCDropout
from rue.methods.integrated.mc_dropout import Choice, Thinned

CLOSE = {"rtol": 1e-8, "atol": 1e-11}
RECIPE = Adam(3, 4, 0.02)


def net(outputs=1, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Linear(2, 5, dtype=torch.float64), nn.Tanh(), nn.Linear(5, outputs, dtype=torch.float64)]
        return nn.Sequential(*layers)


def normed(seed=0):
    """With statistics that are not those of an untrained layer."""
    module = nn.Sequential(*net(seed=seed)[:2], nn.BatchNorm1d(5, dtype=torch.float64), net(seed=seed)[2]).eval()
    module[2].running_mean += 0.5
    module[2].running_var *= 3
    return module


def rows(n, k=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return X, X[:, :1].sin() + 0.3 * torch.randn(n, k, generator=generator, dtype=torch.float64)


def flat(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def masked(module, X, masks):
    """Every linear layer sees its inputs times a mask (c, p)."""
    masks = iter(masks)
    for part in module:
        X = linear(X * next(masks), part.weight, part.bias) if isinstance(part, nn.Linear) else part(X)
    return X


def plainly(module, X, y, weight, rate, seed, l2, recipe=RECIPE):
    """Adam on the masked network; order and masks come from one generator, in the order of their use."""
    optimiser = torch.optim.Adam(module.parameters(), lr=recipe.learning_rate)
    random = torch.Generator().manual_seed(seed)
    for _ in range(recipe.epochs):
        for batch in torch.randperm(len(X), generator=random).split(recipe.batch):
            uniform = torch.rand(len(batch), 7, generator=random)
            masks = [(part >= rate).double() / (1 - rate) for part in (uniform[:, :2], uniform[:, 2:])]
            residual = masked(module, X[batch], masks) - y[batch]
            loss = (weight[batch] * (residual**2).sum(1)).sum() / (2 * len(batch))
            penalty = sum((p**2).sum() for p in module.parameters())
            optimiser.zero_grad()
            (loss + l2 / 2 * penalty / len(X)).backward()
            optimiser.step()
    return module


def by_hand(module, X, rate, count, seed):
    """Outputs (b, m, k) of `count` networks, each with one mask for all rows."""
    random = torch.Generator().manual_seed(seed)
    widths = [part.in_features for part in module if isinstance(part, nn.Linear)]
    kept = [(torch.rand(count, width, generator=random) >= rate).double() / (1 - rate) for width in widths]
    with torch.no_grad():
        return torch.stack([masked(module, X, [layer[i] for layer in kept]) for i in range(count)]).numpy()


@pytest.mark.parametrize("k", [1, 2])
def test_thinned_members_are_masks_on_the_inputs_of_the_layers(k):
    module, X = net(k), rows(6)[0]
    model = rue.wrap(module, loss="squared_error")
    thetas = Thinned.of(model).members(model.theta, 0.3, 8, seed=4)
    found = torch.stack([model.predict(theta, X) for theta in thetas])
    np.testing.assert_allclose(found, by_hand(module, X, 0.3, 8, seed=4), **CLOSE)


def plain_fit(make, X, y, weight, rate, seed, l2, inner_l2, held_out=0.25, count=9):
    """Network, noise variances (k,) and held-out NLL, from the plain loop and a fine grid of noises."""
    random = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(X), generator=random)
    kept = min(max(len(X) - round(held_out * len(X)), 1), len(X) - 1)  # at least one row on either side
    seen, unseen = order[:kept], order[kept:]
    inner = plainly(make(seed=seed), X[seen], y[seen], weight[seen], rate, seed, inner_l2)
    members = by_hand(inner, X[unseen], rate, count, seed)
    share = weight[unseen].numpy() / weight[unseen].numpy().sum()
    noises, nlls = [], []
    for j in range(y.shape[1]):
        grid = np.exp(np.linspace(-12, 4, 20_001))
        std = np.sqrt(members.var(0, ddof=1)[:, j] + grid[:, None])
        values = -(share * norm.logpdf(y[unseen, j].numpy(), members.mean(0)[:, j], std)).sum(1)
        noises.append(grid[values.argmin()])
        nlls.append(values.min())
    return plainly(make(seed=seed), X, y, weight, rate, seed, l2), np.array(noises), sum(nlls)


@pytest.mark.parametrize("make", [net, normed, lambda seed: net(2, seed)], ids=["net", "batch norm", "two outputs"])
def test_the_whole_fit_is_the_plain_one(make):
    k = 2 if make(seed=0)[-1].out_features == 2 else 1
    (X, y), weight = rows(16, k), torch.linspace(0.2, 2.0, 16, dtype=torch.float64)
    trained, noise, nll = plain_fit(make, X, y, weight, 0.3, seed=5, l2=0.8, inner_l2=0.8)
    method = MCDropout(members=9, seed=5, training=RECIPE, rates=(0.3,), held_out=0.25)
    auditor = method.fit(rue.wrap(make(seed=1), loss="squared_error", l2=0.8), rue.Data(X, y, weight=weight))
    X_new = rows(4, seed=1)[0]
    members = by_hand(trained, X_new, 0.3, 9, seed=5)
    audit = auditor.audit(X_new)
    np.testing.assert_allclose(audit.prediction.reshape(4, k), members.mean(0), rtol=1e-7)
    np.testing.assert_allclose(audit.std.reshape(4, k), members.std(0, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(audit.noise_std.reshape(4, k) ** 2, np.tile(noise, (4, 1)), rtol=2e-3)
    assert auditor.facts["rate"] == 0.3
    assert auditor.facts["held_out_nll"] == pytest.approx(nll, abs=1e-5)


@pytest.mark.parametrize(("n", "held_out"), [(3, 0.1), (3, 0.95), (4, 0.3), (2, 0.5)])
def test_of_few_rows_at_least_one_is_held_out_and_one_is_trained_on(n, held_out):
    (X, y), weight = rows(n), torch.linspace(0.5, 2.0, n, dtype=torch.float64)
    _, noise, nll = plain_fit(net, X, y, weight, 0.3, seed=5, l2=0.8, inner_l2=0.8, held_out=held_out)
    method = MCDropout(members=9, seed=5, training=RECIPE, rates=(0.3,), held_out=held_out)
    auditor = method.fit(rue.wrap(net(), loss="squared_error", l2=0.8), rue.Data(X, y, weight=weight))
    assert auditor.facts["held_out_nll"] == pytest.approx(nll, abs=1e-4)
    np.testing.assert_allclose(auditor.audit(X).noise_std ** 2, noise.repeat(n), rtol=2e-3)


def test_a_penalty_beside_a_mean_loss_grows_with_the_rows_that_are_trained_on():
    X, y = rows(16)
    weight = torch.ones(16, dtype=torch.float64)
    trained, noise, nll = plain_fit(net, X, y, weight, 0.3, seed=5, l2=0.5 * 16, inner_l2=0.5 * 12)
    method = MCDropout(members=9, seed=5, training=RECIPE, rates=(0.3,), held_out=0.25)
    auditor = method.fit(rue.wrap(net(), loss="squared_error", l2=0.5, reduction="mean"), (X, y))
    audit = auditor.audit(X)
    np.testing.assert_allclose(audit.prediction, by_hand(trained, X, 0.3, 9, seed=5).mean(0)[:, 0], rtol=1e-7)
    np.testing.assert_allclose(audit.noise_std**2, noise.repeat(16), rtol=2e-3)
    assert auditor.facts["held_out_nll"] == pytest.approx(nll, abs=1e-5)


def test_the_mean_of_a_linear_network_is_its_unthinned_prediction():
    """4,000 members: within five standard errors of their mean, for each of six inputs."""
    case = cases.linear()
    model = case.wrap()
    thetas = Thinned.of(model).members(model.theta, 0.4, 4000, seed=0)
    members = torch.stack([model.predict(theta, case.X_new) for theta in thetas])[..., 0].numpy()
    with torch.no_grad():
        own = case.module(case.X_new)[:, 0].numpy()
    assert (np.abs(members.mean(0) - own) < 5 * members.std(0) / 4000**0.5).all()
    products = case.X_new.numpy() * case.module.weight.detach().numpy()
    np.testing.assert_allclose(members.var(0), (products**2).sum(1) * 0.4 / 0.6, rtol=0.15)  # of independent masks


def grid_nll(error, spread, weight, noise):
    total = spread + noise[:, None]
    return (weight * 0.5 * (error / total + np.log(2 * np.pi * total))).sum(1) / weight.sum()


@pytest.mark.parametrize("seed", range(6))
def test_the_chosen_noise_is_the_likeliest_on_a_grid(seed):
    rng = np.random.default_rng(seed)
    scales = np.exp(rng.normal(0, 2, 12))  # rows whose members disagree by very different amounts
    outputs = scales[None, :, None] * rng.standard_normal((7, 12, 1))
    targets, weight = rng.standard_normal((12, 1)) * np.exp(rng.normal(0, 1)), rng.uniform(0, 2, 12)
    choice = Choice.of(0.1, torch.tensor(outputs), torch.tensor(targets), torch.tensor(weight))
    error, spread = (targets - outputs.mean(0))[:, 0] ** 2, outputs.var(0, ddof=1)[:, 0]
    grid = np.exp(np.linspace(np.log((weight * error).sum() / weight.sum()) - 10, np.log(error.max()) + 3, 20_000))
    values = grid_nll(error, spread, weight, grid)
    assert choice.nll == pytest.approx(values.min(), abs=1e-5)
    own = grid_nll(error, spread, weight, choice.noise.numpy().reshape(1))
    assert choice.nll == pytest.approx(own[0], abs=1e-10)


def test_a_noise_far_above_the_mean_error_is_found():
    """One row in ten is certain and wrong; the others are vague and right."""
    spread, error = np.full(10, 1000.0), np.zeros(10)
    spread[0], error[0] = 0.0, 10.0
    outputs = np.sqrt(spread) * np.array([[1.0], [-1.0]]) / 2**0.5
    choice = Choice.of(
        0.1, torch.tensor(outputs[..., None]), torch.tensor(np.sqrt(error)[:, None]), torch.ones(10).double()
    )
    assert float(choice.noise) == pytest.approx(10.0, rel=0.1)


def test_the_chosen_rate_is_the_best_of_all():
    X, y = rows(40)
    model = rue.wrap(net(), loss="squared_error", l2=0.1)
    rates, recipe = (0.01, 0.2, 0.5, 0.8), Adam(15, 10, 0.03)
    alone = [MCDropout(members=20, training=recipe, rates=(rate,)).fit(model, (X, y)) for rate in rates]
    nlls = [auditor.facts["held_out_nll"] for auditor in alone]
    best = int(np.argmin(nlls))
    chosen = MCDropout(members=20, training=recipe, rates=rates).fit(model, (X, y))
    assert len(set(nlls)) == 4
    assert chosen.facts["rate"] == rates[best]
    assert chosen.facts["held_out_nll"] == pytest.approx(nlls[best], rel=1e-9)
    np.testing.assert_allclose(chosen.audit(X).total_std, alone[best].audit(X).total_std, rtol=1e-7)


@pytest.mark.parametrize(
    "name", ["linear", "softplus", "convolution", "squeezed", "batch_norm", "recurrent", "attention"]
)
def test_every_kind_of_architecture_can_be_thinned(name):
    case = cases.CASES[name]()
    auditor = MCDropout(members=5, training=Adam(2, 8), rates=(0.3,)).fit(case.wrap(), (case.X, case.y))
    assert np.isfinite(auditor.audit(case.X_new).total_std).all()


class Twice(nn.Module):
    """One layer under two names, its rows folded into one axis on the way."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(2, 2), nn.Linear(2, 1)
        self.again = self.layer

    def forward(self, x):
        pairs = torch.tanh(self.again(torch.tanh(self.layer(torch.stack([x, -x], 1)))))
        return self.head(pairs.reshape(-1, 2)).reshape(-1, 2).sum(1)


def test_a_layer_that_is_used_twice_is_thinned_as_one():
    X, y = rows(12)
    module = Twice().double()
    auditor = MCDropout(members=5, training=Adam(2, 8), rates=(0.4,)).fit(
        rue.wrap(module, loss="squared_error"), (X, y)
    )
    for theta in auditor.assess.ensemble.thetas:
        assert theta[:4].reshape(2, 2).eq(0).all(0).sum() == theta[:4].eq(0).sum() / 2  # whole columns
    assert np.isfinite(auditor.audit(X).total_std).all()


def test_tied_weights_fixed_parameters_and_other_losses_are_refused_with_advice():
    tied, softplus, bernoulli = cases.tied(), cases.softplus(), cases.bernoulli()
    with pytest.raises(ModelError, match="'first'"):
        MCDropout().fit(tied.wrap(), (tied.X, tied.y))
    with pytest.raises(ModelError):
        MCDropout().fit(softplus.wrap(select="2.*"), (softplus.X, softplus.y))
    with pytest.raises(ModelError, match=r'Gaussian.*loss="squared_error"'):
        MCDropout().fit(bernoulli.wrap(), (bernoulli.X, bernoulli.y))


def test_held_out_rows_without_weight_are_an_error_with_advice():
    X, y = rows(10)
    unseen = torch.randperm(10, generator=torch.Generator().manual_seed(0))[8:]
    weight = np.ones(10)
    weight[unseen] = 0
    with pytest.raises(DataError, match="weights of all 2 held-out rows are zero; raise held_out"):
        MCDropout(training=Adam(1)).fit(rue.wrap(net(), loss="squared_error"), rue.Data(X, y, weight=weight))


@pytest.mark.parametrize(
    "settings",
    [
        {"rates": ()},
        {"rates": (0.0,)},
        {"rates": (1.0,)},
        {"rates": 0.1},
        {"held_out": 0.0},
        {"held_out": 1.0},
        {"members": 1},
    ],
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(SettingError, match="must"):
        MCDropout(**settings)
