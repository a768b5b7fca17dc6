"""Small networks of every kind of layer, and rows for them: what is read off layers must be their gradients."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

ROWS = 7


class Picture(nn.Module):
    """Convolutions with groups, strides and two norms."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, 8)
        self.second = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=4)
        self.batch = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        hidden = functional.silu(self.norm(self.first(x)))
        return self.head(self.batch(self.second(hidden)).relu().mean((2, 3)))


class Sentence(nn.Module):
    """Tokens, positions that all rows share, a token for the class, attention with a mask."""

    def __init__(self, batch_first=True):
        super().__init__()
        self.tokens = nn.Embedding(12, 8, padding_idx=0)
        self.positions = nn.Embedding(7, 8)
        self.start = nn.Parameter(torch.randn(1, 1, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)
        self.head = nn.Linear(8, 3)
        self.batch_first = batch_first

    def forward(self, x):
        hidden = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        hidden = torch.cat([self.start.expand(len(x), -1, -1), hidden], 1)
        hidden = hidden if self.batch_first else hidden.transpose(0, 1)
        mask = functional.pad(x == 0, (1, 0))
        hidden = self.layer(hidden, src_key_padding_mask=mask)
        return self.head(hidden[:, 0] if self.batch_first else hidden[0])


class Attention(nn.Module):
    """Queries of another kind than keys, whose weights are parts of one matrix."""

    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 2, 6))
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, x):
        return self.attention(self.query.repeat(len(x), 1, 1), x, x)[0].sum(2)


class Series(nn.Module):
    """A recurrent layer in both directions."""

    def __init__(self, kind, batch_first=True):
        super().__init__()
        self.layer = getattr(nn, kind)(4, 6, 2, bidirectional=True, batch_first=batch_first)
        self.head = nn.Linear(12, 2)
        self.batch_first = batch_first

    def forward(self, x):
        outputs, _ = self.layer(x if self.batch_first else x.transpose(0, 1))
        return self.head(outputs[:, -1] if self.batch_first else outputs[-1])


class Cells(nn.Module):
    """Recurrent cells in a loop."""

    def __init__(self):
        super().__init__()
        self.long, self.gate, self.plain = nn.LSTMCell(4, 6), nn.GRUCell(6, 5), nn.RNNCell(5, 3, bias=False)
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        state, gated, plain = None, x.new_zeros(len(x), 5), x.new_zeros(len(x), 3)
        for step in x.unbind(1):
            state = self.long(step, state)
            gated = self.gate(state[0], gated)
            plain = self.plain(gated, plain)
        return self.head(plain)


class Packed(nn.Module):
    """A recurrent layer of packed rows, which only whole gradients can be taken of."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.GRU(4, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x):
        lengths = torch.full((len(x),), x.shape[1])
        packed, _ = self.layer(pack_padded_sequence(x, lengths, batch_first=True))
        return self.head(pad_packed_sequence(packed, batch_first=True)[0][:, -1])


class Tied(nn.Module):
    """A weight used twice, plain products, a scale, positions as a parameter, and a layer that is not known."""

    def __init__(self):
        super().__init__()
        self.tokens, self.scale = nn.Embedding(12, 6), nn.Parameter(torch.ones(6))
        self.mix, self.shift = nn.Parameter(0.3 * torch.randn(6, 6)), nn.Parameter(torch.randn(1, 5, 6))
        self.bend = nn.PReLU(6)
        self.head = nn.Linear(6, 12, bias=False)
        self.head.weight = self.tokens.weight
        self.factor = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        hidden = (self.tokens(x) + self.shift) * self.scale
        hidden = self.bend((hidden @ self.mix + hidden @ self.mix.T).mean(1))
        return self.head(hidden)[:, :4] * self.factor


class Joined(nn.Module):
    """Rows and positions joined on one axis, rows first; `addmm` as transformers' Conv1D has it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 2)
        self.weight, self.bias = nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.randn(6))

    def forward(self, x):
        hidden = self.first(x.reshape(-1, 4)).tanh()
        hidden = torch.addmm(self.bias, hidden, self.weight).tanh()
        return self.second(hidden).reshape(len(x), -1, 2).sum(1)


