"""An independent trial: networks as people have them, and what people say of losses, optimizers and loaders."""

import copy
import functools
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import norm
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import rue
from attacks.attack import Attack, Refused, Right, Warned
from rue.core.errors import RueError

ROWS, NEW, L2 = 140, 9, 1.0
Case = tuple[nn.Module, Any, torch.Tensor, Any]  # a network, its rows, their targets, new rows


# ------------------------------------------------------------------------------------------ data and training


@cache
def table() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows, a number for each (noisier to one side), and new rows."""
    source = np.random.default_rng(3)
    X = source.normal(size=(ROWS + NEW, 4))
    y = np.sin(X[:, 0]) + X[:, 1] - 0.5 * X[:, 2] + 0.4 * np.exp(0.5 * X[:, 3]) * source.normal(size=len(X))
    return torch.tensor(X[:ROWS]), torch.tensor(y[:ROWS]), torch.tensor(X[ROWS:])


@cache
def classes() -> torch.Tensor:
    """Three classes, none of them certain."""
    y = table()[1]
    score = y + 0.5 * torch.tensor(np.random.default_rng(4).normal(size=ROWS))
    return (score > -0.7).long() + (score > 0.7).long()


@cache
def counts() -> torch.Tensor:
    X, _, _ = table()
    return torch.tensor(np.random.default_rng(5).poisson(np.exp(0.8 + 0.4 * X[:, 0].numpy())).astype(float))


@cache
def images() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = np.random.default_rng(6)
    X = source.uniform(size=(ROWS + NEW, 1, 6, 6))
    y = 3 * X[:, 0, 2:4, 2:4].mean((1, 2)) + 0.3 * source.normal(size=len(X))
    return torch.tensor(X[:ROWS]), torch.tensor(y[:ROWS]), torch.tensor(X[ROWS:])


@cache
def texts() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens 1 to 7, padded with 0."""
    source = np.random.default_rng(7)
    tokens = source.integers(1, 8, size=(ROWS + NEW, 6))
    tokens[np.arange(6) >= source.integers(2, 7, size=len(tokens))[:, None]] = 0
    y = (tokens == 3).sum(1) - 0.5 * (tokens == 5).sum(1) + 0.4 * source.normal(size=len(tokens))
    return torch.tensor(tokens[:ROWS]), torch.tensor(y[:ROWS]), torch.tensor(tokens[ROWS:])


@cache
def series() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = np.random.default_rng(8)
    X = source.normal(size=(ROWS + NEW, 5, 2))
    y = X[:, -1, 0] + 0.5 * X[:, -2, 1] + 0.3 * source.normal(size=len(X))
    return torch.tensor(X[:ROWS]), torch.tensor(y[:ROWS]), torch.tensor(X[ROWS:])


def made(build: Callable[[], nn.Module]) -> nn.Module:
    """A module in float64, always the same, without a trace in the global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return build().double()


def settled(net: nn.Module, objective: Callable[[], torch.Tensor], steps: int = 150) -> nn.Module:
    """The module at the minimum of an objective, by L-BFGS."""
    free = [p for p in net.parameters() if p.requires_grad]
    search = torch.optim.LBFGS(
        free, max_iter=steps, tolerance_grad=1e-10, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> torch.Tensor:
        search.zero_grad()
        value = objective()
        value.backward()
        return value

    with torch.enable_grad():
        search.step(closure)
    for p in free:
        p.grad = None
    return net


def size(net: nn.Module) -> torch.Tensor:
    return sum(p.square().sum() for p in net.parameters() if p.requires_grad)


def numbers(net: nn.Module, inputs: Any, y: torch.Tensor, l2: float = L2, steps: int = 150) -> nn.Module:
    """Trained on ½r² summed over rows, and ½ l2 ‖θ‖²."""
    net.eval()
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return settled(net, lambda: 0.5 * (net(*given)[:, 0] - y).square().sum() + 0.5 * l2 * size(net), steps)


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))


@cache
def _net() -> nn.Module:
    X, y, _ = table()
    return numbers(made(small), X, y)


def net() -> nn.Module:
    """A small network at rest; a copy, to do with as one likes."""
    return copy.deepcopy(_net())


def audited(model: nn.Module, X: Any, y: Any, new: Any, **told: Any) -> rue.Audit:
    told = {"loss": "squared_error", "l2": L2, **told}
    return rue.LinearRUE().fit(rue.wrap(model, **told), (X, y)).audit(new)


def read(model: nn.Module, data: Any, **told: Any) -> rue.Audit:
    """The same of a loader, a dataset or whatever is given for data."""
    told = {"loss": "squared_error", "l2": L2, **told}
    return rue.LinearRUE().fit(rue.wrap(model, **told), data).audit(table()[2])


@cache
def plain() -> rue.Audit:
    return audited(net(), *table())


# ------------------------------------------------------------------------------------------ oracles


def slopes(model: nn.Module, inputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and their derivatives, a row at a time, by autograd."""
    free = [p for p in model.parameters() if p.requires_grad]
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    with torch.enable_grad():
        outputs = model(*given)[:, 0]
        rows = [torch.autograd.grad(one, free, retain_graph=True, allow_unused=True) for one in outputs]
    flat = [
        torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in zip(row, free, strict=True)])
        for row in rows
    ]
    return outputs.detach().double().numpy(), torch.stack(flat).double().numpy()


def sandwich(
    A: np.ndarray, residual: np.ndarray, B: np.ndarray, l2: Any = L2, weight: np.ndarray | float = 1.0
) -> np.ndarray:
    """H⁻¹ M H⁻¹ with centred scores, along the rows of B: bootstrap to first order."""
    weight = np.broadcast_to(weight, len(A))
    H = A.T @ (weight[:, None] * A) + np.diag(np.broadcast_to(l2, A.shape[1]))
    scores = (weight * residual)[:, None] * A
    scores = scores - scores.mean(0)
    return np.linalg.norm(scores @ np.linalg.solve(H, B.T), axis=0)


def by_hand(case: Callable[[], Case], rtol: float = 1e-5) -> Right:
    """The module's own outputs, and a sandwich of derivatives taken row by row."""

    def check(audit: rue.Audit) -> None:
        model, X, y, new = case()
        fitted, A = slopes(model, X)
        wanted, B = slopes(model, new)
        np.testing.assert_allclose(audit.prediction, wanted, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(audit.std, sandwich(A, fitted - y.double().numpy(), B), rtol=rtol)

    return Right("a sandwich of derivatives taken row by row", check)


def like(other: Callable[[], rue.Audit], rtol: float = 1e-6, by: str = "the audit of the plain set-up") -> Right:
    def check(audit: rue.Audit) -> None:
        np.testing.assert_allclose(np.asarray(audit.prediction), other().prediction, rtol=rtol, atol=1e-8)
        np.testing.assert_allclose(audit.std, other().std, rtol=10 * rtol)

    return Right(by, check)


PLAIN = like(plain)


def said(by: str, holds: Callable[[Any], Any]) -> Right:
    def check(found: Any) -> None:
        assert holds(found), found

    return Right(by, check)


def seen(name: str, case: Callable[[], Case], **told: Any) -> Attack:
    """A module of some kind: right, by hand."""
    cached = cache(case)
    return Attack(name, lambda: audited(*cached(), **told), by_hand(cached))


def within(context: Callable[[], Any]) -> Callable[[], rue.Audit]:
    def do() -> rue.Audit:
        model, data = net(), table()
        with context():
            return audited(model, *data)

    return do


# ------------------------------------------------------------------------------------------ modules of all kinds


def on_table(build: Callable[[], nn.Module], steps: int = 150) -> Callable[[], Case]:
    def case() -> Case:
        X, y, new = table()
        return numbers(made(build), X, y, steps=steps), X, y, new

    return case


def on(data: Callable[[], Any], build: Callable[[], nn.Module], steps: int = 60) -> Callable[[], Case]:
    def case() -> Case:
        X, y, new = data()
        return numbers(made(build), X, y, steps=steps), X, y, new

    return case


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 1)
    )


def _batch_norm() -> Case:
    X, y, new = images()
    model = made(
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(32, 1))
    )
    for _ in range(3):
        model(X)  # running statistics
    return numbers(model, X, y, steps=60), X, y, new


class Last(nn.Module):
    """The last of the hidden states of a recurrent layer."""

    def __init__(self, kind: type[nn.Module] = nn.LSTM):
        super().__init__()
        self.inner, self.head = kind(2, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.inner(x)[0][:, -1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 4)
        self.inner = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.1, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.inner(self.first(x)).mean(1))


