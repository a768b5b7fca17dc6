"""Deep ensembles against a plain implementation: one network at a time, the NLL written out."""

import numpy as np
import pytest
import torch
from torch import nn

import cases
import rue
from rue.core.errors import DataError, ModelError, SettingError
from rue.methods.integrated import Adam, DeepEnsemble
from rue.methods.integrated.deep_ensemble import two_headed

CLOSE = {"rtol": 1e-8, "atol": 1e-11}


def net(outputs, seed=0):
    """A mean and a variance for each output where `outputs` is doubled."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Linear(2, 4, dtype=torch.float64), nn.Softplus(), nn.Linear(4, outputs, dtype=torch.float64)]
        return nn.Sequential(*layers)


def rows(n, k, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return X, X[:, :1].sin() + 0.3 * torch.randn(n, k, generator=generator, dtype=torch.float64)


def moments(module, X):
    k = module(X).shape[1] // 2
    mean, raw = module(X)[:, :k], module(X)[:, k:]
    return mean, torch.log1p(raw.exp()) + 1e-6


def plain_nll(module, X, y, weight):
    """Mean over rows of wᵢ Σⱼ ½(log σ² + (y − μ)²/σ²)."""
    mean, variance = moments(module, X)
    total = 0.0
    for i in range(len(X)):
        for j in range(y.shape[1]):
            total = total + weight[i] * 0.5 * (variance[i, j].log() + (y[i, j] - mean[i, j]) ** 2 / variance[i, j])
    return total / len(X)


def plain_objective(module, X, y, weight, n, method, ranges):
    loss = plain_nll(module, X, y, weight)
    if method.adversarial:
        at = X.clone().requires_grad_()
        (slope,) = torch.autograd.grad(plain_nll(module, at, y, weight), at)
        worse = X + method.adversarial * ranges * torch.sign(slope)
        loss = (loss + plain_nll(module, worse, y, weight)) / 2
    return loss + method.l2 / 2 * sum((p**2).sum() for p in module.parameters()) / n


def flat(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


METHODS = [
    DeepEnsemble(),
    DeepEnsemble(l2=0.7),
    DeepEnsemble(adversarial=0.3),
    DeepEnsemble(adversarial=0.05, l2=0.2),
]


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"adversarial {method.adversarial}, l2 {method.l2}")
def test_the_objective_and_its_gradient_are_the_plain_ones(method, k):
    module, (X, y), n = net(2 * k, seed=3), rows(6, k), 11
    weight = torch.linspace(0.0, 2.0, 6, dtype=torch.float64)
    ranges = torch.tensor([[2.0, 0.5]], dtype=torch.float64)
    expected = plain_objective(module, X, y, weight, n, method, ranges)
    slopes = torch.autograd.grad(expected, list(module.parameters()))
    objective = method._objective(two_headed(rue.wrap(net(k), loss="squared_error")), n)
    theta = flat(module).requires_grad_()
    inputs = (X, (method.adversarial * ranges).expand_as(X)) if method.adversarial else (X,)
    found = objective(theta, inputs, y, weight)
    np.testing.assert_allclose(found.detach(), expected.detach(), **CLOSE)
    (slope,) = torch.autograd.grad(found, theta)
    np.testing.assert_allclose(slope, torch.cat([part.reshape(-1) for part in slopes]), **CLOSE)


def plain_member(method, X, y, weight, k, seed):
    """Constructed and trained under its own seed."""
    module, recipe = net(2 * k, seed), method.training
    optimiser = torch.optim.Adam(module.parameters(), lr=recipe.learning_rate)
    order = torch.Generator().manual_seed(seed)
    ranges = X.max(0, keepdim=True).values - X.min(0, keepdim=True).values
    for _ in range(recipe.epochs):
        for batch in torch.randperm(len(X), generator=order).split(recipe.batch):
            optimiser.zero_grad()
            plain_objective(module, X[batch], y[batch], weight[batch], len(X), method, ranges).backward()
            optimiser.step()
    return module


@pytest.mark.parametrize("adversarial", [0.0, 0.1])
@pytest.mark.parametrize("k", [1, 2])
def test_an_ensemble_is_networks_trained_apart(adversarial, k):
    method = DeepEnsemble(members=3, seed=2, training=Adam(2, 4, 0.02), adversarial=adversarial, l2=0.3)
    (X, y), weight = rows(9, k), torch.linspace(0.5, 2.0, 9, dtype=torch.float64)
    members = [plain_member(method, X, y, weight, k, seed=3 * 2 + j) for j in range(3)]
    auditor = method.fit(rue.wrap(net(k, seed=8), loss="squared_error", l2=5.0), rue.Data(X, y, weight=weight))
    np.testing.assert_allclose(auditor.assess.thetas, torch.stack([flat(member) for member in members]), **CLOSE)
    assert len({tuple(flat(member).tolist()) for member in members}) == 3
    X_new = rows(5, k, seed=1)[0]
    with torch.no_grad():
        means, variances = (
            torch.stack(part).numpy() for part in zip(*[moments(m, X_new) for m in members], strict=True)
        )
    audit = auditor.audit(X_new)
    np.testing.assert_allclose(audit.prediction.reshape(5, k), means.mean(0), rtol=1e-8)
    np.testing.assert_allclose(audit.std.reshape(5, k) ** 2, means.var(0), rtol=1e-6)
    np.testing.assert_allclose(audit.noise_std.reshape(5, k) ** 2, variances.mean(0), rtol=1e-8)


def test_the_moments_are_those_of_draws_from_the_mixture():
    """200,000 draws: the mean within five standard errors, the covariance within two per cent of its largest entry."""
    method, (X, y) = DeepEnsemble(members=4, training=Adam(5, 5, 0.05)), rows(9, 2)
    auditor = method.fit(rue.wrap(net(2), loss="squared_error"), (X, y))
    audit = auditor.audit(X[:1])
    rng, count = np.random.default_rng(0), 200_000
    members = []
    for theta in auditor.assess.thetas:
        module = net(4)
        nn.utils.vector_to_parameters(theta, module.parameters())
        members.append([part.detach().numpy()[0] for part in moments(module, X[:1])])
    means, variances = (np.array(part)[rng.integers(4, size=count)] for part in zip(*members, strict=True))
    draws = means + np.sqrt(variances) * rng.standard_normal((count, 2))
    np.testing.assert_allclose(draws.mean(0), audit.prediction[0], atol=5 * draws.std() / count**0.5)
    total = audit.covariance[0] + audit.noise_covariance[0]
    np.testing.assert_allclose(np.cov(draws.T), total, atol=0.02 * total.max())


def test_members_start_from_the_architectures_own_initial_values_with_twice_the_outputs():
    X, y = rows(9, 1)
    method = DeepEnsemble(members=2, seed=5, training=Adam(1, 9, 1e-300))
    found = method.fit(rue.wrap(net(1), loss="squared_error"), (X, y)).assess.thetas
    np.testing.assert_array_equal(found, torch.stack([flat(net(2, seed)) for seed in (10, 11)]))


@pytest.mark.parametrize(
    "name", ["linear", "softplus", "convolution", "squeezed", "batch_norm", "recurrent", "attention"]
)
def test_every_kind_of_architecture_has_two_heads(name):
    case = cases.CASES[name]()
    method = DeepEnsemble(members=3, training=Adam(2, 8))
    auditor = method.fit(case.wrap(), (case.X, case.y))
    audit = auditor.audit(case.X_new)
    k = 2 if name == "convolution" else 1
    last = [part for part in case.module.modules() if type(part) is nn.Linear][-1]
    assert auditor.assess.thetas.shape[1] == flat(case.module).numel() + k * (last.in_features + 1)
    assert np.isfinite(audit.total_std).all()


def test_batch_norm_keeps_the_running_statistics_of_the_wrapped_module():
    case = cases.batch_norm()
    found = two_headed(case.wrap()).model.fixed
    for name, buffer in case.module.named_buffers():
        assert torch.equal(found[name], buffer), name


def test_parameters_held_fixed_are_trained_too():
    """Only the architecture is taken."""
    (X, y), method = rows(9, 1), DeepEnsemble(members=2, training=Adam(2, 4))
    audits = [
        method.fit(rue.wrap(net(1), loss="squared_error", select=select), (X, y)).audit(X) for select in (None, "2.*")
    ]
    np.testing.assert_array_equal(audits[0].score, audits[1].score)


class HeadFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.body = nn.Linear(3, 1), nn.Linear(2, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class FirstColumn(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 1)

    def forward(self, x):
        return self.inner(x)[:, 0]


@pytest.mark.parametrize("build", [HeadFirst, FirstColumn])
def test_an_architecture_whose_last_linear_layer_does_not_give_the_outputs_is_refused(build):
    X, y = rows(9, 1)
    with pytest.raises(ModelError, match=r"with twice the outputs.*make the module's last nn.Linear give its outputs"):
        DeepEnsemble(training=Adam(1)).fit(rue.wrap(build().double(), loss="squared_error"), (X, y))


def test_other_losses_modules_and_inputs_are_refused_with_advice():
    bernoulli, recurrent = cases.bernoulli(), cases.recurrent()
    with pytest.raises(ModelError, match="squared_error"):
        DeepEnsemble().fit(bernoulli.wrap(), (bernoulli.X, bernoulli.y))
    with pytest.raises(DataError, match="int64"):
        DeepEnsemble(adversarial=0.01).fit(recurrent.wrap(), (recurrent.X, recurrent.y))
    only = nn.Sequential(nn.Conv1d(1, 1, 2), nn.Flatten()).double()
    X, y = rows(9, 1)
    with pytest.raises(ModelError, match=r"has no nn\.Linear layer"):
        DeepEnsemble().fit(rue.wrap(only, loss="squared_error"), (X[:, None], y))


@pytest.mark.parametrize(
    "settings",
    [{"adversarial": -0.1}, {"l2": -1.0}, {"adversarial": float("nan")}, {"l2": float("inf")}, {"members": 1}],
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(SettingError, match="must be"):
        DeepEnsemble(**settings)
