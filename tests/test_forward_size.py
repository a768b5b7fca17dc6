"""A forward pass holds as many rows as its hidden layers leave room for, not as many as their inputs."""

import pytest
import torch
from torch import nn

import rue
from rue.core.derivatives import outputs
from rue.data.opening import training_rows
from rue.models.torch import forward_size
from rue.models.torch.module import ModuleCore


class Tokens(nn.Module):
    """A hidden layer of 4 bytes times 12 tokens times 256 for every row, from 12 numbers."""

    def __init__(self):
        super().__init__()
        self.table, self.wide, self.head = nn.Embedding(3000, 16), nn.Linear(16, 256), nn.Linear(256, 1)

    def forward(self, x):
        return self.head(self.wide(self.table(x)).tanh().mean(1))


@pytest.fixture
def problem():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, X = Tokens().eval(), torch.randint(0, 3000, (300, 12))
    return rue.wrap(net, loss="squared_error", l2=1.0), X, net(X)[:, 0].detach() + X[:, 0] / 3000, net


def test_the_largest_hidden_layer_of_a_row_is_measured(problem):
    model, X, y, _ = problem
    core = training_rows((X, y), model)[1].core
    assert core.row_bytes == 12 * 256 * 4


def test_rows_are_handed_over_in_pieces_that_fit_and_give_the_same_outputs(problem, monkeypatch):
    model, X, y, net = problem
    monkeypatch.setattr(forward_size, "PIECE_BYTES", 50 * forward_size.LIVE * 12 * 256 * 4)
    sizes, real = [], ModuleCore.call

    def counted(self, theta, inputs):
        sizes.extend([len(inputs)] * (not torch.is_grad_enabled()))
        return real(self, theta, inputs)

    monkeypatch.setattr(ModuleCore, "call", counted)
    bound = training_rows((X, y), model)[1]
    found = outputs(bound, X)
    assert max(sizes) == 50
    assert sizes[-6:] == [50] * 6
    torch.testing.assert_close(found, net(X).detach())