class Padded(nn.Module):
    """Means of embedded tokens, the padding left out."""

    def __init__(self, padding: int | None = 0):
        super().__init__()
        self.words, self.head = nn.Embedding(8, 3, padding_idx=padding), nn.Linear(3, 1)

    def forward(self, tokens):
        there = (tokens != 0).unsqueeze(-1)
        return self.head((self.words(tokens) * there).sum(1) / there.sum(1).clamp(min=1))


class Bag(nn.Module):
    """A sum over all tokens; padding counts as a row of zeros that is never trained."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(8, 3, padding_idx=0), nn.Linear(3, 1)

    def forward(self, tokens):
        return self.head(self.words(tokens).sum(1))


class Packed(nn.Module):
    """An LSTM over packed sequences."""

    def __init__(self, enforce_sorted: bool):
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(8, 2), nn.LSTM(2, 3, batch_first=True), nn.Linear(3, 1)
        self.enforce_sorted = enforce_sorted

    def forward(self, tokens):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.words(tokens), (tokens != 0).sum(1).cpu(), batch_first=True, enforce_sorted=self.enforce_sorted
        )
        return self.head(self.inner(packed)[1][0][-1])


class Repeated(nn.Module):
    """One block applied three times."""

    def __init__(self):
        super().__init__()
        self.block, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        for _ in range(3):
            x = x + self.block(x).tanh()
        return self.head(x)


class Adapted(nn.Module):
    """A frozen layer with a low-rank adapter."""

    def __init__(self):
        super().__init__()
        self.base, self.head = nn.Linear(4, 6).requires_grad_(False), nn.Linear(6, 1)
        self.lora_A, self.lora_B = nn.Parameter(0.3 * torch.randn(2, 4)), nn.Parameter(0.3 * torch.randn(6, 2))

    def forward(self, x):
        return self.head((self.base(x) + x @ self.lora_A.T @ self.lora_B.T).tanh())


class Spare(nn.Module):
    """A head that the forward pass never uses, and an empty parameter."""

    def __init__(self):
        super().__init__()
        self.used, self.unused, self.empty = small(), nn.Linear(4, 2), nn.Parameter(torch.zeros(0))

    def forward(self, x):
        return self.used(x)


class Lookup(nn.Module):
    """A table of whole numbers that is a parameter, so that it is stored."""

    def __init__(self):
        super().__init__()
        self.order = nn.Parameter(torch.tensor([0, 1, 2, 3]), requires_grad=False)
        self.inner = small()

    def forward(self, x):
        return self.inner(x[:, self.order])


class Pair(nn.Module):
    """Two inputs."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(3, 3), nn.Linear(1, 3), nn.Linear(3, 1)

    def forward(self, lab, vital):
        return self.head((self.left(lab) + self.right(vital)).tanh())


def _pair() -> Case:
    X, y, new = table()
    return numbers(made(Pair), (X[:, :3], X[:, 3:]), y), (X[:, :3], X[:, 3:]), y, (new[:, :3], new[:, 3:])


def _wrapped(how: Callable[[nn.Module], Any]) -> Callable[[], rue.Audit]:
    def do() -> rue.Audit:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            model = how(net())
        return audited(model, *table())

    return do


def _old_weight_norm() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 5).double()), nn.Tanh(), nn.Linear(5, 1))


def _pruned(remove: bool) -> nn.Module:
    X, y, _ = table()
    model = made(small)
    prune.l1_unstructured(model[0], "weight", 0.5)
    numbers(model, X, y)
    if remove:
        prune.remove(model[0], "weight")
    return model


KINDS = [
    seen(
        "A convolution has group norm, a rectifier that works in place and a maximum over patches",
        on(images, convolution),
    ),
    seen("A convolution has batch norm, in eval mode", _batch_norm),
    seen("An LSTM with its batch first is read at its last step", on(series, Last)),
    seen("A GRU with its batch first is read at its last step", on(series, lambda: Last(nn.GRU))),
    seen("A transformer layer has dropout, in eval mode", on(series, Encoder)),
    seen("Embedded tokens are averaged without their padding", on(texts, Padded)),
    seen("The row of an embedding that stands for padding is summed up, and never trained", on(texts, Bag)),
    seen(
        "Tokens are embedded in bags",
        on(texts, lambda: nn.Sequential(nn.EmbeddingBag(8, 3, mode="mean"), nn.Tanh(), nn.Linear(3, 1))),
    ),
    seen("Sequences are packed, in any order", on(texts, lambda: Packed(False), steps=40)),
    Attack(
        "Sequences are packed, and have to be sorted by their length",
        lambda: audited(made(lambda: Packed(True)).eval(), *texts()),
        Refused(RueError, "could not take"),
    ),
    seen(
        "A layer's weight is normalised by parametrization",
        on_table(lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 5)), nn.Tanh(), nn.Linear(5, 1))),
    ),
    seen("A layer's weight is normalised by the old hook of torch", on_table(_old_weight_norm)),
    seen(
        "A layer has spectral norm, in eval mode",
        on_table(lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 5)), nn.Tanh(), nn.Linear(5, 1))),
    ),
    seen(
        "A layer is kept orthogonal by parametrization",
        on_table(lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 1)), 60),
    ),
    seen(
        "Half of a layer is pruned, the mask still in place",
        lambda: (_pruned(False), *table()),
    ),
    Attack(
        "Half of a layer was pruned, and the mask was made permanent",
        lambda: audited(_pruned(True), *table()),
        Warned("rest"),
    ),
    seen("One block is applied three times", on_table(Repeated)),
    seen("A frozen layer has a low-rank adapter", on_table(Adapted)),
    seen("A head is never used, and a parameter is empty", on_table(Spare)),
    replace(
        seen("A parameter holds whole numbers and is not trained", on_table(Lookup)),
        expected=Refused(RueError, "no derivative"),
    ),
    seen("A network takes two inputs", _pair),
    Attack("The module is compiled", _wrapped(lambda model: torch.compile(model, backend="eager")), PLAIN),
    Attack("The module is scripted", _wrapped(torch.jit.script), Refused(RueError, "TorchScript")),
    Attack(
        "The module is traced",
        _wrapped(lambda model: torch.jit.trace(model, table()[0])),
        Refused(RueError, "TorchScript"),
    ),
    Attack("The module is spread over devices by DataParallel", _wrapped(nn.DataParallel), PLAIN),
    Attack("The module is an average of weights by torch", _wrapped(torch.optim.swa_utils.AveragedModel), PLAIN),
    Attack("The whole module is frozen for production", _wrapped(lambda model: model.requires_grad_(False)), PLAIN),
    Attack(
        "The module's linear layers are quantised",
        _wrapped(lambda model: torch.ao.quantization.quantize_dynamic(model.float(), {nn.Linear})),
        Refused(RueError, "parameter|quanti"),
    ),
    Attack(
        "Parameters are complex",
        lambda: audited(
            made(lambda: nn.Linear(4, 1)).to(torch.complex128), table()[0].to(torch.complex128), *table()[1:]
        ),
        Refused(RueError, "complex"),
    ),
]


# ------------------------------------------------------------------------------------------ state, hooks, copies


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = net()


class Counting(Inner):
    """Counts its calls and keeps what it saw."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.log: list[Any] = []

    def forward(self, x):
        self.calls += 1
        self.log.append(x.shape)
        return self.inner(x)


class Annealed(Inner):
    """Grows with the number of calls."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x) * min(1.0, self.calls / 1000)


class ByShape(Inner):
    """Keeps hidden values by the shape of the batch."""

    def __init__(self):
        super().__init__()
        self.kept: dict[Any, torch.Tensor] = {}

    def forward(self, x):
        if tuple(x.shape) not in self.kept:
            self.kept[tuple(x.shape)] = self.inner[:2](x)
        return self.inner[2](self.kept[tuple(x.shape)])


class ByContent(Inner):
    """Keeps hidden values by the content of the batch, cut off from their derivatives."""

    def __init__(self):
        super().__init__()
        self.kept: dict[Any, torch.Tensor] = {}

    def forward(self, x):
        key = float(x.detach().sum())
        if key not in self.kept:
            self.kept[key] = self.inner[:2](x).detach()
        return self.inner[2](self.kept[key])


