"""Laws that every method with networks of its own obeys: a new one in `INTEGRATED` is tested by being listed there."""

import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rue
from rue.core.errors import DataError, ModelError, RueError, SettingError
from rue.methods.integrated import INTEGRATED, Adam
from snapshot import changed, module_picture, world_picture

pytestmark = pytest.mark.parametrize("name", INTEGRATED)

SMALL = {"training": Adam(epochs=3, batch=8, learning_rate=0.01), "epochs": 2, "members": 4, "rates": (0.1, 0.4)}


def tiny(name, **settings):
    """The method with little to train."""
    method = INTEGRATED[name]()
    known = {field.name for field in dataclasses.fields(method)}
    return dataclasses.replace(method, **{**{key: SMALL[key] for key in known & SMALL.keys()}, **settings})


def net(outputs=1):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, outputs)).double()


def rows(n=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return X, X[:, 0].sin() + 0.3 * torch.randn(n, generator=generator, dtype=torch.float64)


X, y = rows()
X_new = rows(5, seed=1)[0]


def wrapped(module=None, **settings):
    return rue.wrap(net() if module is None else module, **{"loss": "squared_error", "l2": 0.3, **settings})


def fitted(name, module=None, data=(X, y), **settings):
    return tiny(name, **settings).fit(wrapped(module), data)


def assert_same(one, other, rtol=1e-9):
    for field in ("prediction", "score", "covariance", "noise_covariance"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=rtol, atol=1e-14, err_msg=field)


def assert_same_bits(one, other):
    for field in ("prediction", "score", "covariance", "noise_covariance"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field), err_msg=field)


@pytest.mark.parametrize("k", [1, 2])
def test_shapes_are_those_of_the_contract_and_values_are_finite(name, k):
    if name == "PBP" and k > 1:
        pytest.skip("is for one output")
    audit = fitted(name, net(k), (X, y if k == 1 else torch.stack([y, -y], 1))).audit(X_new)
    shape = (5,) if k == 1 else (5, k)
    assert audit.score.shape == (5,)
    assert audit.covariance.shape == audit.noise_covariance.shape == (5, k, k)
    for value in (audit.prediction, audit.std, audit.noise_std, audit.total_std):
        assert value.shape == shape
        assert np.isfinite(value).all()
    assert (audit.score > 0).any()
    np.testing.assert_allclose(audit.total_std**2, audit.std**2 + audit.noise_std**2, rtol=1e-12)
    np.testing.assert_allclose(audit.score**2, np.einsum("mii->m", audit.covariance), rtol=1e-12)


def test_the_same_seed_gives_the_same_bits_whatever_the_world_drew_before(name):
    first = fitted(name, seed=3).audit(X_new)
    with torch.random.fork_rng(devices=[]):
        torch.rand(17)
        assert_same_bits(fitted(name, seed=3).audit(X_new), first)


def test_another_seed_gives_another_answer(name):
    assert not np.array_equal(fitted(name, seed=3).audit(X_new).score, fitted(name, seed=4).audit(X_new).score)


def test_audited_rows_do_not_know_of_each_other(name):
    auditor = fitted(name)
    whole = auditor.audit(X_new)
    for i in range(len(X_new)):
        alone = auditor.audit(X_new[i : i + 1])
        np.testing.assert_allclose(alone.prediction, whole.prediction[i : i + 1], rtol=1e-9)
        np.testing.assert_allclose(alone.score, whole.score[i : i + 1], rtol=1e-9)


def test_batch_size_does_not_change_the_audit(name, monkeypatch):
    auditor = fitted(name)
    whole = auditor.audit(X_new)
    assert_same(auditor.audit(DataLoader(TensorDataset(X_new), batch_size=2)), whole)
    monkeypatch.setattr("rue.core.chunks.CHUNK_BYTES", 1)
    monkeypatch.setattr("rue.data.opening.BATCH_BYTES", 1)
    assert_same(auditor.audit(X_new), whole)


@pytest.mark.parametrize(
    "data",
    [
        (X, y[:, None]),
        (X.numpy(), y.numpy()),
        (pd.DataFrame(X.numpy()), pd.Series(y.numpy())),
        DataLoader(TensorDataset(X, y), batch_size=7),
        rue.Data(X, y, weight=np.ones(20)),
    ],
    ids=["(n, 1) targets", "NumPy", "pandas", "a loader", "weights of one"],
)
def test_how_the_rows_are_given_does_not_matter(name, data):
    assert_same(fitted(name, data=data).audit(X_new), fitted(name, data=(X, y)).audit(X_new))


class Squeezed(nn.Module):
    """Returns (m,) rather than (m, 1)."""

    def __init__(self):
        super().__init__()
        self.inner = net()

    def forward(self, x):
        return self.inner(x).squeeze(-1)


def test_a_module_that_returns_m_is_the_one_that_returns_m_1(name):
    if name == "PBP":
        pytest.skip("takes nn.Sequential only")
    assert_same(fitted(name, Squeezed()).audit(X_new), fitted(name).audit(X_new))


def test_the_module_the_data_and_the_world_are_as_they_were(name):
    module = net().train()
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    module.register_forward_hook(lambda *_: None)
    data = copy.deepcopy((X, y, X_new))
    world, picture = world_picture(), module_picture(module)
    auditor = fitted(name, module)
    auditor.audit(X_new)
    auditor.predict(X_new, return_std=True)
    assert changed(world, world_picture()) == []
    assert changed(picture, module_picture(module)) == []
    assert all(torch.equal(now, before) for now, before in zip((X, y, X_new), data, strict=True))


