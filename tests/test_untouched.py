"""An audit leaves no trace: not in the module, not in the data, not in the world."""

import copy
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

import cases
import rue
from rue.core.errors import RueWarning
from rue.methods import METHODS
from snapshot import changed, module_picture, world_picture

pytestmark = pytest.mark.usefixtures("few_trees")

KINDS = ["softplus", "batch_norm", "recurrent", "attention"]


def audited(method, model, data, inputs):
    """Fit, audit and predict; what a method has to say of its numbers is not the point here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RueWarning)
        auditor = method.fit(model, data)
        auditor.predict(inputs)
        return auditor.audit(inputs)


def lived_in(module):
    """With gradients, hooks and a frozen layer, as a module has them after training."""
    for i, parameter in enumerate(module.parameters()):
        parameter.grad = torch.full_like(parameter, i + 0.5)
    module.register_forward_hook(bystander)
    module.register_forward_pre_hook(bystander)
    next(module.parameters()).requires_grad_(False)
    return module


def bystander(*_):
    """A hook that looks on."""


def twice(values):
    return torch.cat([values, values])  # ten neighbours want ten rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_the_module_the_data_and_the_world_are_bit_identical_after_an_audit(name, kind):
    case = cases.CASES[kind]()
    module, X, y = lived_in(case.module), twice(case.X), twice(case.y)
    data, world, picture = copy.deepcopy((X, y, case.X_new)), world_picture(), module_picture(module)
    audited(METHODS[name](), rue.wrap(module, loss=case.loss, l2=case.l2), (X, y), case.X_new)
    assert changed(world, world_picture()) == []
    assert changed(picture, module_picture(module)) == []
    assert all(torch.equal(now, before) for now, before in zip((X, y, case.X_new), data, strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_a_shuffled_loader_without_a_generator_leaves_the_random_state_alone(name):
    case = cases.softplus()
    loader = DataLoader(TensorDataset(case.X, case.y), batch_size=7, shuffle=True)
    world, picture = world_picture(), module_picture(case.module)
    audited(METHODS[name](), case.wrap(), loader, loader)
    assert changed(world, world_picture()) == []
    assert changed(picture, module_picture(case.module)) == []


def test_a_sampler_without_a_generator_leaves_the_random_state_alone():
    case = cases.softplus()
    rows = TensorDataset(case.X, case.y)
    loader = DataLoader(rows, batch_size=7, sampler=RandomSampler(rows, replacement=True, num_samples=40))
    world = world_picture()
    audited(rue.LinearRUE(), case.wrap(), loader, loader)
    assert changed(world, world_picture()) == []


FIRST_AUDIT = """
import random
import torch
import rue
net, X = torch.nn.Linear(2, 1), torch.randn(12, 2)
before = random.getstate(), torch.get_rng_state()
rue.{method}().fit(rue.wrap(net, loss="squared_error", l2=1.0), (X, X[:, 0])).audit(X)
assert random.getstate() == before[0], "the state of random"
assert torch.equal(torch.get_rng_state(), before[1]), "the state of torch"
"""


@pytest.mark.parametrize("method", ["KernelDensity", "NearestNeighbours"])
def test_the_imports_of_a_first_audit_leave_the_random_state_alone(method):
    """scikit-learn draws a random number when it is imported, which happens once in a process."""
    run = subprocess.run([sys.executable, "-c", FIRST_AUDIT.format(method=method)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_a_world_with_other_switches_keeps_them():
    case = cases.recurrent()
    backends = torch.backends
    before = backends.mkldnn.enabled, backends.cudnn.enabled, backends.mha.get_fastpath_enabled()
    try:
        backends.mkldnn.enabled = backends.cudnn.enabled = False
        backends.mha.set_fastpath_enabled(False)
        world = world_picture()
        audited(rue.LinearRUE(), case.wrap(), (case.X, case.y), case.X_new)
        assert changed(world, world_picture()) == []
    finally:
        backends.mkldnn.enabled, backends.cudnn.enabled = before[:2]
        backends.mha.set_fastpath_enabled(before[2])


class Remembers(nn.Module):
    """A forward pass that writes on its module in every way there is."""

    def __init__(self):
        super().__init__()
        self.net = cases.softplus().module
        self.last, self.calls, self.seen, self.sizes = None, 0, [], {}
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))

    def forward(self, x):
        self.last, self.calls = x, self.calls + 1
        self.seen.append(len(x))
        self.sizes[len(x)] = True
        self.total = self.total + 1
        return self.net(x)


class Counts(nn.Module):
    """A forward pass that writes into a buffer in place."""

    def __init__(self):
        super().__init__()
        self.net = cases.softplus().module
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls.add_(1)
        return self.net(x)


@pytest.mark.parametrize("build", [Remembers, Counts])
@pytest.mark.parametrize("name", METHODS)
def test_a_forward_that_writes_on_its_module_writes_nothing_during_an_audit(name, build):
    case = cases.softplus()
    module = build().eval()
    module(case.X)
    picture = module_picture(module)
    audited(METHODS[name](), rue.wrap(module, loss="squared_error", l2=case.l2), (case.X, case.y), case.X_new)
    assert changed(picture, module_picture(module)) == []


class Keeps(nn.Module):
    """Keeps its activations, graph and all, for a later look."""

    def __init__(self):
        super().__init__()
        self.net = cases.softplus().module
        self.kept = []

    def forward(self, x):
        outputs = self.net(x)
        self.kept.append(outputs)
        return outputs


def test_a_module_that_keeps_activations_with_their_graph_can_be_audited():
    case = cases.softplus()
    module = Keeps()
    module(case.X)
    picture = module_picture(module)
    audit = audited(rue.LinearRUE(), rue.wrap(module, loss="squared_error", l2=case.l2), (case.X, case.y), case.X_new)
    assert changed(picture, module_picture(module)) == []
    expected = audited(rue.LinearRUE(), case.wrap(), (case.X, case.y), case.X_new)
    np.testing.assert_allclose(audit.std, expected.std, rtol=1e-9)


@pytest.mark.parametrize("normed", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm])
def test_a_parametrised_layer_is_as_it_was(normed):
    case = cases.softplus()
    normed(case.module[0])
    case.module.double().eval()
    picture = module_picture(case.module)
    audited(rue.LinearRUE(), case.wrap(), (case.X, case.y), case.X_new)
    assert changed(picture, module_picture(case.module)) == []


def test_a_module_in_training_mode_that_does_not_mind_stays_in_training_mode():
    case = cases.softplus()
    case.module.train()
    case.module[0].eval()
    picture = module_picture(case.module)
    audited(rue.RUE(), case.wrap(), (case.X, case.y), case.X_new)
    assert changed(picture, module_picture(case.module)) == []


def test_inputs_that_require_a_gradient_get_none():
    case = cases.softplus()
    X, y, X_new = (part.clone().requires_grad_() for part in (case.X, case.y, case.X_new))
    audited(rue.LinearRUE(), case.wrap(), (X, y), X_new)
    assert X.grad is None
    assert y.grad is None
    assert X_new.grad is None


def test_a_callable_loss_that_draws_random_numbers_leaves_the_random_state_alone():
    case = cases.softplus()

    def noisy_bystander(outputs, targets):
        torch.rand(3), np.random.rand(3), random.random()  # noqa: NPY002  the global state is the point
        return 0.5 * (outputs[:, 0] - targets) ** 2

    world = world_picture()
    audited(rue.LinearRUE(), case.wrap(loss=noisy_bystander), (case.X, case.y), case.X_new)
    assert changed(world, world_picture()) == []


@pytest.mark.parametrize("select", [None, "2.*"], ids=["all parameters", "the last layer"])
def test_an_auditor_answers_for_the_module_it_was_fitted_with_also_after_more_training(select):
    case = cases.softplus()
    auditor = rue.LinearRUE().fit(case.wrap(select=select), (case.X, case.y))
    before = auditor.audit(case.X_new)
    with torch.no_grad():
        for parameter in case.module.parameters():
            parameter.mul_(1.5)
    after = auditor.audit(case.X_new)
    np.testing.assert_array_equal(after.prediction, before.prediction)
    np.testing.assert_array_equal(after.std, before.std)


def test_the_same_seed_gives_the_same_bits_whatever_the_world_drew_before():
    case = cases.softplus()
    first = audited(rue.RUE(seed=3), case.wrap(), (case.X, case.y), case.X_new)
    state = torch.get_rng_state()
    torch.rand(17)
    second = audited(rue.RUE(seed=3), case.wrap(), (case.X, case.y), case.X_new)
    torch.set_rng_state(state)
    np.testing.assert_array_equal(first.std, second.std)