class Adapted(nn.Module):
    """A frozen layer with a small one beside it (LoRA)."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 5).requires_grad_(False)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 5, bias=False)

    def forward(self, x):
        return self.base(x) + 0.5 * self.up(self.down(x))


class Shortcut(nn.Module):
    """A block as torchvision writes them: ReLU in place, and the shortcut added in place."""

    def __init__(self, entering, leaving, stride, norm):
        super().__init__()
        self.first = nn.Conv2d(entering, leaving, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(leaving, leaving, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([norm(leaving), norm(leaving)])
        self.relu = nn.ReLU(inplace=True)
        short = nn.Sequential(nn.Conv2d(entering, leaving, 1, stride, bias=False), norm(leaving))
        self.short = nn.Identity() if stride == 1 else short

    def forward(self, x):
        identity = self.short(x)
        out = self.norms[1](self.second(self.relu(self.norms[0](self.first(x)))))
        out += identity
        return self.relu(out)


class Residual(nn.Module):
    """A residual network with everything computed in place that torchvision's have."""

    def __init__(self, norm):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), norm(4), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(Shortcut(4, 4, 1, norm), Shortcut(4, 6, 2, norm))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.flatten(functional.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1), 1))


class InPlace(nn.Module):
    """Parameters added and multiplied in place, without taking what that returns, and parts that are written over."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)
        self.scale, self.shift = nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(6))

    def forward(self, x):
        hidden = self.first(x)
        hidden.mul_(self.scale).add_(self.shift)
        hidden[:, :2] = 2 * hidden[:, 2:4]
        hidden = functional.silu(self.second(hidden), inplace=True)
        hidden *= self.scale
        hidden.clamp_(min=-0.1)
        return self.head(functional.leaky_relu_(hidden))


def numbers(*shape):
    return lambda: torch.randn(ROWS, *shape)


def tokens():
    return torch.randint(1, 12, (ROWS, 5)) * (torch.arange(5) < torch.randint(3, 6, (ROWS, 1)))


CASES = {
    "layer norm": (lambda: nn.Sequential(nn.Linear(4, 9), nn.LayerNorm(9), nn.GELU(), nn.Linear(9, 3)), numbers(4)),
    "root mean square norm": (
        lambda: nn.Sequential(nn.Linear(4, 9), nn.RMSNorm(9), nn.Tanh(), nn.Linear(9, 1)),
        numbers(4),
    ),
    "picture": (Picture, numbers(3, 8, 8)),
    "sound": (
        lambda: nn.Sequential(nn.Conv1d(3, 5, 3), nn.BatchNorm1d(5), nn.ReLU(), nn.Flatten(), nn.Linear(15, 2)),
        numbers(3, 5),
    ),
    "volume": (
        lambda: nn.Sequential(nn.Conv3d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2)),
        numbers(1, 3, 3, 3),
    ),
    "padding": (
        lambda: nn.Sequential(nn.Embedding(12, 4, padding_idx=0), nn.Flatten(), nn.Linear(20, 2)),
        tokens,
    ),
    "sentence": (Sentence, tokens),
    "sentence, rows second": (lambda: Sentence(batch_first=False), tokens),
    "attention": (Attention, numbers(5, 6)),
    "LSTM": (lambda: Series("LSTM"), numbers(5, 4)),
    "GRU, rows second": (lambda: Series("GRU", batch_first=False), numbers(5, 4)),
    "RNN": (lambda: Series("RNN"), numbers(5, 4)),
    "cells": (Cells, numbers(5, 4)),
    "rows and positions joined": (Joined, numbers(5, 4)),
    "adapters": (Adapted, numbers(4)),
    "batch norms, in place": (lambda: Residual(nn.BatchNorm2d), numbers(3, 8, 8)),
    "group norms, in place": (lambda: Residual(lambda width: nn.GroupNorm(2, width)), numbers(3, 8, 8)),
    "parameters in place": (InPlace, numbers(4)),
}
WHOLE = {  # with the parameters whose gradients are taken whole
    "tied": (Tied, tokens, {"bend.weight"}),
    "packed rows": (Packed, numbers(5, 4), {f"layer.{w}_{s}_l0" for w in ("weight", "bias") for s in ("ih", "hh")}),
    "weight norm": (
        lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 2)),
        numbers(4),
        {"0.parametrizations.weight.original0", "0.parametrizations.weight.original1"},
    ),
    "bilinear": (
        lambda: Twice(nn.Bilinear(4, 4, 2)),
        numbers(4),
        {"layer.weight", "layer.bias"},
    ),
}


class Twice(nn.Module):
    """A layer of two inputs, given the same twice."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x, x)


def made(build, rows):
    """A network in double precision and evaluation mode, and its rows."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        inputs = rows()
        return build().double().eval(), inputs.double() if inputs.is_floating_point() else inputs