def test_they_are_also_as_they_were_after_an_error(name):
    module = net()
    world, picture = world_picture(), module_picture(module)
    bad = {"training": Adam(2, 8, 1e308)} if name != "PBP" else {}
    data = (X, y) if bad else rue.Data(X, y, weight=np.arange(20.0))
    with pytest.raises(RueError):
        fitted(name, module, data, **bad)
    with pytest.raises(ModelError):
        fitted(name, module).audit(torch.zeros(2, 5))
    assert changed(world, world_picture()) == []
    assert changed(picture, module_picture(module)) == []


class Remembers(nn.Module):
    """A forward pass that writes on its module in every way there is, graph and all."""

    def __init__(self):
        super().__init__()
        self.inner = net()
        self.calls, self.seen = 0, []
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))

    def forward(self, x):
        self.calls, self.last, self.total = self.calls + 1, x, self.total + 1
        outputs = self.inner(x)
        self.seen.append(outputs)
        return outputs


def test_a_forward_that_writes_on_its_module_writes_nothing_and_changes_nothing(name):
    if name == "PBP":
        pytest.skip("takes nn.Sequential only")
    module = Remembers()
    module(X)
    picture = module_picture(module)
    audit = fitted(name, module).audit(X_new)
    assert changed(picture, module_picture(module)) == []
    assert_same(audit, fitted(name).audit(X_new))


def test_training_goes_on_under_no_grad_and_in_inference_mode(name):
    module = net()
    expected = fitted(name, module).audit(X_new)
    with torch.no_grad():
        assert_same_bits(fitted(name, module).audit(X_new), expected)
    with torch.inference_mode():
        assert_same_bits(fitted(name, module).audit(X_new), expected)


def test_more_training_of_the_module_after_the_fit_changes_nothing(name):
    module = net()
    auditor = fitted(name, module)
    before = auditor.audit(X_new)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
    assert_same_bits(auditor.audit(X_new), before)


def test_predict_is_the_audits_prediction_and_its_std_the_total(name):
    auditor = fitted(name)
    audit = auditor.audit(X_new)
    np.testing.assert_allclose(auditor.predict(X_new), audit.prediction, rtol=1e-12)
    mean, std = auditor.predict(X_new, return_std=True)
    np.testing.assert_array_equal(mean, audit.prediction)
    np.testing.assert_array_equal(std, audit.total_std)


def test_several_training_sets_side_by_side_give_what_each_gives_alone(name):
    sets = [rows(seed=seed) for seed in range(3)]
    models = [wrapped() for _ in sets]
    together = tiny(name, seed=7).fit_many(models, sets)
    for i, (model, data) in enumerate(zip(models, sets, strict=True)):
        assert_same(together[i].audit(X_new), tiny(name, seed=7 + i).fit(model, data).audit(X_new), rtol=1e-7)


def test_training_sets_of_different_sizes_are_refused_with_advice(name):
    with pytest.raises(DataError, match="19"):
        tiny(name).fit_many([wrapped(), wrapped()], [(X, y), (X[1:], y[1:])])


def test_each_model_needs_a_training_set(name):
    with pytest.raises(SettingError, match="2 models"):
        tiny(name).fit_many([wrapped(), wrapped()], [(X, y)])
    with pytest.raises(SettingError, match="0 models"):
        tiny(name).fit_many([], [])


def test_models_of_another_architecture_are_refused_with_advice(name):
    wide = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 1)).double()
    with pytest.raises(ModelError, match="fit_many"):
        tiny(name).fit_many([wrapped(), wrapped(wide)], [(X, y), (X, y)])


def test_settings_are_frozen_and_shown(name):
    settings = INTEGRATED[name]()
    with pytest.raises((AttributeError, TypeError)):
        settings.seed = 3
    auditor = fitted(name)
    assert type(settings).__name__ in repr(settings)
    assert auditor.facts["method"] == repr(tiny(name))
    heads = 5 if name == "Deep ensemble" else 0  # parameters of the second head
    assert (auditor.facts["n"], auditor.facts["d"]) == (20, 17 + heads)


def test_two_rows_are_enough(name):
    audit = fitted(name, data=(X[:2], y[:2])).audit(X_new)
    assert np.isfinite(audit.total_std).all()


@pytest.mark.slow
def test_a_sine_with_its_noise_is_learned(name):
    """300 rows, noise 0.3, one fixed seed: the NLL of new rows is nearer to the truth's than to a constant's."""
    generator = torch.Generator().manual_seed(0)
    X = 4 * torch.rand(1300, 1, generator=generator, dtype=torch.float64) - 2
    y = (2 * X[:, 0]).sin() + 0.3 * torch.randn(1300, generator=generator, dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(1, 30), nn.ReLU(), nn.Linear(30, 1)).double()
    method = INTEGRATED[name]()
    settings = {"training": Adam(200, 50, 0.01)} if name != "PBP" else {}
    if name == "Refit bootstrap":
        optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
        for _ in range(1000):  # its prediction is the wrapped module's
            optimiser.zero_grad()
            (module(X[:300])[:, 0] - y[:300]).square().mean().backward()
            optimiser.step()
        settings["members"] = 20
    auditor = dataclasses.replace(method, **settings).fit(wrapped(module, l2=0.01), (X[:300], y[:300]))
    nll = -auditor.audit(X[300:]).log_prob(y[300:]).mean()
    truth = 0.5 * np.log(2 * np.pi * 0.09) + 0.5
    constant = 0.5 * np.log(2 * np.pi * float(y.var())) + 0.5
    assert nll < (truth + constant) / 2