class Drifting(Inner):
    """Keeps a running mean of what it predicts, also in eval mode, and takes it off."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, dtype=torch.float64))

    def forward(self, x):
        out = self.inner(x)
        self.mean = 0.9 * self.mean + 0.1 * out.detach().mean(0)
        return out - self.mean


class Scaled(Inner):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(1, dtype=torch.float64))

    def forward(self, x):
        return self.scale * self.inner(x)


class Forgetful(Inner):
    """A copy of it starts afresh."""

    def __deepcopy__(self, memo):
        other = Forgetful()
        for p in other.parameters():
            nn.init.constant_(p, 0.1)
        return other

    def forward(self, x):
        return self.inner(x)


class Itself(Inner):
    """There is only one of it."""

    def __deepcopy__(self, memo):
        return self

    def forward(self, x):
        return self.inner(x)


class Unpickled(Inner):
    """The scale of its outputs does not survive a copy."""

    def __init__(self):
        super().__init__()
        self.factor = 3.0

    def __getstate__(self):
        return {key: value for key, value in self.__dict__.items() if key != "factor"}

    def forward(self, x):
        return getattr(self, "factor", 1.0) * self.inner(x)


def _counting() -> tuple[Any, Any, Any]:
    model = Counting()
    audit = audited(model, *table())
    return audit, int(model.calls), len(model.log)


def _like_counting(found: Any) -> None:
    np.testing.assert_allclose(found[0].std, plain().std, rtol=1e-6)
    assert found[1:] == (0, 0)


def _itself() -> tuple[rue.Audit, nn.Module]:
    model = Itself()
    return audited(model, *table()), model


def _as_before(found: Any) -> None:
    np.testing.assert_allclose(found[0].std, plain().std, rtol=1e-6)
    for p, q in zip(found[1].inner.parameters(), net().parameters(), strict=True):
        assert torch.equal(p, q)
        assert p.requires_grad
        assert p.grad is None


def _buffer_after(when: str) -> rue.Audit:
    model = Scaled()
    wrapped = rue.wrap(model, loss="squared_error", l2=L2)
    if when == "wrap":
        model.scale.fill_(5.0)
    auditor = rue.LinearRUE().fit(wrapped, table()[:2])
    if when == "fit":
        model.scale.fill_(5.0)
    return auditor.audit(table()[2])


def _hooked(add: Callable[[nn.Module], Any]) -> rue.Audit:
    model = net()
    add(model)
    return audited(model, *table())


def _own_forward() -> nn.Module:
    model = net()
    model.forward = lambda x: 2 * model[2](model[1](model[0](x)))
    return model


def _bound_forward() -> nn.Module:
    model = net()

    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return 2 * self[2](self[1](self[0](x)))

    model.forward = types.MethodType(forward, model)
    return model


def _own(model: Callable[[], nn.Module]) -> Right:
    return said(
        "the module's own predictions",
        lambda audit: np.allclose(audit.prediction, model()(table()[2])[:, 0].detach().numpy(), rtol=1e-6),
    )


def _masked_linear() -> nn.Module:
    """Two coefficients are kept at what they were by a hook on the gradient."""
    X, y, _ = table()
    model = made(lambda: nn.Linear(4, 1))
    mask = torch.tensor([[1.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0, 0.0, 0.9, -0.9]]))
    model.weight.register_hook(lambda slope: slope * mask)
    return numbers(model, X, y)


def _shifted(model: nn.Module) -> nn.Module:
    model.register_forward_hook(lambda _module, _given, out: 1.5 * out + 2)
    return model


STATE = [
    Attack(
        "The forward pass counts its calls and keeps a log",
        _counting,
        Right("the plain audit; a count of 0", _like_counting),
    ),
    Attack(
        "The outputs grow with the number of calls",
        lambda: audited(Annealed(), *table()),
        Refused(RueError, "two passes"),
    ),
    Attack(
        "Hidden values are kept by the shape of the batch", lambda: audited(ByShape(), *table()), Refused(RueError, ".")
    ),
    Attack(
        "Hidden values are kept by the content of the batch, without their derivatives",
        lambda: audited(ByContent(), *table()),
        Warned("rest"),
    ),
    Attack(
        "The module takes off a running mean of what it predicts, also in eval mode",
        lambda: audited(Drifting(), *table()),
        Refused(RueError, "two passes|rows beside|backward pass"),
    ),
    Attack("A buffer is changed after wrap", lambda: _buffer_after("wrap"), PLAIN),
    Attack("A buffer is changed after the fit", lambda: _buffer_after("fit"), PLAIN),
    Attack("A copy of the module starts afresh", lambda: audited(Forgetful(), *table()), _own(Forgetful)),
    Attack(
        "A copy of the module is the module itself", _itself, Right("the plain audit; the module as before", _as_before)
    ),
    Attack(
        "An attribute of the module does not survive a copy",
        lambda: audited(Unpickled(), *table()),
        Refused(RueError, "cop(y|ied)"),
    ),
    Attack(
        "The forward pass is a function that was put in its place, of the very module",
        lambda: audited(_own_forward(), *table()),
        Refused(RueError, "not among the module's parameters|cop(y|ied)"),
    ),
    Attack(
        "The forward pass is a method that was bound to the very module",
        lambda: audited(_bound_forward(), *table()),
        _own(_bound_forward),
    ),
    Attack(
        "A hook keeps what a layer returns",
        lambda: _hooked(
            lambda model: model[0].register_forward_hook(lambda part, _given, out: setattr(part, "kept", out.detach()))
        ),
        PLAIN,
    ),
    Attack(
        "A hook scales what the module returns",
        lambda: audited(_shifted(net()), *table()),
        _own(lambda: _shifted(net())),
    ),
    Attack(
        "A hook halves the derivatives of a layer",
        lambda: _hooked(
            lambda model: model[0].register_full_backward_hook(
                lambda _part, into, _out: (None if into[0] is None else 0.5 * into[0],)
            )
        ),
        PLAIN,
    ),
    Attack(
        "A hook on the last layer halves what flows back",
        lambda: _hooked(lambda model: model[2].register_full_backward_hook(lambda _part, into, _out: (0.5 * into[0],))),
        Refused(RueError, "backward pass"),
    ),
    Attack(
        "A hook on a parameter clips its gradient",
        lambda: _hooked(lambda model: model[0].weight.register_hook(lambda slope: slope.clamp(-1e-3, 1e-3))),
        PLAIN,
    ),
    Attack(
        "A hook on a parameter has kept two coefficients from being trained",
        lambda: audited(_masked_linear(), *table()),
        Warned("training fit|rest"),
    ),
]


# ------------------------------------------------------------------------------------------ contexts, tensors


def _made_in_inference_mode() -> rue.Audit:
    model, data = net(), table()
    with torch.inference_mode():
        model = copy.deepcopy(model)
    return audited(model, *data)


def _data_of_inference_mode() -> rue.Audit:
    model, data = net(), table()
    with torch.inference_mode():
        X, y, new = (part.clone() for part in data)
    return audited(model, X, y, new)


class _Default:
    """Another dtype for new tensors, for a while."""

    def __enter__(self):
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *_):
        torch.set_default_dtype(self.before)


class _Deterministic:
    def __enter__(self):
        torch.use_deterministic_algorithms(True)

    def __exit__(self, *_):
        torch.use_deterministic_algorithms(False)


def _need_grad() -> tuple[rue.Audit, Any, Any]:
    X, y, new = (part.clone().requires_grad_() for part in table())
    audit = audited(net(), X, y, new)
    assert all(part.grad is None for part in (X, y, new))
    return audit


def _strided() -> rue.Audit:
    X, y, new = table()
    wide = torch.zeros(ROWS, 8, dtype=torch.float64)
    wide[:, ::2] = X
    twice = torch.stack([y, y], 1)
    return audited(net(), wide[:, ::2], twice[:, 1], new.T.contiguous().T)


def _of_a_graph() -> rue.Audit:
    """Rows that another network has computed, its graph still at them."""
    X, y, new = table()
    pre = torch.eye(4, dtype=torch.float64, requires_grad=True)
    return audited(net(), X @ pre, y, new @ pre)


def _cast(X: Callable[[torch.Tensor], Any], model: Callable[[nn.Module], nn.Module] = lambda m: m) -> rue.Audit:
    rows, y, new = table()
    return audited(model(net()), X(rows), y, X(new))


@cache
def _rounded() -> rue.Audit:
    return _cast(lambda rows: rows.half().float(), lambda model: model.float())


def _float32() -> Case:
    X, y, new = table()
    return net().float(), X.float(), y.float(), new.float()


def _channels_last() -> rue.Audit:
    model, X, y, new = on(images, convolution)()
    return audited(model.to(memory_format=torch.channels_last), X.to(memory_format=torch.channels_last), y, new)


def _raw_inputs() -> rue.Audit:
    X, y, new = table()
    return rue.audit(net(), train=(X, y), inputs=50 + 10 * new, loss="squared_error", l2=L2)


def _pixels() -> rue.Audit:
    model, X, y, new = on(images, convolution)()
    return rue.audit(model, train=(255 * X, y), inputs=255 * new, loss="squared_error", l2=L2)


CONTEXTS = [
    Attack("The audit is made under no_grad", within(torch.no_grad), PLAIN),
    Attack("The audit is made in inference mode", within(torch.inference_mode), PLAIN),
    Attack("The module was made in inference mode", _made_in_inference_mode, Refused(RueError, "inference mode")),
    Attack("The data were made in inference mode", _data_of_inference_mode, PLAIN),
    Attack("Another dtype is the default of torch", within(_Default), PLAIN),
    Attack("Another device is the default of torch", within(lambda: torch.device("meta")), PLAIN),
    Attack("Torch is told to be deterministic", within(_Deterministic), PLAIN),
    Attack("Torch is told to look for anomalies", within(torch.autograd.detect_anomaly), PLAIN),
    Attack("Rows and targets require gradients", _need_grad, PLAIN),
    Attack("Rows and targets are views of wider tables", _strided, PLAIN),
    Attack("Rows come from another network, with its graph", _of_a_graph, PLAIN),
    Attack(
        "Images and network have their channels last in memory", _channels_last, by_hand(cache(on(images, convolution)))
    ),
    Attack(
        "Rows are float64 arrays and the network is of float32",
        lambda: audited(net().float(), table()[0].numpy(), table()[1].numpy(), table()[2].numpy()),
        like(plain, 2e-3),
    ),
    Attack("The network, its rows and its targets are of float32", lambda: audited(*_float32()), like(plain, 2e-3)),
    Attack(
        "Rows are tensors of float32 and the network is of float64",
        lambda: _cast(lambda rows: rows.float()),
        like(plain, 1e-5),
    ),
    Attack(
        "Rows are tensors of half precision and the network is of float32",
        lambda: _cast(lambda rows: rows.half(), lambda model: model.float()),
        like(_rounded, by="the audit of the rounded rows"),
    ),
    Attack(
        "Rows are rounded to bytes",
        lambda: _cast(lambda rows: (rows * 20 + 100).clamp(0, 255).byte()),
        Refused(RueError, "could not take|dtype"),
    ),
    Attack(
        "New rows are in raw units, those of training were standardised",
        _raw_inputs,
        said("all are unlike training rows", lambda audit: audit.scarce.all()),
    ),
    Attack("Images come in 0 to 255, and were trained in 0 to 1", _pixels, Warned("training fit")),
]


# ------------------------------------------------------------------------------------------ losses


def ridge(
    c: float, free: tuple[bool, bool] = (False, False), centre: np.ndarray | float = 0.0, y: Any = None
) -> nn.Linear:
    """The minimum of ½ Σr² + ½ c ‖θ − centre‖², solved."""
    X, own, _ = table()
    A = np.c_[X.numpy(), np.ones(ROWS)]
    D = np.diag([0.0 if free[0] else c] * 4 + [0.0 if free[1] else c])
    theta = np.linalg.solve(A.T @ A + D, A.T @ (own.numpy() if y is None else y) + D @ (np.zeros(5) + centre))
    return linear(theta)


def linear(theta: np.ndarray) -> nn.Linear:
    model = made(lambda: nn.Linear(4, 1))
    with torch.no_grad():
        model.weight.copy_(torch.tensor(theta[:4])[None])
        model.bias.fill_(float(theta[4]))
    return model


def closed(c: Any, shift: float = 0.0) -> Right:
    """Ridge regression's own sandwich, c one number or one for each coefficient."""

    def check(audit: rue.Audit) -> None:
        X, y, new = (part.numpy() for part in table())
        A, B = np.c_[X, np.ones(ROWS)], np.c_[new, np.ones(NEW)]
        theta = np.linalg.solve(A.T @ A + np.diag(np.broadcast_to(c, 5)), A.T @ y)
        np.testing.assert_allclose(audit.prediction, B @ theta, rtol=1e-6)
        np.testing.assert_allclose(audit.std, sandwich(A, A @ theta - y, B, c), rtol=1e-5)

    return Right("ridge regression in closed form", check)


