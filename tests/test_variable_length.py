"""Sequences of different lengths in plain torch: packed, masked in ways that cannot be vectorised, one at a time."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import oracles
import rue
from rue.core import derivatives
from rue.data.opening import training_rows

METHOD = rue.LinearRUE(damping=rue.solve.NoDamping())
GENERATOR = torch.Generator().manual_seed(0)
SEQUENCES = [torch.randn(size, 2, generator=GENERATOR, dtype=torch.float64) for size in (3, 5, 2, 4, 5, 3, 4, 2)]
TARGETS = torch.stack([sequence.sum() for sequence in SEQUENCES])


def padded(sequences):
    return {
        "x": nn.utils.rnn.pad_sequence(sequences, batch_first=True),
        "length": torch.tensor([len(sequence) for sequence in sequences]),
    }


class Packed(nn.Module):
    """The usual way with recurrent networks; lengths become a list."""

    def __init__(self):
        super().__init__()
        self.recurrent, self.head = nn.GRU(2, 2, batch_first=True), nn.Linear(2, 1)

    def forward(self, x, length):
        packed = nn.utils.rnn.pack_padded_sequence(x, length.tolist(), batch_first=True, enforce_sorted=False)
        return self.head(self.recurrent(packed)[1][0])


class Masked(nn.Module):
    """A mean over the valid positions, with a mask made in one of many ways."""

    def __init__(self, mask):
        super().__init__()
        self.mask, self.inner, self.head = mask, nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x, length):
        mask = self.mask(x, length).to(x).unsqueeze(-1)
        return self.head((mask * torch.tanh(self.inner(x))).sum(1) / mask.sum(1))


def compared(x, length):
    return torch.arange(x.shape[1]) < length[:, None]


def filled(x, length):
    mask = torch.zeros(x.shape[:2])
    for row, size in zip(mask, length, strict=True):
        row[: int(size)] = 1
    return mask


def through_numpy(x, length):
    return torch.from_numpy(np.arange(x.shape[1])[None] < length.numpy()[:, None])


def only_if_needed(x, length):
    """A shortcut for rows that fill their batch, as in `transformers`."""
    return torch.ones(x.shape[:2]) if bool((length == x.shape[1]).all()) else compared(x, length)


def for_plain_tensors(x, length):
    """A kernel of one's own, with its own opinion of what it is given."""
    if torch._C._functorch.is_functorch_wrapped_tensor(length):
        raise TypeError("lengths must be plain tensors")
    return compared(x, length)


BUILDS = {
    "packed": Packed,
    **{
        mask.__name__: lambda mask=mask: Masked(mask)
        for mask in (compared, filled, through_numpy, only_if_needed, for_plain_tensors)
    },
}
every_build = pytest.mark.parametrize("name", BUILDS)


def made(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BUILDS[name]().double()


def collate(rows):
    sequences, targets = zip(*rows, strict=True)
    return padded(sequences), torch.stack(targets)


@every_build
def test_rows_together_rows_one_by_one_and_sequences_alone_give_the_same_audit(name, monkeypatch):
    net = made(name)
    model = rue.wrap(net, loss="squared_error", l2=0.5)
    rows, bound = training_rows((padded(SEQUENCES), TARGETS), model)
    found = derivatives.jacobian(bound, padded(SEQUENCES))
    gradients = torch.cat([part for _, part in derivatives.gradient_batches(bound, rows)])
    expected = np.concatenate([oracles.output_jacobian(Alone(net), sequence[None]) for sequence in SEQUENCES])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    errors = [net(**padded([sequence])).item() - float(y) for sequence, y in zip(SEQUENCES, TARGETS, strict=True)]
    np.testing.assert_allclose(gradients, expected[:, 0] * np.array(errors)[:, None], rtol=1e-9, atol=1e-12)
    monkeypatch.setattr(derivatives, "first_that_works", lambda _, alone, argument, *_rest, **_named: alone(argument))
    np.testing.assert_allclose(derivatives.jacobian(bound, padded(SEQUENCES)), found, rtol=1e-9, atol=1e-12)
    again = torch.cat([part for _, part in derivatives.gradient_batches(bound, rows)])
    np.testing.assert_allclose(again, gradients, rtol=1e-9, atol=1e-12)


class Alone(nn.Module):
    """One sequence without padding, as the oracles call a module."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x, torch.tensor([x.shape[1]]))


@every_build
def test_the_audit_does_not_depend_on_how_sequences_are_batched(name):
    net = made(name)
    model = rue.wrap(net, loss="squared_error", l2=0.5)
    expected = METHOD.fit(model, (padded(SEQUENCES), TARGETS)).audit(padded(SEQUENCES[:3]))
    rows = list(zip(SEQUENCES, TARGETS, strict=True))
    for size in (1, 3):
        loader = DataLoader(rows, batch_size=size, collate_fn=collate)
        found = METHOD.fit(model, loader).audit(loader)
        np.testing.assert_allclose(found.std[:3], expected.std, rtol=1e-7)
        np.testing.assert_allclose(found.prediction[:3], expected.prediction, rtol=1e-9)
