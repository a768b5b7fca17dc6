"""Steps that hide parameters are refused; parameters that are merely at rest are not."""

import pytest
import torch
from torch import nn

import rue
from rue.core.errors import ModelError

X = torch.randn(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
METHOD = rue.LinearRUE(damping=rue.solve.Fixed(1e-3))


class Step(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, x):
        return self.step(x)


def net(step):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 3), Step(step), nn.Linear(3, 1)).double()


STEPS = {
    "round": torch.round,
    "floor": torch.floor,
    "sign": torch.sign,
    "threshold": lambda x: (x > 0).to(x),
    "argmax": lambda x: nn.functional.one_hot(x.argmax(-1), 3).to(x),
    "detach": torch.Tensor.detach,
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_refused_with_the_layers_after_it_and_those_can_be_audited(name):
    module = net(STEPS[name])
    with pytest.raises(ModelError, match=r"0\.weight, 0\.bias, but in steps.*select=\['2\.weight', '2\.bias'\]"):
        METHOD.fit(rue.wrap(module, loss="squared_error", l2=1.0), (X, X.sum(1)))
    audit = METHOD.fit(rue.wrap(module, loss="squared_error", l2=1.0, select="2.*"), (X, X.sum(1))).audit(X)
    assert audit.facts["d"] == 4


def test_a_layer_whose_units_are_all_off_is_not_taken_for_a_step():
    module = net(torch.relu)
    with torch.no_grad():
        module[0].bias.fill_(-1e3)
    auditor = METHOD.fit(rue.wrap(module, loss="squared_error", l2=1.0), (X, X.sum(1)))
    assert auditor.facts["d"] == sum(p.numel() for p in module.parameters())


def test_a_layer_that_the_next_one_multiplies_by_zero_is_not_taken_for_a_step():
    """As adapters are before training."""
    module = net(torch.tanh)
    with torch.no_grad():
        module[2].weight.zero_()
    auditor = METHOD.fit(rue.wrap(module, loss="squared_error", l2=1.0), (X, X.sum(1)))
    assert auditor.facts["d"] == sum(p.numel() for p in module.parameters())