def stated(model: nn.Module, y: Any = None, **told: Any) -> rue.Audit:
    X, own, new = table()
    return rue.audit(model, train=(X, own if y is None else y), inputs=new, **told)


def spread(model: nn.Module, y: Any = None, **told: Any) -> rue.Audit:
    """The same, by the closed form of resampling alone."""
    X, own, new = table()
    return rue.LinearRUE().fit(rue.wrap(model, **told), (X, own if y is None else y)).audit(new)


def trained(loss: Callable[[torch.Tensor], torch.Tensor], outputs: int, l2: float = L2) -> nn.Module:
    """A linear model at rest under a summed loss and ½ l2 ‖θ‖²."""
    model = made(lambda: nn.Linear(4, outputs))
    return settled(model, lambda: loss(model(table()[0])) + 0.5 * l2 * size(model))


@cache
def _softmax() -> nn.Module:
    return trained(lambda z: functional.cross_entropy(z, classes(), reduction="sum"), 3)


@cache
def _softmax_plain() -> rue.Audit:
    return spread(_softmax(), classes(), loss="cross_entropy", l2=L2)


@cache
def _weighted() -> nn.Module:
    heavy = torch.tensor([1.0, 1.0, 8.0], dtype=torch.float64)
    return trained(lambda z: functional.cross_entropy(z, classes(), heavy, reduction="sum"), 3)


@cache
def _smoothed() -> nn.Module:
    return trained(lambda z: functional.cross_entropy(z, classes(), reduction="sum", label_smoothing=0.3), 3)


def yes() -> torch.Tensor:
    return (classes() > 1).double()


@cache
def _logit(pos_weight: float = 1.0) -> nn.Module:
    heavy = torch.tensor(pos_weight, dtype=torch.float64)
    return trained(
        lambda z: functional.binary_cross_entropy_with_logits(z[:, 0], yes(), pos_weight=heavy, reduction="sum"), 1
    )


@cache
def _logit_plain() -> rue.Audit:
    return spread(_logit(), yes(), loss="bernoulli", l2=L2)


@cache
def _log_mean() -> nn.Module:
    return trained(lambda z: (z[:, 0].exp() - counts() * z[:, 0]).sum(), 1)


@cache
def _log_mean_plain() -> rue.Audit:
    return spread(_log_mean(), counts(), loss="poisson", l2=L2)


@cache
def _huber(delta: float) -> nn.Module:
    return trained(lambda f: functional.huber_loss(f[:, 0], table()[1], delta=delta, reduction="sum"), 1)


def _broadcast() -> rue.Audit:
    """(n, 1) against (n,): every row is trained towards every target."""
    X, y, _ = table()
    model = made(small)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settled(model, lambda: nn.MSELoss()(model(X), y), 60)
    return stated(model, loss=nn.MSELoss())


class Learnt(nn.Module):
    """A loss that has learnt the variance itself."""

    def __init__(self):
        super().__init__()
        self.log_variance = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, outputs, targets):
        return 0.5 * ((outputs[:, 0] - targets).square() / self.log_variance.exp() + self.log_variance)


def _noisy_loss(outputs, targets):
    return (outputs[:, 0] - targets + 0.1 * torch.randn_like(targets)).square()


def _kept_loss(seen: list[Any]) -> Callable[..., torch.Tensor]:
    def loss(outputs, targets):
        seen.append(outputs.detach())
        return 0.5 * (outputs[:, 0] - targets).square()

    return loss


def _ordinal() -> nn.Module:
    class Cumulative(nn.Module):
        def __init__(self):
            super().__init__()
            self.slope, self.cut = nn.Linear(4, 1, bias=False), nn.Parameter(torch.tensor([1.0, -1.0]))

        def forward(self, x):
            return self.slope(x) + self.cut

    model = made(Cumulative)

    def objective() -> torch.Tensor:
        p = model(table()[0]).sigmoid()
        p = torch.cat([torch.ones_like(p[:, :1]), p, torch.zeros_like(p[:, :1])], 1)
        return -(p[:, :-1] - p[:, 1:]).gather(1, classes()[:, None]).log().sum() + 0.5 * L2 * size(model)

    return settled(model, objective)


