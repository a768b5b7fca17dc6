"""Small networks whose rows take different ways, and the exact deviations of their outputs by explicit matrices."""

import numpy as np
import torch
from torch import nn

import oracles

L2 = 1.0


class Towers(nn.Module):
    """A tower for each site, which column 0 names; a site that no row comes from is not computed."""

    def __init__(self, sites=5):
        super().__init__()
        self.towers = nn.ModuleList(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)) for _ in range(sites))

    def forward(self, x):
        out = x.new_zeros(len(x), 3)
        for site, tower in enumerate(self.towers):
            here = x[:, 0] == site
            if here.any():
                out = out + here[:, None] * tower(x[:, 1:])
        return out


class RareBranch(nn.Module):
    """A layer for few rows alone; `bend` is used in a way that layers are not read off by."""

    def __init__(self, bend=False):
        super().__init__()
        self.first, self.last, self.rare = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(6, 3)
        self.bend = nn.PReLU(6) if bend else None

    def forward(self, x):
        hidden, here = self.first(x[:, 1:]).tanh(), x[:, 0] == 4
        out = self.last(hidden)
        if here.any():
            bent = hidden if self.bend is None else self.bend(hidden)
            out = out + here[:, None] * (self.rare(bent) if self.bend is None else bent[:, :3])
        return out


class Routed(nn.Module):
    """Experts that are handed their own rows, and put back where these were."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 3) for _ in range(3))

    def forward(self, x):
        out = x.new_zeros(len(x), 3)
        for number, expert in enumerate(self.experts):
            rows = (x[:, 0] % 3 == number).nonzero()[:, 0]
            out = out.index_copy(0, rows, expert(x[rows, 1:]))
        return out


class Chosen(nn.Module):
    """Rows of one parameter as experts: only a part of it is used by any batch."""

    def __init__(self):
        super().__init__()
        self.experts, self.last = nn.Parameter(torch.randn(5, 4, 6)), nn.Linear(6, 3)

    def forward(self, x):
        hidden = x.new_zeros(len(x), 6)
        for number in x[:, 0].unique().long().tolist():
            hidden = hidden + (x[:, :1] == number) * (x[:, 1:] @ self.experts[number])
        return self.last(hidden.tanh())


class Energy(nn.Module):
    """Derivatives of a network by its inputs, inside `torch.func`."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x):
        return torch.func.vmap(torch.func.grad(lambda row: self.layers(row).sum()))(x)[:, :3]


class Forces(Energy):
    """The same derivatives by a backward pass, for which forward makes a tensor that requires a gradient."""

    def forward(self, x):
        with torch.enable_grad():
            points = x.detach().clone().requires_grad_()
            return torch.autograd.grad(self.layers(points).sum(), points, create_graph=True)[0][:, :3]


class Bells(nn.Module):
    """Distances to centres, by a function that torch takes wrongly for several rows at once."""

    def __init__(self):
        super().__init__()
        self.centres, self.last = nn.Parameter(torch.randn(4, 5)), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(torch.exp(-torch.cdist(x, self.centres)))


class Named(nn.Module):
    """Arguments by torch's own names."""

    def __init__(self):
        super().__init__()
        self.first, self.scale = nn.Linear(5, 3), nn.Parameter(torch.randn(3))
        self.mix = nn.Parameter(torch.randn(5, 3))

    def forward(self, x):
        return torch.mul(self.first(x), other=self.scale) + torch.matmul(x, other=self.mix).tanh()


class WrongTogether(torch.autograd.Function):
    """A sine whose rule for several rows at once is wrong."""

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(context, inputs, output):  # noqa: ARG004  torch hands them over
        context.save_for_backward(*inputs)

    @staticmethod
    def backward(context, back):
        return back * context.saved_tensors[0].cos()

    @staticmethod
    def vmap(info, in_dims, x):  # noqa: ARG004
        return 1.1 * WrongTogether.apply(x), in_dims[0]


class Wrong(nn.Module):
    """A layer after the function above."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(WrongTogether.apply(self.first(x)))


CASES = {
    "towers": Towers,
    "a rare branch": RareBranch,
    "a rare branch of an unknown layer": lambda: RareBranch(bend=True),
    "routed rows": Routed,
    "parts of a parameter": Chosen,
    "energies": Energy,
    "forces": Forces,
    "bells": Bells,
    "named arguments": Named,
    "wrong together": Wrong,
}


def made(name):
    """A network in float64, training rows, classes and other rows; column 0 names sites, the last the rarest."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, n = CASES[name]().double().eval(), 40
        X, y, others = torch.randn(n, 5).double(), torch.randint(0, 3, (n,)), torch.randn(6, 5).double()
        X[:, 0], others[:, 0] = torch.arange(n) % 4, torch.arange(6) % 5
        X[[7, 30], 0] = 4
    return net, X, y, others


def jacobian(net, X):
    """(n, k, d) by a plain backward pass for every row and output."""
    rows, parameters = [], list(net.parameters())
    with torch.enable_grad():
        for row in range(len(X)):
            for output in net(X[row : row + 1])[0]:
                slopes = torch.autograd.grad(output, parameters, retain_graph=True, allow_unused=True)
                pairs = zip(slopes, parameters, strict=True)
                rows.append(torch.cat([(torch.zeros_like(p) if s is None else s).flatten() for s, p in pairs]))
    return torch.stack(rows).view(len(X), -1, len(rows[0])).detach().numpy()


def deviations(net, X, y, others):
    """(m, k): roots of the closed form, from plain gradients and an explicit Gauss–Newton matrix."""
    J, p = jacobian(net, X), net(X).softmax(1).detach().numpy()
    curved = np.stack([np.diag(row) - np.outer(row, row) for row in p])
    H = np.einsum("nkd,nkl,nle->de", J, curved, J) + L2 * np.eye(J.shape[2])
    L = np.einsum("nkd,nk->dn", J, p - np.eye(p.shape[1])[y])
    covariance = oracles.closed_form(jacobian(net, others), H, L)
    return np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