def _sigma() -> nn.Module:
    """Mean and standard deviation, the deviation by a softplus."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, x):
            mean, raw = self.inner(x).unbind(-1)
            return torch.stack([mean, functional.softplus(raw) + 0.05], -1)

    model = made(Two)

    def objective() -> torch.Tensor:
        mean, deviation = model(table()[0]).unbind(-1)
        return (deviation.log() + 0.5 * ((table()[1] - mean) / deviation).square()).sum() + 0.5 * L2 * size(model)

    return settled(model, objective)


def _times() -> torch.Tensor:
    return torch.stack([table()[1].exp() + 2.5, (classes() > 0).double()], 1)


def one_hot(kind: torch.dtype) -> torch.Tensor:
    return functional.one_hot(classes(), 3).to(kind)


REST = Warned("rest|penalty")
N = float(ROWS)

LOSSES = [
    Attack(
        "A mean was trained, and the loss object says a sum",
        lambda: stated(ridge(0.05 * N / 2), loss=nn.MSELoss(reduction="sum"), l2=0.05),
        REST,
    ),
    Attack(
        "A mean was trained, and the loss is stated by name without the mean",
        lambda: stated(ridge(0.05 * N / 2), loss="squared_error", l2=0.05),
        REST,
    ),
    Attack(
        "The ½ of the squared error is forgotten",
        lambda: stated(ridge(0.2 * N / 2), loss="squared_error", reduction="mean", l2=0.2),
        REST,
    ),
    Attack(
        "The function mse_loss is given for the loss",
        lambda: spread(ridge(0.2 * N / 2), loss=functional.mse_loss, l2=0.2),
        closed(0.2 * N / 2),
    ),
    Attack("Outputs (n, 1) were trained against targets (n,)", _broadcast, Warned("training fit|constant|rest")),
    Attack(
        "Targets are a column (n, 1)",
        lambda: spread(ridge(0.2 * N / 2), table()[1][:, None], loss=nn.MSELoss(), l2=0.2),
        closed(0.2 * N / 2),
    ),
    Attack(
        "The module returns (n,) and targets are a column (n, 1)",
        lambda: spread(
            nn.Sequential(ridge(0.2 * N / 2), nn.Flatten(0)), table()[1][:, None], loss=nn.MSELoss(), l2=0.2
        ),
        closed(0.2 * N / 2),
    ),
    Attack(
        "Targets are one row (1, n)",
        lambda: stated(ridge(7.0), table()[1][None], loss=nn.MSELoss()),
        Refused(RueError, "rows"),
    ),
    Attack(
        "Targets are whole numbers of another dtype",
        lambda: spread(_log_mean(), counts().to(torch.int16), loss="poisson", l2=L2),
        like(_log_mean_plain),
    ),
    Attack(
        "Targets are of float32 and the network of float64",
        lambda: spread(ridge(7.0), table()[1].float(), loss="squared_error", l2=7.0),
        like(lambda: spread(ridge(7.0), loss="squared_error", l2=7.0), 1e-5),
    ),
    Attack(
        "Targets are in another currency, a tenth higher",
        lambda: stated(ridge(7.0), 1.1 * table()[1], loss="squared_error", l2=7.0),
        Warned("rest"),
    ),
    Attack(
        "Targets are logarithms of base 2, and training had natural ones",
        lambda: stated(ridge(7.0), table()[1] / np.log(2), loss="squared_error", l2=7.0),
        Warned("rest"),
    ),
    Attack(
        "Targets are the negative ones",
        lambda: stated(ridge(7.0), -table()[1], loss="squared_error", l2=7.0),
        Warned("training fit|rest"),
    ),
    Attack(
        "Huber's loss is stated, and the squared error was trained",
        lambda: stated(ridge(7.0), loss=nn.HuberLoss(reduction="sum", delta=0.3), l2=7.0),
        Warned("rest|squared_error"),
    ),
    Attack(
        "Huber's corner is another",
        lambda: stated(_huber(0.2), loss=nn.HuberLoss(reduction="sum", delta=1.0), l2=L2),
        Warned("rest"),
    ),
    Attack(
        "SmoothL1Loss has a beta of zero",
        lambda: stated(ridge(7.0), loss=nn.SmoothL1Loss(beta=0.0)),
        Refused(RueError, "second derivative|beta|absolute"),
    ),
    Attack(
        "A loss object of torch is given that is not known here",
        lambda: stated(_softmax(), classes(), loss=nn.MultiMarginLoss()),
        Refused(RueError, "one value per example"),
    ),
    Attack(
        "BCELoss is given for a network that ends in a sigmoid",
        lambda: stated(nn.Sequential(_logit(), nn.Sigmoid()), yes(), loss=nn.BCELoss()),
        Refused(RueError, "target size"),
    ),
    Attack(
        "NLLLoss is given for a network that ends in a logarithm of the softmax",
        lambda: stated(nn.Sequential(_softmax(), nn.LogSoftmax(-1)), classes(), loss=nn.NLLLoss()),
        Refused(RueError, "one value per example"),
    ),
    Attack(
        "KLDivLoss is given",
        lambda: stated(_softmax(), one_hot(torch.float64), loss=nn.KLDivLoss(reduction="batchmean")),
        Refused(RueError, "one value per example"),
    ),
    Attack(
        "The loss is a partial function that sums",
        lambda: stated(ridge(7.0), loss=functools.partial(functional.mse_loss, reduction="sum")),
        Refused(RueError, "one value per example|partial"),
    ),
    Attack(
        "A callable loss is a log likelihood, to be maximised",
        lambda: stated(ridge(7.0), loss=lambda f, y: -0.5 * (f[:, 0] - y).square(), l2=7.0),
        Warned("downwards"),
    ),
    Attack(
        "A callable loss does not look at the targets",
        lambda: stated(ridge(7.0), loss=lambda f, y: 0.5 * (f[:, 0] - f.detach()[:, 0] - 0 * y).square(), l2=7.0),
        Warned("rest"),
    ),
    Attack(
        "A callable loss looks at the outputs alone",
        lambda: stated(ridge(7.0), loss=lambda f, _y: 0.5 * f[:, 0].square(), l2=7.0),
        Warned("training fit"),
    ),
    Attack(
        "A callable loss is random",
        lambda: stated(ridge(7.0), loss=_noisy_loss, l2=7.0),
        Refused(RueError, "the loss of a row changes"),
    ),
    Attack("A callable loss keeps what it sees", lambda: spread(ridge(7.0), loss=_kept_loss([]), l2=7.0), closed(7.0)),
    Attack(
        "The loss has learnt a parameter of its own",
        lambda: spread(ridge(7.0), loss=Learnt(), l2=7.0),
        closed(7.0),
    ),
    Attack(
        "A callable loss averages over two outputs",
        lambda: stated(
            trained(lambda f: 0.5 * (f - torch.stack([table()[1]] * 2, 1)).square().sum(), 2, 20.0),
            torch.stack([table()[1]] * 2, 1),
            loss=lambda f, y: 0.5 * (f - y).square().mean(-1),
            l2=20.0,
        ),
        Warned("rest|penalty"),
    ),
    Attack(
        "The squared error is stated for a classifier with one-hot targets",
        lambda: stated(_softmax(), one_hot(torch.float64), loss=nn.MSELoss()),
        Warned("training fit|rest|constant"),
    ),
    Attack(
        "Class weights were trained with, and are not stated",
        lambda: stated(_weighted(), classes(), loss=nn.CrossEntropyLoss(reduction="sum"), l2=L2),
        Warned("rest|training fit"),
    ),
    Attack(
        "Class weights are stated, and were not trained with",
        lambda: stated(
            _softmax(),
            classes(),
            loss=nn.CrossEntropyLoss(torch.tensor([1.0, 1.0, 8.0], dtype=torch.float64), reduction="sum"),
            l2=L2,
        ),
        Warned("rest|training fit"),
    ),
    Attack(
        "Class weights are for fewer classes than there are",
        lambda: stated(_softmax(), classes(), loss=nn.CrossEntropyLoss(torch.ones(2, dtype=torch.float64))),
        Refused(RueError, "weight"),
    ),
    Attack(
        "A class weight is negative",
        lambda: stated(
            _softmax(), classes(), loss=nn.CrossEntropyLoss(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))
        ),
        Refused(RueError, "weight"),
    ),
    Attack(
        "Class weights are of float32 and the network of float64",
        lambda: spread(_softmax(), classes(), loss=nn.CrossEntropyLoss(torch.ones(3), reduction="sum"), l2=L2),
        like(_softmax_plain),
    ),
    Attack(
        "Labels were smoothed in training, and it is not stated",
        lambda: stated(_smoothed(), classes(), loss=nn.CrossEntropyLoss(reduction="sum"), l2=L2),
        Warned("rest"),
    ),
    Attack(
        "The weight of positives was trained with, and is not stated",
        lambda: stated(_logit(6.0), yes(), loss=nn.BCEWithLogitsLoss(reduction="sum"), l2=L2),
        Warned("rest|training fit"),
    ),
    Attack(
        "Weights of positives are for more outputs than there are",
        lambda: stated(_logit(), yes(), loss=nn.BCEWithLogitsLoss(pos_weight=torch.ones(3, dtype=torch.float64))),
        Refused(RueError, "pos_weight"),
    ),
    Attack(
        "Labels are one-hot floats",
        lambda: spread(_softmax(), one_hot(torch.float64), loss="cross_entropy", l2=L2),
        like(_softmax_plain),
    ),
    Attack(
        "Labels are one-hot whole numbers",
        lambda: spread(_softmax(), one_hot(torch.int64), loss="cross_entropy", l2=L2),
        like(_softmax_plain),
    ),
    Attack(
        "Labels are several for a row, and the loss is of one class",
        lambda: stated(
            _softmax(),
            torch.cat([one_hot(torch.float64)[:, :2], torch.ones(ROWS, 1, dtype=torch.float64)], 1),
            loss=nn.CrossEntropyLoss(),
        ),
        Refused(RueError, "sum|probabilit"),
    ),
    Attack(
        "Labels are floats that are whole",
        lambda: spread(_softmax(), classes().double(), loss="cross_entropy", l2=L2),
        like(_softmax_plain),
    ),
    Attack(
        "Labels are a column (n, 1)",
        lambda: spread(_softmax(), classes()[:, None], loss="cross_entropy", l2=L2),
        like(_softmax_plain),
    ),
    Attack(
        "Labels are bytes",
        lambda: spread(_softmax(), classes().byte(), loss="cross_entropy", l2=L2),
        like(_softmax_plain),
    ),
    Attack(
        "Yes and no are booleans", lambda: spread(_logit(), yes().bool(), loss="bernoulli", l2=L2), like(_logit_plain)
    ),
    Attack(
        "Yes and no are +1 and -1",
        lambda: stated(_logit(), 2 * yes() - 1, loss="bernoulli"),
        Refused(RueError, "targets"),
    ),
    Attack(
        "Yes and no are 1 and 2",
        lambda: stated(_logit(), yes() + 1, loss=nn.BCEWithLogitsLoss()),
        Refused(RueError, "targets"),
    ),
    Attack(
        "Yes and no are confused",
        lambda: stated(_logit(), 1 - yes(), loss="bernoulli", l2=L2),
        Warned("training fit|rest"),
    ),
    Attack(
        "Cross entropy is stated for one logit",
        lambda: stated(_logit(), yes().long(), loss=nn.CrossEntropyLoss()),
        Refused(RueError, "logit|class|output"),
    ),
    Attack(
        "Ordered classes are counted from one",
        lambda: stated(_ordinal(), classes() + 1, loss="ordinal"),
        Refused(RueError, "targets"),
    ),
    Attack(
        "Cross entropy is stated for the cumulative logits of ordered classes",
        lambda: stated(_ordinal(), classes(), loss="cross_entropy"),
        Refused(RueError, "targets"),
    ),
    Attack(
        "Counts are standardised",
        lambda: stated(_log_mean(), (counts() - counts().mean()) / counts().std(), loss="poisson"),
        Refused(RueError, "targets"),
    ),
    Attack(
        "The squared error is stated for a network of log means",
        lambda: stated(_log_mean(), counts(), loss="squared_error", l2=L2),
        Warned("training fit|rest|constant"),
    ),
    Attack(
        "Poisson's loss is stated for a network that was trained by squared error on counts",
        lambda: stated(ridge(7.0, y=counts().numpy()), counts(), loss="poisson", l2=7.0),
        Refused(RueError, "means"),
    ),
    Attack(
        "PoissonNLLLoss adds Stirling's term",
        lambda: spread(_log_mean(), counts(), loss=nn.PoissonNLLLoss(full=True, reduction="sum"), l2=L2),
        like(_log_mean_plain),
    ),
    Attack(
        "A network of mean and standard deviation is stated as one of mean and log variance",
        lambda: stated(_sigma(), loss="gaussian_nll", l2=L2),
        Refused(RueError, "variance"),
    ),
    Attack(
        "A network of mean and log variance is stated by GaussianNLLLoss",
        lambda: stated(made(lambda: nn.Linear(4, 2)), loss=nn.GaussianNLLLoss()),
        Warned("training fit"),
    ),
    Attack(
        "Event and time are confused",
        lambda: stated(ridge(7.0), _times().flip(1), loss="cox"),
        Refused(RueError, "event"),
    ),
]


# ------------------------------------------------------------------------------------------ optimizers, penalties


def sgd(model: nn.Module, **groups: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, **groups)


def _optimized(
    build: Callable[[nn.Module], torch.optim.Optimizer], c: Any, free: tuple[bool, bool] = (False, False), **told: Any
) -> rue.Audit:
    model = ridge(c * N / 2, free)
    return spread(model, loss=nn.MSELoss(), optimizer=build(model), **told)


def _bias_free(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": [model.weight], "weight_decay": 0.2}, {"params": [model.bias]}], lr=0.1)


def _decay_off() -> rue.Audit:
    model = ridge(0.2 * N / 2)
    optimizer = sgd(model, weight_decay=0.2)
    optimizer.param_groups[0]["weight_decay"] = 0.0
    return stated(model, loss=nn.MSELoss(), optimizer=optimizer)


def _head_only() -> rue.Audit:
    model = net()
    return spread(
        model, loss="squared_error", optimizer=torch.optim.SGD(model[2].parameters(), lr=0.1, weight_decay=L2)
    )


def _head(audit: rue.Audit) -> None:
    X, y, new = table()
    A, B = (np.c_[net()[:2](rows).detach().numpy(), np.ones(len(rows))] for rows in (X, new))
    theta = np.r_[net()[2].weight.detach().numpy()[0], net()[2].bias.detach().numpy()]
    assert audit.facts["d"] == 6
    np.testing.assert_allclose(audit.std, sandwich(A, A @ theta - y.numpy(), B), rtol=1e-5)


def _through(how: Callable[[nn.Module], nn.Module]) -> rue.Audit:
    model = ridge(0.2 * N / 2)
    outer = how(model)
    return spread(outer, loss=nn.MSELoss(), optimizer=torch.optim.SGD(outer.parameters(), lr=0.1, weight_decay=0.2))


START = np.array([1.0, -1.0, 1.0, -1.0, 1.0])


def _squares(factor: float) -> Callable[[dict[str, torch.Tensor]], torch.Tensor]:
    return lambda named: 0.5 * factor * sum(p.square().sum() for p in named.values())


OPTIMIZERS = [
    Attack(
        "SGD decays all parameters under a mean loss",
        lambda: _optimized(lambda m: sgd(m, weight_decay=0.2), 0.2),
        closed(0.2 * N / 2),
    ),
    Attack(
        "SGD decays the weight and not the bias",
        lambda: _optimized(_bias_free, 0.2, (False, True)),
        closed([0.2 * N / 2] * 4 + [0.0]),
    ),
    Attack("SGD's decay was set to zero after training", _decay_off, Warned("rest|penalty")),
    Attack(
        "The optimizer trained the last layer alone, and nothing is frozen",
        _head_only,
        Right("a ridge regression on the hidden values", _head),
    ),
    Attack(
        "The last layer alone is selected",
        lambda: spread(net(), loss="squared_error", l2=L2, select="2.*"),
        Right("a ridge regression on the hidden values", _head),
    ),
    Attack(
        "The optimizer belongs to a compiled module",
        lambda: _through(lambda m: torch.compile(m, backend="eager")),
        closed(0.2 * N / 2),
    ),
    Attack("The optimizer belongs to a parallel module", lambda: _through(nn.DataParallel), closed(0.2 * N / 2)),
    Attack(
        "AdamW's decay is stated as l2", lambda: stated(ridge(0.0), loss=nn.MSELoss(), l2=0.5), Warned("rest|penalty")
    ),
    Attack(
        "A running mean of batch norm is selected",
        lambda: spread(_batch_norm()[0], loss="squared_error", select="1.running_mean"),
        Refused(RueError, "no parameter"),
    ),
    Attack(
        "A layer is selected without a star",
        lambda: spread(net(), loss="squared_error", select="2"),
        Refused(RueError, "no parameter"),
    ),
    Attack(
        "A list is selected with one name that does not exist",
        lambda: spread(net(), loss="squared_error", l2=L2, select=["2.*", "3.*"]),
        Refused(RueError, "3"),
    ),
    Attack(
        "l2 is a tensor of one number",
        lambda: spread(ridge(7.0), loss="squared_error", l2=torch.tensor(7.0)),
        Refused(RueError, "l2 must be"),
    ),
    Attack("l2 is a word", lambda: spread(ridge(7.0), loss="squared_error", l2="7.0"), Refused(RueError, "l2")),
    Attack("l2 is a truth value", lambda: spread(ridge(1.0), loss="squared_error", l2=True), Refused(RueError, "l2")),
    Attack(
        "l2 is stated for the weights and trained for the bias as well",
        lambda: stated(
            ridge(60.0, y=table()[1].numpy() + 3), table()[1] + 3, loss="squared_error", l2={"weight": 60.0}
        ),
        Warned("rest|penalty"),
    ),
    Attack(
        "The penalty is stated twice, as l2 and as a callable",
        lambda: stated(ridge(7.0), loss="squared_error", l2=7.0, penalty=_squares(7.0)),
        Warned("rest|penalty"),
    ),
    Attack(
        "The penalty is stated as a callable and by the optimizer's decay",
        lambda: stated(
            m := ridge(0.2 * N / 2), loss=nn.MSELoss(), optimizer=sgd(m, weight_decay=0.2), penalty=_squares(0.2)
        ),
        Warned("rest|penalty"),
    ),
    Attack(
        "The penalty is a callable, right beside a mean",
        lambda: spread(ridge(0.2 * N / 2), loss=nn.MSELoss(), penalty=_squares(0.2)),
        closed(0.2 * N / 2),
    ),
    Attack(
        "The penalty is a callable without its ½",
        lambda: stated(ridge(7.0), loss="squared_error", penalty=_squares(14.0)),
        Warned("rest|penalty"),
    ),
    Attack(
        "The penalty is negative",
        lambda: stated(ridge(7.0), loss="squared_error", penalty=_squares(-7.0)),
        Warned("rest|penalty"),
    ),
    Attack(
        "The penalty returns a Python number",
        lambda: stated(ridge(7.0), loss="squared_error", penalty=lambda _named: 3.0),
        Warned("penalty"),
    ),
    Attack(
        "The penalty is a random one",
        lambda: stated(
            ridge(7.0),
            loss="squared_error",
            penalty=lambda named: torch.rand((), dtype=torch.float64) * named["weight"].square().sum(),
        ),
        Warned("penalty"),
    ),
    Attack(
        "A centre is stated, and training was pulled to zero",
        lambda: stated(ridge(20.0), loss="squared_error", l2=20.0, centre=linear(START)),
        Warned("rest|penalty|centre"),
    ),
    Attack(
        "Training was pulled to a centre, which is not stated",
        lambda: stated(ridge(20.0, centre=START), loss="squared_error", l2=20.0),
        Right(
            "refits with the centre, and the chance of a target to lie in its interval", lambda audit: _unpulled(audit)
        ),
    ),
    Attack(
        "The centre is of float32",
        lambda: spread(ridge(20.0, centre=START), loss="squared_error", l2=20.0, centre=linear(START).float()),
        said("the predictions, and ridge regression in closed form", lambda audit: _centred(audit)),
    ),
    Attack(
        "Validation rows are the training rows of a network",
        lambda: stated(net(), loss="squared_error", l2=L2, validation=table()[:2]),
        Refused(RueError, "training row"),
    ),
]


def _centred(audit: rue.Audit) -> bool:
    X, y, new = (part.numpy() for part in table())
    A, B = np.c_[X, np.ones(ROWS)], np.c_[new, np.ones(NEW)]
    theta = np.linalg.solve(A.T @ A + 20 * np.eye(5), A.T @ y + 20 * START)
    return np.allclose(audit.std, sandwich(A, A @ theta - y, B, 20.0), rtol=1e-5)


def _unpulled(audit: rue.Audit) -> None:
    """Any gradient is a pull to some centre: none can be warned of. The audit holds, because it is of the tangent.

    The targets' law is that of `table`, so that coverage at each row is a difference of normal probabilities.
    """
    X, y, new = (part.numpy() for part in table())
    A, B = np.c_[X, np.ones(ROWS)], np.c_[new, np.ones(NEW)]
    source, refits = np.random.default_rng(0), []
    for _ in range(400):
        often = np.bincount(source.integers(ROWS, size=ROWS), minlength=ROWS)
        H = A.T @ (often[:, None] * A) + 20 * np.eye(5)
        refits.append(B @ np.linalg.solve(H, A.T @ (often * y) + 20 * START))
    ratio = audit.std / np.std(refits, axis=0)
    assert 0.75 < ratio.min() < ratio.max() < 1.25, ratio
    mean, noise = np.sin(new[:, 0]) + new[:, 1] - 0.5 * new[:, 2], 0.4 * np.exp(0.5 * new[:, 3])
    low, high, _ = audit.interval(0.9)
    covered = norm.cdf((high - mean) / noise) - norm.cdf((low - mean) / noise)
    assert 0.8 < covered.mean() < 0.98, covered


# ------------------------------------------------------------------------------------------ loaders and datasets


def rows() -> TensorDataset:
    return TensorDataset(*table()[:2])


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@cache
def first(count: int) -> rue.Audit:
    X, y, new = table()
    return audited(net(), X[:count], y[:count], new)


class Blurred(Dataset):
    """A row in ten is disturbed at random."""

    def __len__(self):
        return ROWS

    def __getitem__(self, i):
        X, y, _ = table()
        noise = np.random.default_rng()
        return X[i] + (noise.random() < 0.1) * 0.3 * noise.normal(), y[i]


class Aged(Dataset):
    """Every reading adds to what has been read before."""

    def __init__(self):
        self.reads = 0

    def __len__(self):
        return ROWS

    def __getitem__(self, i):
        self.reads += 1
        X, y, _ = table()
        return X[i] + (0.5 if self.reads > 2 * ROWS else 0.0), y[i]


class Stream(IterableDataset):
    """Rows one after another, a few or without an end."""

    def __init__(self, end: bool):
        self.end = end

    def __iter__(self) -> Iterator[Any]:
        X, y, _ = table()
        for i in range(ROWS if self.end else 20_000):
            yield X[i % ROWS], y[i % ROWS]
        assert self.end, "nobody stopped reading"


class Forever(Sampler):
    """A sampler that is meant to be stopped by the training loop."""

    def __iter__(self) -> Iterator[int]:
        for i in range(300_000):
            yield i % ROWS
        raise AssertionError("nobody stopped drawing")


class Parts(Dataset):
    """Numbers of NumPy and of Python."""

    def __len__(self):
        return ROWS

    def __getitem__(self, i):
        X, y, _ = table()
        return X[i].numpy(), float(y[i])


BUFFER = torch.zeros(32, 4, dtype=torch.float64)


def _into_one_buffer(batch: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    for place, (x, _) in enumerate(batch):
        BUFFER[place] = x
    return BUFFER[: len(batch)], torch.stack([y for _, y in batch])


def _sorted_alone(batch: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows are sorted, their targets are not."""
    X = torch.stack([x for x, _ in batch])
    return X[X[:, 1].argsort()], torch.stack([y for _, y in batch])


def _sorted_both(batch: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    X, y = torch.stack([x for x, _ in batch]), torch.stack([y for _, y in batch])
    order = X[:, 1].argsort()
    return X[order], y[order]


def _by_batch(batch: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.stack([x for x, _ in batch])
    return (X - X.mean(0)) / X.std(0), torch.stack([y for _, y in batch])


def _drawn() -> list[int]:
    """Row numbers with replacement, some rows more often."""
    return np.random.default_rng(0).choice(ROWS, size=ROWS, p=np.arange(1, ROWS + 1) / (ROWS * (ROWS + 1) / 2)).tolist()


def _counted(audit: rue.Audit) -> None:
    """A row that was drawn c times counts c times, as one unit."""
    often = np.bincount(_drawn(), minlength=ROWS)
    X, y, new = table()
    fitted, A = slopes(net(), X)
    _, B = slopes(net(), new)
    kept = often > 0
    wanted = sandwich(A[kept], (fitted - y.numpy())[kept], B, L2, often[kept].astype(float))
    np.testing.assert_allclose(audit.std, wanted, rtol=1e-5)


def _audited_loader(**told: Any) -> rue.Audit:
    X, y, new = table()
    auditor = rue.LinearRUE().fit(rue.wrap(net(), loss="squared_error", l2=L2), (X, y))
    return auditor.audit(DataLoader(TensorDataset(new, torch.zeros(NEW, dtype=torch.float64)), batch_size=4, **told))


def _named(order: tuple[str, ...], drop: str | None = None, add: bool = False) -> rue.Audit:
    model, (lab, vital), y, (new_lab, new_vital) = _pair()
    new = {"lab": new_lab, "vital": new_vital}
    new = {key: new[key] for key in order if key != drop}
    if add:
        new["age"] = new_vital
    return audited(model, {"lab": lab, "vital": vital}, y, new)


def _token_audit(change: Callable[[torch.Tensor], Any]) -> rue.Audit:
    X, y, new = texts()
    return audited(_texts_net(), X, y, change(new))


@cache
def _texts_net() -> nn.Module:
    return on(texts, Padded)()[0]


def _one_bad(value: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tokens: torch.Tensor) -> torch.Tensor:
        tokens = tokens.clone()
        tokens[2, 0] = value
        return tokens

    return change


@cache
def _texts_plain() -> rue.Audit:
    return audited(_texts_net(), *texts())


LOADERS = [
    Attack("A loader shuffles", lambda: read(net(), DataLoader(rows(), 32, shuffle=True, generator=seeded())), PLAIN),
    Attack(
        "A loader drops its last batch",
        lambda: read(net(), DataLoader(rows(), 32, drop_last=True)),
        like(lambda: first(128), by="the audit of the rows that are read"),
    ),
    Attack(
        "A loader reads a subset",
        lambda: read(net(), DataLoader(rows(), 32, sampler=SubsetRandomSampler(range(90), generator=seeded()))),
        like(lambda: first(90), by="the audit of these rows"),
    ),
    Attack(
        "A loader draws rows with replacement",
        lambda: read(net(), DataLoader(rows(), 32, sampler=_drawn())),
        Right("rows counted as often as drawn, by hand", _counted),
    ),
    Attack(
        "A loader draws rows with replacement, otherwise on every pass",
        lambda: read(
            net(),
            DataLoader(rows(), 32, sampler=WeightedRandomSampler(torch.arange(1.0, ROWS + 1), 50, generator=seeded())),
        ),
        said(
            "finite numbers of at most 50 rows",
            lambda audit: np.isfinite(audit.std).all() and audit.facts["units"] <= 50,
        ),
    ),
    Attack("A loader has workers", lambda: read(net(), DataLoader(rows(), 32, num_workers=1)), PLAIN),
    Attack(
        "A loader gives one row at a time",
        lambda: read(net(), DataLoader(TensorDataset(*(part[:60] for part in table()[:2])), 1)),
        like(lambda: first(60)),
    ),
    Attack(
        "A loader gives rows without an axis of rows",
        lambda: read(net(), DataLoader(rows(), batch_size=None)),
        Refused(RueError, "rows|scalar|batch"),
    ),
    Attack(
        "A loader collates into one and the same memory",
        lambda: read(net(), DataLoader(rows(), 32, collate_fn=_into_one_buffer)),
        PLAIN,
    ),
    Attack(
        "A loader sorts the rows of a batch and not their targets",
        lambda: read(net(), DataLoader(rows(), 32, collate_fn=_sorted_alone)),
        Warned("training fit|rest"),
    ),
    Attack(
        "A loader sorts the rows of a batch and their targets",
        lambda: read(net(), DataLoader(rows(), 32, collate_fn=_sorted_both)),
        PLAIN,
    ),
    Attack(
        "A loader standardises each batch by itself",
        lambda: read(net(), DataLoader(rows(), 8, shuffle=True, collate_fn=_by_batch, generator=seeded())),
        Warned("training fit|rest"),
    ),
    Attack(
        "A loader reads a stream that ends",
        lambda: read(net(), DataLoader(Stream(True), 32)),
        PLAIN,
    ),
    Attack(
        "A loader reads a stream without an end",
        lambda: read(net(), DataLoader(Stream(False), 32)),
        Refused(RueError, "length|Dataset"),
    ),
    Attack(
        "A loader has a sampler without an end",
        lambda: read(net(), DataLoader(rows(), 32, sampler=Forever())),
        Refused(RueError, "sampler|rows|length"),
    ),
    Attack(
        "A dataset disturbs a row in ten at random",
        lambda: read(net(), Blurred()),
        Refused(RueError, "two passes|differ|not what they were"),
    ),
    Attack(
        "A dataset changes after it was read twice",
        lambda: read(net(), Aged()),
        Warned("rest"),
    ),
    Attack("A dataset gives arrays and Python numbers", lambda: read(net(), Parts()), PLAIN),
    Attack(
        "A generator of batches is given for a loader",
        lambda: read(net(), (batch for batch in DataLoader(rows(), 32, generator=seeded()))),
        Refused(RueError, "training data must be"),
    ),
    Attack(
        "A list of two batches is given for a loader",
        lambda: read(net(), [tuple(part[:70] for part in table()[:2]), tuple(part[70:] for part in table()[:2])]),
        Refused(RueError, "."),
    ),
    Attack(
        "A list of three batches is given for a loader",
        lambda: read(net(), list(DataLoader(rows(), 60, generator=seeded()))),
        Refused(RueError, "training data must be"),
    ),
    Attack("Rows and targets are confused", lambda: read(net(), table()[1::-1]), Refused(RueError, ".")),
    Attack(
        "Rows are a list of one tensor for each row",
        lambda: read(net(), (list(table()[0]), table()[1])),
        Refused(RueError, "."),
    ),
    Attack(
        "Rows to audit come from a loader that shuffles",
        lambda: _audited_loader(shuffle=True, generator=seeded()),
        PLAIN,
    ),
    Attack("Rows to audit come from a loader with targets", lambda: _audited_loader(), PLAIN),
    Attack(
        "Rows to audit come from a loader that drops its last batch",
        lambda: _audited_loader(drop_last=True),
        Refused(RueError, "drop"),
    ),
    Attack("Inputs by name stand in another order", lambda: _named(("vital", "lab")), by_hand(cache(_pair))),
    Attack("An input by name is missing", lambda: _named(("lab", "vital"), drop="vital"), Refused(RueError, "vital")),
    Attack("An input by name is one too many", lambda: _named(("lab", "vital"), add=True), Refused(RueError, "age")),
    Attack(
        "A token is beyond the vocabulary", lambda: _token_audit(_one_bad(8)), Refused(RueError, "could not take|range")
    ),
    Attack("A token is negative", lambda: _token_audit(_one_bad(-1)), Refused(RueError, "could not take|range")),
    Attack(
        "Tokens are floats", lambda: _token_audit(lambda tokens: tokens.double()), Refused(RueError, "could not take")
    ),
    Attack(
        "Tokens stand in a data frame",
        lambda: _token_audit(lambda tokens: pd.DataFrame(tokens.numpy())),
        Refused(RueError, "integer|could not take"),
    ),
    Attack("Tokens are of int32", lambda: _token_audit(lambda tokens: tokens.int()), like(_texts_plain)),
    Attack(
        "New texts are padded to another length",
        lambda: _token_audit(lambda tokens: functional.pad(tokens, (0, 3))),
        like(_texts_plain),
    ),
]


SECTIONS = {
    "Independent trial: networks of all kinds": KINDS,
    "Independent trial: state, hooks and copies of networks": STATE,
    "Independent trial: contexts and tensors": CONTEXTS,
    "Independent trial: losses and targets": LOSSES,
    "Independent trial: optimizers and penalties": OPTIMIZERS,
    "Independent trial: loaders, datasets and tokens": LOADERS,
}
