"""Mistakes in calls of the public names, each with the error it gets.

Every entry makes its own module and leaves the global random state alone, so that whatever changes was changed by
`rue`.
"""

import contextlib
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import rue
from attacks.attack import refused
from rue import datasets
from rue.calibrate.leaving_one_out import compare_with_refits, leave_one_out
from rue.calibrate.penalty import choose_penalty
from rue.calibrate.tempering import temperature
from rue.core.curvature import GaussNewton, Hessian
from rue.core.errors import (
    DataError,
    DeviceError,
    InputError,
    ModelError,
    NotConvergedError,
    NotPositiveDefiniteError,
    NumericalError,
    RueError,
    SettingError,
    ShapeError,
)
from rue.core.resample import Poisson
from rue.core.solve import Cholesky, ConjugateGradient, Dual, Eigen, Fixed, MeanFraction, NoDamping, SmallestEigenvalue
from rue.methods.integrated import Adam, DeepEnsemble, MCDropout, RefitBootstrap

_generator = torch.Generator().manual_seed(0)
X = torch.randn(20, 3, generator=_generator, dtype=torch.float64)
y = X[:, 0].sin() + 0.1 * torch.randn(20, generator=_generator, dtype=torch.float64)
X_new = torch.randn(5, 3, generator=_generator, dtype=torch.float64)
labels = (y > 0).long()


# Modules


def made(build: Callable[[], nn.Module]) -> nn.Module:
    """A module in float64 and in eval mode, always the same, without a trace in the global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build().double().eval()


def linear(outputs: int = 1) -> nn.Module:
    return made(lambda: nn.Linear(3, outputs))


def layers(*middle: nn.Module) -> nn.Module:
    return made(lambda: nn.Sequential(nn.Linear(3, 3), *middle, nn.Tanh(), nn.Linear(3, 1)))


class Own:
    """A model of the user's own, known by its predictions."""

    def predict(self, table: Any) -> Any:
        return table[:, 0]


class Rounded(nn.Module):
    """A step between two layers."""

    def __init__(self, step: Callable[[torch.Tensor], torch.Tensor]):
        super().__init__()
        self.first, self.step, self.last = nn.Linear(3, 3), step, nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.step(self.first(x)))


class Through(nn.Module):
    """A linear layer, used in an unusual way."""

    def __init__(self, forward: Callable[..., Any]):
        super().__init__()
        self.inner, self.how = nn.Linear(3, 1), forward

    def forward(self, x):
        return self.how(self.inner, x)


def through(forward: Callable[..., Any]) -> nn.Module:
    return made(lambda: Through(forward))


class Sequence(nn.Module):
    """A row as a sequence of one, through a layer that returns a tuple."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(3, 1)

    def forward(self, x):
        x = x[:, None]
        found = self.layer(x) if isinstance(self.layer, nn.LSTM) else self.layer(x, x, x)
        return self.head(found[0][:, 0])


class Root(nn.Module):
    """Has no derivative at an input of zeros."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return (self.scale * x.abs()).sum(-1).sqrt()


def changed(module: nn.Module, change: Callable[[nn.Module], Any]) -> nn.Module:
    with torch.no_grad():
        change(module)
    return module


def on_two_devices() -> nn.Module:
    return changed(layers(), lambda net: net[2].to("meta"))


# Steps


def wrap(net: nn.Module | None = None, **settings: Any) -> rue.Model:
    return rue.wrap(linear() if net is None else net, **{"loss": "squared_error", "l2": 0.1, **settings})


def fit(net: nn.Module | None = None, data: Any = (X, y), method: Any = None, **settings: Any) -> rue.Auditor:
    return (rue.LinearRUE() if method is None else method).fit(wrap(net, **settings), data)


def audit(net: nn.Module | None = None, method: Any = None, **settings: Any) -> rue.Audit:
    return fit(net, method=method, **settings).audit(X_new)


def trained_by(optimizer: Callable[[nn.Module], Any], **settings: Any) -> rue.Model:
    net = linear()
    return rue.wrap(net, **{"loss": nn.MSELoss(), "optimizer": optimizer(net), **settings})


class Elsewhere(torch.optim.Optimizer):
    """An optimizer that is not torch's."""


def squared(outputs, targets):
    return (outputs[:, 0] - targets) ** 2


def cross_entropy(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def infinite_for_the_last_row(outputs, targets):
    return torch.where(targets == y[-1], float("inf"), 1.0) * squared(outputs, targets)


def with_value(values: torch.Tensor, value: float) -> torch.Tensor:
    values = values.clone()
    values.view(-1)[4] = value
    return values


class Augmented(Dataset):
    """Noise on every row, anew on every pass."""

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return X[i] + torch.randn(3, dtype=torch.float64), y[i]


class Batches(Dataset):
    """Four rows at a time."""

    def __len__(self):
        return 5

    def __getitem__(self, i):
        return X[4 * i : 4 * i + 4], y[4 * i : 4 * i + 4]


class Endless(Dataset):
    def __getitem__(self, i):
        return X[i % 20], y[i % 20]


def loader(*parts: Any, **settings: Any) -> DataLoader:
    return DataLoader(TensorDataset(*parts), **{"batch_size": 4, **settings})


def keyed_loader() -> DataLoader:
    return DataLoader([{"x": a, "y": b} for a, b in zip(X, y, strict=True)], batch_size=4)


def text_frame() -> pd.DataFrame:
    return pd.DataFrame({"age": X[:, 0], "dose": X[:, 1], "sex": ["f", "m"] * 10})


NAN, INF = float("nan"), float("inf")

LOSSES = [
    refused(
        "No loss is said",
        lambda: rue.wrap(linear()),
        ModelError,
        r'does not know the loss.*loss="squared_error".*\(outputs, targets\).*one value per example',
    ),
    refused(
        "The loss has an unknown name",
        lambda: wrap(loss="mse"),
        ModelError,
        r"unknown loss 'mse'; known: .*squared_error, or give a callable; you may mean 'squared_error'",
    ),
    refused(
        "The loss is a class and not an object of it",
        lambda: fit(loss=nn.MSELoss),
        ModelError,
        r"the class MSELoss; give an object: MSELoss\(\)",
    ),
    refused(
        "The loss averages and the reduction is a sum",
        lambda: wrap(loss=nn.MSELoss(), reduction="sum"),
        SettingError,
        r'MSELoss\(reduction="mean"\), and reduction="sum" is given too; leave reduction out',
    ),
    refused(
        "The loss is torch.nn.L1Loss()",
        lambda: wrap(loss=nn.L1Loss()),
        ModelError,
        r'no second derivative; the nearest loss that has one is loss="huber"',
    ),
    refused(
        "PoissonNLLLoss takes the mean itself",
        lambda: wrap(loss=nn.PoissonNLLLoss(log_input=False)),
        ModelError,
        r"log_input=False.*let the module return the logarithm.*or give a callable",
    ),
    refused(
        "BCEWithLogitsLoss has a weight",
        lambda: wrap(loss=nn.BCEWithLogitsLoss(weight=torch.ones(20))),
        ModelError,
        r"has a weight.*rue.Data\(X, y, weight=...\).*pos_weight, or a callable",
    ),
    refused(
        "GaussianNLLLoss meets one output",
        lambda: fit(loss=nn.GaussianNLLLoss()),
        ShapeError,
        r"two outputs \(n, 2\), the mean and the variance, got 1.*torch.stack",
    ),
    refused(
        "CrossEntropyLoss ignores some rows",
        lambda: fit(linear(2), (X, torch.where(y > 0.5, -100, labels)), loss=nn.CrossEntropyLoss()),
        DataError,
        r"of 20 targets are -100, which CrossEntropyLoss\(ignore_index=-100\) leaves out.*leave these rows out",
    ),
    refused("The loss is a number", lambda: wrap(loss=0.5), ModelError, r"a name or a callable, got float"),
    refused(
        "A callable loss averages over the rows",
        lambda: fit(loss=lambda outputs, targets: squared(outputs, targets).mean()),
        ShapeError,
        r'loss returned \(\), expected one value per example \(20,\); use reduction="none"',
    ),
    refused(
        "A callable loss keeps the axis of outputs",
        lambda: fit(data=(X, y[:, None]), loss=lambda outputs, targets: (outputs - targets) ** 2),
        ShapeError,
        r"loss returned \(20, 1\), expected one value per example \(20,\).*sum over outputs",
    ),
    refused(
        "A callable loss broadcasts every row against every other",
        lambda: fit(loss=lambda outputs, targets: (outputs - targets) ** 2),
        ShapeError,
        r"loss returned \(20, 20\), expected one value per example \(20,\).*give targets the shape",
    ),
    refused(
        "A callable loss broadcasts every row against every other and sums that away",
        lambda: fit(loss=lambda outputs, targets: ((outputs - targets) ** 2).sum(-1)),
        InputError,
        r"(?i)loss.*(beside|alone|batch|broadcast)",
    ),
    refused(
        "A callable loss divides by the size of the batch",
        lambda: fit(loss=lambda outputs, targets: squared(outputs, targets) / len(targets)),
        InputError,
        r"(?i)loss.*(beside|alone|batch|broadcast)",
    ),
    refused(
        "The loss is NaN for some rows",
        lambda: fit(loss=lambda outputs, targets: (outputs[:, 0] - targets).log()),
        ModelError,
        r"loss of \d+ of 20 examples is not finite; check outputs and targets",
    ),
    refused(
        "The loss is infinite for one row of the last batch",
        lambda: fit(data=loader(X, y), loss=infinite_for_the_last_row),
        RueError,
        r"(?i)loss.*(not finite|NaN|infinite)",
    ),
    refused(
        "The loss returns an array",
        lambda: fit(loss=lambda outputs, targets: squared(outputs, targets).detach().numpy()),
        ShapeError,
        r"loss returned ndarray, expected a tensor of one value per example",
    ),
    refused(
        "The loss cuts the outputs off from the parameters",
        lambda: fit(loss=lambda outputs, targets: squared(outputs.detach(), targets)),
        RueError,
        r"(?i)loss.*(depend|gradient|derivative|detach)",
    ),
    refused(
        "The loss wants class labels and the targets are floats",
        lambda: fit(linear(2), (X, y), loss=cross_entropy),
        InputError,
        r"(?i)loss.*(float64|double)",
    ),
    refused(
        "The loss takes one argument",
        lambda: fit(loss=lambda outputs: outputs[:, 0]),
        InputError,
        r"(?i)loss.*argument",
    ),
]

MODULES = [
    refused("A function is wrapped", lambda: wrap(lambda x: x), ModelError, r"cannot wrap function.*torch.nn.Module"),
    refused(
        "A module's class is wrapped",
        lambda: rue.wrap(nn.Linear, loss="squared_error"),
        ModelError,
        r"cannot wrap type.*torch.nn.Module",
    ),
    refused(
        "A state dict is wrapped",
        lambda: wrap(linear().state_dict()),
        ModelError,
        r"cannot wrap OrderedDict.*torch.nn.Module",
    ),
    refused(
        "The module has no parameters",
        lambda: wrap(made(nn.Identity)),
        ModelError,
        r"no parameters; there is nothing that training data could have moved",
    ),
    refused(
        "The module is lazy and has never been run",
        lambda: wrap(made(lambda: nn.LazyLinear(1))),
        ModelError,
        r"'weight' is not initialised yet; run the module once, train it",
    ),
    refused(
        "Dropout is in training mode",
        lambda: fit(layers(nn.Dropout(0.2)).train()),
        ModelError,
        r"layer '1' \(Dropout\) is in training mode.*call net.eval\(\)",
    ),
    refused(
        "Batch norm is in training mode",
        lambda: fit(layers(nn.BatchNorm1d(3)).train()),
        ModelError,
        r"layer '1' \(BatchNorm1d\) is in training mode.*call net.eval\(\)",
    ),
    refused(
        "Attention with dropout is in training mode",
        lambda: fit(made(lambda: Sequence(nn.MultiheadAttention(3, 1, dropout=0.2, batch_first=True))).train()),
        ModelError,
        r"layer 'layer' \(MultiheadAttention\) is in training mode.*call net.eval\(\)",
    ),
    refused(
        "An LSTM with dropout is in training mode",
        lambda: fit(made(lambda: Sequence(nn.LSTM(3, 3, 2, dropout=0.2, batch_first=True))).train()),
        ModelError,
        r"layer 'layer' \(LSTM\) is in training mode.*call net.eval\(\)",
    ),
    refused(
        "The forward pass adds noise",
        lambda: fit(through(lambda inner, x: inner(x + torch.randn_like(x)))),
        ModelError,
        r"two passes over the same rows gave different outputs; remove what is random",
    ),
    refused(
        "The forward pass drops units also in eval mode",
        lambda: fit(through(lambda inner, x: inner(nn.functional.dropout(x, 0.5)))),
        ModelError,
        r"two passes over the same rows gave different outputs; remove what is random.*net.eval\(\)",
    ),
    refused(
        "Batch norm keeps no running statistics",
        lambda: fit(layers(nn.BatchNorm1d(3, track_running_stats=False))),
        ModelError,
        r"(?i)(?=.*rows beside it)(?=.*(batch|running) statistics)",
    ),
    refused(
        "The forward pass centres each batch",
        lambda: fit(through(lambda inner, x: inner(x - x.mean(0)))),
        ModelError,
        r"prediction of a row changes by .* with the rows beside it.*cannot be audited",
    ),
    refused(
        "A parameter is NaN",
        lambda: wrap(changed(linear(), lambda net: net.weight[0, 0].fill_(NAN))),
        ModelError,
        r"'weight' has NaN or infinite values; the training went wrong",
    ),
    refused(
        "A parameter is infinite",
        lambda: wrap(changed(linear(), lambda net: net.bias[0].fill_(INF))),
        ModelError,
        r"'bias' has NaN or infinite values; the training went wrong",
    ),
    refused(
        "A buffer is NaN",
        lambda: fit(changed(layers(nn.BatchNorm1d(3)), lambda net: net[1].running_mean.fill_(NAN))),
        ModelError,
        r"returns NaN or infinite outputs on the training rows",
    ),
    refused(
        "Parameters live on two devices",
        lambda: wrap(on_two_devices()),
        DeviceError,
        r"parameters live on cpu, meta; move the module to one device",
    ),
    refused(
        "Parameters have no values at all",
        lambda: wrap(linear().to("meta")),
        InputError,
        r"(?i)meta",
    ),
    refused(
        "Parameters are in half precision",
        lambda: wrap(linear().half()),
        ModelError,
        r"'weight' is torch.float16.*copy.deepcopy\(net\).float\(\)",
    ),
    refused(
        "Parameters are of two dtypes",
        lambda: wrap(changed(layers(), lambda net: net[2].float())),
        ModelError,
        r"parameters are of torch.float32, torch.float64; audit a copy in one dtype",
    ),
    refused(
        "The module holds a lock",
        lambda: wrap(changed(linear(), lambda net: setattr(net, "lock", threading.Lock()))),
        ModelError,
        r"cannot be copied.*remove open files, locks or generators",
    ),
    refused(
        "The module returns a tuple",
        lambda: fit(through(lambda inner, x: (inner(x), x))),
        ModelError,
        r"returned tuple of 2, expected one tensor or an object with logits; wrap it in a module",
    ),
    refused(
        "The module returns a tensor of three axes",
        lambda: fit(through(lambda inner, x: inner(x)[:, None])),
        ShapeError,
        r"returned \(20, 1, 1\) for 20 rows, expected \(20,\) or \(20, k\); wrap it",
    ),
    refused(
        "The module averages over the rows",
        lambda: fit(through(lambda inner, x: inner(x).mean())),
        ShapeError,
        r"returned \(\) for 20 rows, expected \(20,\) or \(20, k\); wrap it",
    ),
    refused(
        "The module rounds in the middle",
        lambda: fit(made(lambda: Rounded(torch.round))),
        ModelError,
        r"change with first.weight, first.bias, but in steps.*rounding.*smooth activation.*select=\['last.weight'",
    ),
    refused(
        "The module has a hard threshold in the middle",
        lambda: fit(made(lambda: Rounded(lambda x: (x > 0).to(x)))),
        ModelError,
        r"change with first.weight, first.bias, but in steps.*hard threshold.*smooth activation.*select=",
    ),
    refused(
        "The module ends in a sign",
        lambda: fit(through(lambda inner, x: inner(x).sign())),
        ModelError,
        r"but in steps: the derivative is zero .*smooth activation",
    ),
    refused(
        "The module cuts its output off from the parameters",
        lambda: fit(through(lambda inner, x: inner(x).detach())),
        RueError,
        r"(?i)output.*(depend|gradient|derivative|detach)",
    ),
    refused(
        "The module has no derivative at a training row",
        lambda: fit(made(Root), (torch.cat([X, torch.zeros(1, 3)]), torch.cat([y, y[:1]]))),
        RueError,
        r"(?i)(derivative|gradient|jacobian)",
    ),
    refused(
        "The module wants more arguments than there are inputs",
        lambda: fit(made(lambda: nn.Bilinear(3, 3, 1))),
        ModelError,
        r"could not take inputs of \(20, 3\) float64.*missing.*give data as you gave it",
    ),
]

SETTINGS = [
    refused("l2 is negative", lambda: wrap(l2=-1.0), SettingError, r"finite number of at least 0, got -1.0"),
    refused("l2 is NaN", lambda: wrap(l2=NAN), SettingError, r"finite number of at least 0, got nan"),
    refused("l2 is an array", lambda: wrap(l2=np.ones(4)), SettingError, r"l2 must be a finite number.*array"),
    refused(
        "An l2 glob matches nothing",
        lambda: wrap(l2={"head.*": 1.0}),
        SettingError,
        r"'head.\*', which matches no audited parameter; there are weight, bias",
    ),
    refused(
        "An l2 glob names a parameter that is not selected",
        lambda: wrap(select="weight", l2={"bias": 1.0}),
        SettingError,
        r"'bias', which matches no audited parameter; there are weight$",
    ),
    refused(
        "Two l2 globs overlap",
        lambda: wrap(l2={"*": 1.0, "weight": 2.0}),
        SettingError,
        r"gives 'weight' two coefficients; make the globs disjoint",
    ),
    refused(
        "select matches nothing",
        lambda: wrap(select="head.*"),
        SettingError,
        r"select='head.\*' matches no parameter; there are weight, bias",
    ),
    refused("select is empty", lambda: wrap(select=[]), SettingError, r"select.*(weight, bias|None)"),
    refused(
        "The reduction is called average",
        lambda: wrap(reduction="average"),
        SettingError,
        r'reduction must be "sum" or "mean".*got \'average\'',
    ),
    refused(
        "l2 is another than the weight decay",
        lambda: trained_by(lambda net: torch.optim.SGD(net.parameters(), weight_decay=0.2), l2=0.1),
        SettingError,
        r"l2 is 0.1 for 'weight', and the weight_decay of SGD 0.2; leave l2 out",
    ),
    refused(
        "The optimizer trained another net",
        lambda: trained_by(lambda _: torch.optim.SGD(linear().parameters())),
        SettingError,
        r"the SGD holds none of the module's 2 parameters; give the optimizer that trained this very module",
    ),
    refused(
        "The optimizer is a name",
        lambda: trained_by(lambda _: "sgd"),
        SettingError,
        r"optimizer must be the torch.optim object that trained the module, got str",
    ),
    refused(
        "The optimizer is a class",
        lambda: trained_by(lambda _: torch.optim.Adam),
        SettingError,
        r"optimizer must be the torch.optim object that trained the module, got the class Adam",
    ),
    refused(
        "The optimizer decays in a way of its own",
        lambda: trained_by(lambda net: Elsewhere(net.parameters(), {"weight_decay": 0.2})),
        SettingError,
        r"what Elsewhere does with weight_decay=0.2 is not known here; say l2=",
    ),
    refused(
        "select names what the optimizer did not train",
        lambda: trained_by(lambda net: torch.optim.SGD([net.weight]), select="*"),
        SettingError,
        r"select names bias, which the optimizer did not train; leave the optimizer out and say l2=",
    ),
    refused(
        "The centre has a name that the module does not have",
        lambda: wrap(centre={"head.weight": torch.ones(1, 3)}),
        SettingError,
        r"centre names head.weight, which the module does not have.*if name in net.state_dict\(\)",
    ),
    refused(
        "The centre has another shape",
        lambda: wrap(centre={"weight": torch.ones(2, 3)}),
        SettingError,
        r"centre\['weight'\] has shape \(2, 3\), the parameter \(1, 3\); leave it out if it was made anew",
    ),
    refused(
        "The centre has nothing that is audited",
        lambda: wrap(select="weight", centre={"bias": torch.ones(1)}),
        SettingError,
        r"centre names none of the audited parameters weight; give the state dict that the training started from",
    ),
    refused(
        "The centre is NaN",
        lambda: wrap(centre={"bias": torch.full((1,), NAN)}),
        SettingError,
        r"centre\['bias'\] has NaN or infinite values",
    ),
    refused(
        "The centre is a text",
        lambda: wrap(centre={"bias": "zero"}),
        SettingError,
        r"centre\['bias'\] is no array of numbers.*give a tensor",
    ),
    refused(
        "The centre is a number",
        lambda: wrap(centre=0.0),
        SettingError,
        r"centre must be a state dict \(parameters by name\) or a torch.nn.Module, got float",
    ),
    refused(
        "The centre is the state dict of the trained net, which training has changed",
        lambda: wrap(centre=linear().state_dict()),
        SettingError,
        r"equal to the trained parameters.*take copy.deepcopy\(net.state_dict\(\)\) before training",
    ),
    refused(
        "An estimator is given an optimizer",
        lambda: rue.wrap(Ridge().fit(X, y), optimizer=torch.optim.SGD(linear().parameters())),
        SettingError,
        r"optimizer and centre describe a torch.nn.Module; Ridge says by itself",
    ),
    refused(
        "The penalty is a number",
        lambda: wrap(penalty=0.1),
        SettingError,
        r"penalty must be a callable of named parameters, got float; a number is l2",
    ),
    refused(
        "The penalty returns a vector",
        lambda: fit(penalty=lambda parameters: parameters["weight"][0] ** 2),
        ShapeError,
        r"penalty returned \(3,\), expected one number; sum over the parameters",
    ),
    refused(
        "The penalty is NaN",
        lambda: fit(penalty=lambda parameters: parameters["weight"].sum() * NAN),
        ModelError,
        r"penalty is not finite at the trained parameters; check the callable",
    ),
    refused(
        "The penalty takes its argument for a tensor",
        lambda: fit(penalty=lambda parameters: parameters.square().sum()),
        InputError,
        r"(?i)penalty.*named parameters",
    ),
    refused(
        "The ensemble has one member",
        lambda: rue.RUE(members=1),
        SettingError,
        r"members must be a whole number of at least 2, got 1",
    ),
    refused(
        "The number of members is a fraction",
        lambda: rue.Laplace(members=2.5),
        SettingError,
        r"members must be a whole number of at least 2, got 2.5",
    ),
    refused("The seed is None", lambda: fit(method=rue.RUE(seed=None)), SettingError, r"seed.*None"),
    refused(
        "The meat is unknown",
        lambda: rue.LinearRUE(meat="HC1"),
        SettingError,
        r'meat must be "HC0" or "HC3".*got \'HC1\'',
    ),
    refused(
        "The step of Bootstrap SGD is zero",
        lambda: rue.BootstrapSGD(step=0.0),
        SettingError,
        r"step must be a positive number.*got 0.0",
    ),
    refused(
        "No neighbours are asked for",
        lambda: rue.NearestNeighbours(neighbours=0),
        SettingError,
        r"neighbours must be.* at least 1.*got 0",
    ),
    refused(
        "More neighbours are asked for than there are rows",
        lambda: fit(method=rue.NearestNeighbours(neighbours=21)),
        SettingError,
        r"21 neighbours were asked for, but there are 20 training rows",
    ),
    refused(
        "Neighbours are scored by an unknown rule",
        lambda: rue.NearestNeighbours(by="density"),
        SettingError,
        r'by must be "distance" or "residual", got \'density\'',
    ),
    refused(
        "The kernel density is cross-validated with one fold",
        lambda: fit(method=rue.KernelDensity(folds=1)),
        SettingError,
        r"folds.*2.*got 1",
    ),
]

SOLVES = [
    refused("A fixed damping is negative", lambda: Fixed(-1.0), SettingError, r"finite number of at least 0, got -1"),
    refused("The floor of the spectrum is zero", lambda: SmallestEigenvalue(0.0), SettingError, r"floor.*above 0"),
    refused("A fraction of the mean is negative", lambda: MeanFraction(-0.1), SettingError, r"fraction.*above 0"),
    refused(
        "The damping is a number",
        lambda: fit(method=rue.LinearRUE(damping=0.1)),
        SettingError,
        r"damping.*Fixed\(",
    ),
    refused(
        "The curvature is given by name",
        lambda: fit(method=rue.LinearRUE(curvature="ggn")),
        SettingError,
        r"curvature.*GaussNewton\(\)",
    ),
    refused(
        "The curvature is a class and not an object of it",
        lambda: fit(method=rue.LinearRUE(curvature=GaussNewton)),
        SettingError,
        r"curvature.*GaussNewton\(\)",
    ),
    refused(
        "The solver is given by name",
        lambda: fit(method=rue.LinearRUE(solver="cholesky")),
        SettingError,
        r"solver.*Cholesky\(\)",
    ),
    refused(
        "The solver is a class and not an object of it",
        lambda: fit(method=rue.LinearRUE(solver=Cholesky)),
        SettingError,
        r"solver.*Cholesky\(\)",
    ),
    refused(
        "The resampler is given by name",
        lambda: fit(method=rue.RUE(resampler="poisson")),
        SettingError,
        r"resampler.*\(\)",
    ),
    refused(
        "The resampler is a class and not an object of it",
        lambda: fit(method=rue.RUE(resampler=Poisson)),
        SettingError,
        r"resampler.*\(\)",
    ),
    refused(
        "Dual is asked to solve with a Hessian",
        lambda: fit(method=rue.RUE(solver=Dual())),
        SettingError,
        r"Dual needs a curvature that is a sum of squares; use curvature=GaussNewton\(\)",
    ),
    refused(
        "Dual is asked to solve without a penalty",
        lambda: fit(method=rue.LinearRUE(solver=Dual(), damping=NoDamping()), l2=0.0),
        NotPositiveDefiniteError,
        r"Dual needs a penalty or a damping on every parameter; give the l2 of training",
    ),
    refused(
        "Dual is asked to solve with a penalty that mixes parameters",
        lambda: fit(method=rue.LinearRUE(solver=Dual()), penalty=lambda parameters: parameters["weight"].sum() ** 2),
        SettingError,
        r"Dual needs a penalty whose curvature is diagonal; use Cholesky\(\)",
    ),
    refused(
        "Singular curvature is left undamped",
        lambda: fit(layers(), (X[:4], y[:4]), rue.LinearRUE(damping=NoDamping()), l2=0.0),
        NotPositiveDefiniteError,
        r"singular or points downwards; give the l2 of training, a damping",
    ),
    refused(
        "Singular curvature is left undamped before an eigendecomposition",
        lambda: fit(layers(), (X[:4], y[:4]), rue.LinearRUE(damping=NoDamping(), solver=Eigen()), l2=0.0),
        NotPositiveDefiniteError,
        r"smallest eigenvalue is .* give the l2 of training, a damping",
    ),
    refused(
        "Conjugate gradients meet a Hessian that points downwards",
        lambda: fit(layers(), (X, 10 * y), rue.RUE(damping=NoDamping(), solver=ConjugateGradient()), l2=0.0),
        NotPositiveDefiniteError,
        r"negative curvature .* use curvature=GaussNewton\(\), or damping=SmallestEigenvalue\(\)",
    ),
    refused(
        "Conjugate gradients may take one step",
        lambda: fit(layers(), method=rue.LinearRUE(solver=ConjugateGradient(max_steps=1, rank=0))),
        NotConvergedError,
        r"residual .* is above 1.0e-06 after at most 1 steps; raise max_steps",
    ),
    refused(
        "The tolerance of conjugate gradients is above one",
        lambda: ConjugateGradient(tolerance=2.0),
        SettingError,
        r"0 < tolerance < 1, max_steps of at least 1",
    ),
    refused(
        "Laplace is to sample a Hessian without a matrix",
        lambda: fit(layers(), method=rue.Laplace(curvature=Hessian(), solver=ConjugateGradient())),
        SettingError,
        r"sampling without a dense matrix needs GaussNewton\(\)",
    ),
    refused(
        "A module is fitted without being wrapped",
        lambda: rue.LinearRUE().fit(linear(), (X, y)),
        ModelError,
        r'fit takes a wrapped model; use rue.wrap\(net, loss="squared_error"',
    ),
    refused(
        "Model and data are swapped",
        lambda: rue.LinearRUE().fit((X, y), wrap()),
        InputError,
        r"must be \(X, y\), a Dataset, a DataLoader or rue.Data, got|fit takes a wrapped model",
    ),
]

DATA = [
    refused(
        "The inputs have a NaN",
        lambda: fit(data=(with_value(X, NAN), y)),
        DataError,
        r"1 rows? .*NaN or infinite.*drop or impute",
    ),
    refused(
        "The inputs have an infinite value",
        lambda: fit(data=(with_value(X, INF).numpy(), y)),
        DataError,
        r"1 rows? .*NaN or infinite.*drop or impute",
    ),
    refused(
        "The targets have a NaN",
        lambda: fit(data=(X, pd.Series(with_value(y, NAN)))),
        DataError,
        r"1 rows? .*NaN or infinite.*drop or impute",
    ),
    refused(
        "A loader yields a NaN",
        lambda: fit(data=loader(with_value(X, NAN), y)),
        DataError,
        r"1 rows? .*NaN or infinite.*drop or impute",
    ),
    refused(
        "There is one training row",
        lambda: fit(data=(X[:1], y[:1])),
        DataError,
        r"1 training rows? .*resampling needs at least two",
    ),
    refused(
        "There are no training rows",
        lambda: fit(data=(X[:0], y[:0])),
        DataError,
        r"0 training rows .*resampling needs at least two",
    ),
    refused(
        "A loader drops its only batch",
        lambda: fit(data=loader(X, y, batch_size=64, drop_last=True)),
        DataError,
        r"0 training rows .*resampling needs at least two",
    ),
    refused(
        "The targets have another length",
        lambda: fit(data=(X, y[:-1])),
        ShapeError,
        r"X has 20 rows, y has 19; they must be the same rows",
    ),
    refused(
        "There are two targets for one output",
        lambda: fit(data=(X, torch.stack([y, y], 1))),
        ShapeError,
        r"targets have shape \(20, 2\), the outputs \(20, 1\); they must agree, nothing is broadcast",
    ),
    refused(
        "There is one target for two outputs",
        lambda: fit(linear(2)),
        ShapeError,
        r"targets have shape \(20,\), the outputs \(20, 2\); they must agree, nothing is broadcast",
    ),
    refused(
        "There are two rows, two outputs and one target for each row",
        lambda: fit(linear(2), (X[:2], y[:2])),
        ShapeError,
        r"targets have shape \(2,\), the outputs \(2, 2\); they must agree, nothing is broadcast",
    ),
    refused("The targets are a tuple", lambda: fit(data=(X, (y, y))), InputError, r"(?i)targets.*(tuple|parts|one)"),
    refused(
        "The targets are one number",
        lambda: fit(data=(X, torch.tensor(1.0))),
        ShapeError,
        r"a part of the data is a scalar, expected rows; the first axis must be the rows",
    ),
    refused(
        "A column of a frame is text",
        lambda: fit(data=(text_frame(), y)),
        DataError,
        r"cannot read values of type .*encode text and categories",
    ),
    refused(
        "An array holds Python objects",
        lambda: fit(data=(X.numpy().astype(object), y)),
        DataError,
        r"cannot read values of type object.*encode text and categories",
    ),
    refused(
        "The inputs are a sparse matrix of SciPy",
        lambda: fit(data=(scipy.sparse.csr_matrix(X.numpy()), y)),
        DataError,
        r"csr_matrix is sparse; give a dense array: X.toarray\(\)",
    ),
    refused(
        "The inputs are a sparse tensor",
        lambda: fit(data=(X.to_sparse(), y)),
        DataError,
        r"sparse.*; give a dense",
    ),
    refused(
        "Some entries of an array are masked",
        lambda: fit(data=(np.ma.masked_greater(X.numpy(), 1.0), y)),
        DataError,
        r"(?i)masked.*filled",
    ),
    refused(
        "The inputs are complex",
        lambda: fit(data=(X + 0j, y)),
        DataError,
        r"complex data cannot be audited; give real and imaginary parts",
    ),
    refused(
        "The inputs are a list of lists",
        lambda: fit(data=(X.tolist(), y)),
        DataError,
        r"cannot read float; give an array, a tensor or a data frame \(np.asarray of a list",
    ),
    refused(
        "The targets are a list",
        lambda: fit(data=(X, y.tolist())),
        DataError,
        r"cannot read float; give an array, a tensor or a data frame \(np.asarray of a list",
    ),
    refused(
        "The data is a tuple of three",
        lambda: fit(data=(X, y, y)),
        DataError,
        r"must be \(X, y\), a Dataset, a DataLoader or rue.Data, got tuple of length 3",
    ),
    refused(
        "The data is X alone",
        lambda: fit(data=X),
        DataError,
        r"must be \(X, y\), a Dataset, a DataLoader or rue.Data, got Tensor",
    ),
    refused(
        "rue.Data has no targets",
        lambda: fit(data=rue.Data(X)),
        DataError,
        r"training targets are missing; give \(X, y\)",
    ),
    refused(
        "A dataset comes with targets beside it",
        lambda: fit(data=rue.Data(TensorDataset(X, y), y)),
        DataError,
        r"already yields targets; leave y out",
    ),
    refused(
        "A batch of a loader has three parts",
        lambda: fit(data=loader(X, y, y)),
        DataError,
        r"a list of length 3, expected \(inputs, targets\); use a collate_fn",
    ),
    refused(
        "A batch of a loader is a dict",
        lambda: fit(data=keyed_loader()),
        DataError,
        r"a dict with x, y, expected \(inputs, targets\); use a collate_fn.*called 'labels' or 'label'",
    ),
    refused(
        "A batch of a loader has no targets",
        lambda: fit(data=loader(X)),
        DataError,
        r"a list of length 1, expected \(inputs, targets\); use a collate_fn",
    ),
    refused(
        "The dataset augments its rows at random",
        lambda: fit(data=Augmented()),
        DataError,
        r"two passes over the training data differ; turn random augmentation off",
    ),
    refused(
        "The dataset has no length",
        lambda: fit(data=Endless()),
        DataError,
        r"Endless has no length; give a Dataset with __len__ or a DataLoader",
    ),
    refused(
        "The weights have another length",
        lambda: fit(data=rue.Data(X, y, weight=np.ones(19))),
        ShapeError,
        r"weight has shape \(19,\), expected one number per row \(20,\)",
    ),
    refused(
        "A weight is negative",
        lambda: fit(data=rue.Data(X, y, weight=-np.eye(20)[0])),
        DataError,
        r"example weights must be finite and at least zero",
    ),
    refused(
        "A weight is NaN",
        lambda: fit(data=rue.Data(X, y, weight=with_value(y, NAN))),
        DataError,
        r"example weights must be finite and at least zero",
    ),
    refused(
        "All weights are zero",
        lambda: fit(data=rue.Data(X, y, weight=np.zeros(20))),
        DataError,
        r"all example weights are zero; there is no training data left",
    ),
    refused(
        "Whole batches are shuffled, so that nobody knows whose weight is whose",
        lambda: fit(data=rue.Data(DataLoader(Batches(), batch_size=None, sampler=[3, 1, 0, 2, 4]), weight=y.exp())),
        DataError,
        r"(?i)weight.*(order|number|index)",
    ),
    refused(
        "The weights are words",
        lambda: fit(data=rue.Data(X, y, weight=["high"] * 20)),
        DataError,
        r"weight.*number",
    ),
    refused(
        "The groups have another length",
        lambda: fit(data=rue.Data(X, y, group=["a"] * 19)),
        ShapeError,
        r"group has shape \(19,\), expected one label per row \(20,\)",
    ),
    refused(
        "All rows belong to one group",
        lambda: fit(data=rue.Data(X, y, group=["a"] * 20)),
        DataError,
        r"all rows belong to one group \(a\); resampling needs at least two groups",
    ),
    refused(
        "A group label is None",
        lambda: fit(data=rue.Data(X, y, group=[None, *range(19)])),
        DataError,
        r"group has missing labels; give every row a group, its own if it has none",
    ),
    refused(
        "A group label is NaN",
        lambda: fit(data=rue.Data(X, y, group=np.r_[NAN, np.arange(19)])),
        DataError,
        r"group has missing labels; give every row a group, its own if it has none",
    ),
    refused(
        "A group label is the missing value of pandas",
        lambda: fit(data=rue.Data(X, y, group=pd.Series([pd.NA, *"abcdefghijklmnopqrs"], dtype="string"))),
        DataError,
        r"group has missing labels; give every row a group, its own if it has none",
    ),
    refused(
        "The training inputs live on another device",
        lambda: fit(data=(X.to("meta"), y)),
        DeviceError,
        r"data lives on meta, the model on cpu; move one of them",
    ),
    refused(
        "The targets live on another device",
        lambda: fit(data=(X, y.to("meta"))),
        DeviceError,
        r"data lives on meta, the model on cpu; move one of them",
    ),
    refused(
        "Whole numbers are given to a linear layer",
        lambda: fit(data=(np.arange(60).reshape(20, 3), y)),
        ModelError,
        r"could not take inputs of \(20, 3\) int64.*dtype.*give data as you gave it",
    ),
    refused(
        "The training inputs have a feature too many",
        lambda: fit(data=(torch.cat([X, X[:, :1]], 1), y)),
        ModelError,
        r"could not take inputs of \(20, 4\) float64.*give data as you gave it",
    ),
]

AUDITS = [
    refused(
        "The audited inputs have a NaN",
        lambda: fit().audit(with_value(X_new, NAN)),
        DataError,
        r"1 rows? .*NaN or infinite.*drop or impute",
    ),
    refused(
        "The audited inputs live on another device",
        lambda: fit().audit(X_new.to("meta")),
        DeviceError,
        r"data lives on meta, the model on cpu; move one of them",
    ),
    refused(
        "The audited inputs have too many features",
        lambda: fit().audit(torch.zeros(4, 5)),
        ModelError,
        r"could not take inputs of shape \(4, 5\)",
    ),
    refused(
        "The inputs to predict have too many features",
        lambda: fit().predict(torch.zeros(4, 5)),
        ModelError,
        r"could not take inputs of shape \(4, 5\)",
    ),
    refused(
        "One input is audited without the axis of rows",
        lambda: fit().audit(X_new[0]),
        ModelError,
        r"could not take inputs of shape \(3,\)",
    ),
    refused(
        "The only feature is audited as a vector",
        lambda: fit(made(lambda: nn.Linear(1, 1)), (X[:, :1], y)).audit(X_new[:, 0]),
        ModelError,
        r"could not take inputs of shape \(5,\)",
    ),
    refused(
        "The audited inputs are whole numbers",
        lambda: fit().audit(np.arange(15).reshape(5, 3)),
        ModelError,
        r"could not take inputs.*(Long|int64)",
    ),
    refused("No inputs are audited", lambda: fit().audit(X_new[:0]), DataError, r"no inputs to audit"),
    refused(
        "An empty dataset is audited",
        lambda: fit().audit(TensorDataset(X_new[:0], y[:0])),
        DataError,
        r"no inputs to audit",
    ),
    refused("Nothing is audited", lambda: fit().audit(None), DataError, r"cannot read NoneType; give an array"),
    refused("An empty list is audited", lambda: fit().audit([]), DataError, r"empty; give at least one array"),
    refused(
        "The module has no derivative at an audited input",
        lambda: fit(made(Root)).audit(torch.zeros(2, 3)),
        RueError,
        r"(?i)(derivative|gradient|jacobian|score)",
    ),
    refused(
        "The interval is asked to hold more than everything",
        lambda: audit().interval(1.5),
        SettingError,
        r"level is 1.5, expected strictly between 0 and 1",
    ),
    refused(
        "The targets of log_prob have another length",
        lambda: audit().log_prob(y),
        ShapeError,
        r"targets have shape \(20,\), the predictions \(5,\); they must agree",
    ),
    refused(
        "An interval is asked of a density",
        lambda: audit(method=rue.KernelDensity()).interval(0.9),
        InputError,
        r"no predictive distribution: KernelDensity ranks predictions only; use.*a method with a variance",
    ),
    refused(
        "A log density is asked of a density of inputs",
        lambda: audit(method=rue.KernelDensity()).log_prob(y[:5]),
        InputError,
        r"no predictive distribution: KernelDensity ranks predictions only; use.*a method with a variance",
    ),
    refused(
        "A standard deviation is asked of a density",
        lambda: fit(method=rue.KernelDensity()).predict(X_new, return_std=True),
        InputError,
        r"KernelDensity has no standard deviation to return; use a method with a variance",
    ),
    refused(
        "A log density is asked where the loss is a callable",
        lambda: audit(loss=squared).log_prob(y[:5]),
        InputError,
        r"no predictive distribution: noise is known for squared error only.*use audit.std",
    ),
    refused(
        "A log density is asked where one neighbour speaks for two outputs",
        lambda: fit(linear(2), (X, X[:, :2]), rue.NearestNeighbours(neighbours=1)).audit(X_new).log_prob(X_new[:, :2]),
        RueError,
        r"(?i)(singular|covariance|neighbours)",
    ),
    refused(
        "The one-call audit is given no loss",
        lambda: rue.audit(linear(), train=(X, y), inputs=X_new),
        ModelError,
        r'does not know the loss.*loss="squared_error"',
    ),
]


class Timeless(nn.Module):
    """Takes rows for points in time: batch_first was forgotten."""

    def __init__(self):
        super().__init__()
        self.recurrent, self.head = nn.LSTM(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.recurrent(x[:, None])[0][:, 0])


def embedded(**settings: Any) -> nn.Module:
    return made(lambda: nn.Sequential(nn.Embedding(5, 2, **settings), nn.Flatten(), nn.Linear(6, 1)))


def leaning_on_the_module() -> Any:
    net = linear()
    return fit(net, penalty=lambda _: 50 * sum(p.square().sum() for p in net.parameters()))


TOKENS = torch.arange(60).reshape(20, 3) % 5
ALONE = torch.cat([X, torch.eye(20, dtype=torch.float64)[:, :1]], dim=1)  # the last column is one for one row only

SUBTLE = [
    refused(
        "An LSTM without batch_first takes rows for points in time",
        lambda: fit(made(Timeless)),
        ModelError,
        r"changes by .* with the rows beside it.*batch_first=True",
    ),
    refused(
        "The penalty looks at the module instead of its argument",
        leaning_on_the_module,
        ModelError,
        r"penalty does not depend on the parameters it is given; use its argument",
    ),
    refused(
        "HC3 is asked where a row alone determines a parameter",
        lambda: rue.LinearRUE(meat="HC3").fit(wrap(made(lambda: nn.Linear(4, 1)), l2=0.0), (ALONE, y)),
        RueError,
        r"leverage one.*use HC0",
    ),
    refused(
        "A layer's second derivatives are wrong",
        lambda: fit(
            made(
                lambda: nn.Sequential(
                    nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), nn.Tanh(), nn.Linear(3, 1)
                )
            ),
            method=rue.RUE(),
        ),
        RueError,
        r"second derivatives are not symmetric.*use curvature=GaussNewton\(\)",
    ),
    refused(
        "An embedding scales its gradients by frequency",
        lambda: fit(embedded(scale_grad_by_freq=True), (TOKENS, y)),
        ModelError,
        r"not its derivative.*without scale_grad_by_freq",
    ),
    refused(
        "An embedding renormalises its weights while it predicts",
        lambda: fit(embedded(max_norm=0.1), (TOKENS, y)),
        ModelError,
        r"changes its weights while predicting.*max_norm",
    ),
    refused(
        "The first layer works in place",
        lambda: fit(made(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 1)))),
        ModelError,
        r"changes its inputs in place.*inplace=False",
    ),
]


def frozen(seed: int) -> rue.Model:
    net = layers()
    net[0].requires_grad_(False).weight.data.mul_(seed)
    return wrap(net)


class HeadFirst(nn.Module):
    """Lists its last layer first."""

    def __init__(self):
        super().__init__()
        self.head, self.body = nn.Linear(4, 1), nn.Linear(3, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Tied(nn.Module):
    """One weight in two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


SHORT = Adam(epochs=2, batch=8)

TRAINING = [
    refused(
        "A training of no epochs is asked for",
        lambda: Adam(epochs=0),
        SettingError,
        r"epochs must be a whole number of at least 1, got 0",
    ),
    refused(
        "The learning rate is far too large",
        lambda: fit(layers(), method=DeepEnsemble(training=Adam(2, 8, 1e308))),
        NumericalError,
        r"5 of 5 networks diverged.*lower the learning rate 1e\+308, or standardise",
    ),
    refused(
        "Refits start from something unknown",
        lambda: RefitBootstrap(start="warm"),
        SettingError,
        r'start must be "fresh" or "trained", got \'warm\'',
    ),
    refused(
        "Refits start afresh, and a parameter has no initial values",
        lambda: fit(made(Root), method=RefitBootstrap(training=SHORT)),
        ModelError,
        r"no reset_parameters\(\) sets the parameter 'scale'.*give the layer that method.*start=\"trained\"",
    ),
    refused(
        "Training sets of different sizes are to be fitted together",
        lambda: RefitBootstrap(training=SHORT).fit_many([wrap(), wrap()], [(X, y), (X[1:], y[1:])]),
        DataError,
        r"have \[19, 20\] rows; fit_many needs one size: fit these apart",
    ),
    refused(
        "Models with different frozen layers are to be fitted together",
        lambda: RefitBootstrap(training=SHORT).fit_many([frozen(1), frozen(2)], [(X, y), (X, y)]),
        ModelError,
        r"model 1 has another output.*the same fixed layers: fit these apart",
    ),
    refused(
        "There are fewer training sets than models",
        lambda: MCDropout(training=SHORT).fit_many([wrap(), wrap()], [(X, y)]),
        SettingError,
        r"2 models and 1 training sets were given; give one training set for each model",
    ),
    refused(
        "A deep ensemble is trained on a callable loss",
        lambda: fit(loss=squared, method=DeepEnsemble(training=SHORT)),
        ModelError,
        r'heads are Gaussian.*wrap the model with loss="squared_error"',
    ),
    refused(
        "A deep ensemble is made of a module that lists its last layer first",
        lambda: fit(made(HeadFirst), method=DeepEnsemble(training=SHORT)),
        ModelError,
        r"with twice the outputs in its last nn.Linear.*make the module's last nn.Linear give its outputs",
    ),
    refused(
        "An adversarial step is asked for tokens",
        lambda: fit(embedded(), (TOKENS, y), DeepEnsemble(training=SHORT, adversarial=0.01)),
        DataError,
        r"moves inputs along a gradient, which .* int64 do not have; use adversarial=0",
    ),
    refused(
        "A dropout rate of one is tried",
        lambda: MCDropout(rates=(0.1, 1.0)),
        SettingError,
        r"rates must be a tuple of numbers between 0 and 1, got \(0.1, 1.0\)",
    ),
    refused(
        "Dropout is put into a model with selected parameters",
        lambda: fit(layers(), method=MCDropout(training=SHORT), select="2.*"),
        ModelError,
        r"dropout trains every parameter.*wrap it without select",
    ),
    refused(
        "Dropout is put into a model with tied weights",
        lambda: fit(made(Tied), method=MCDropout(training=SHORT)),
        ModelError,
        r"layer 'first' shares its weight with another.*give each layer its own weight",
    ),
]


def wrong_file() -> Any:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("yacht.csv").write_text("1,2,3\n")
        return datasets.load("yacht", ".")


DATASETS = [
    refused(
        "The folder of a data set does not exist",
        lambda: datasets.load("yacht", "no/such/folder"),
        DataError,
        r"no/such/folder is no folder; give the one that holds yacht\.csv",
    ),
    refused(
        "A data set has an unknown name",
        lambda: datasets.load("boston"),
        SettingError,
        r"there is no data set 'boston'; choose from housing, concrete",
    ),
    refused(
        "A file in the folder of data sets is another",
        wrong_file,
        DataError,
        r"yacht\.csv.*SHA-256.*remove it",
    ),
    refused(
        "A gap is asked of a constant feature",
        lambda: datasets.gap_split(np.ones(20)),
        DataError,
        r"no low, middle and high part.*1 different values.*choose a feature with more values",
    ),
    refused(
        "More rows are to train than there are",
        lambda: datasets.standard_splits(20, train=25),
        SettingError,
        r"25 of 20 rows to train on leave no row on one side; train must lie in 1 to n - 1",
    ),
]


def chosen(train: Callable[[float], Any], values: Any = (0.1, 1.0), **settings: Any) -> Any:
    return choose_penalty(train, values, (X, y), **settings)


def mixed(l2: float) -> rue.Model:
    return wrap(l2=l2, penalty=lambda parameters: parameters["weight"].sum() ** 2)


LEFT_OUT = [
    refused(
        "Rows of a module that is not wrapped are left out",
        lambda: leave_one_out(linear(), (X, y)),
        ModelError,
        r"leave_one_out needs a wrapped model, got Linear; give it rue.wrap\(net",
    ),
    refused(
        "Rows are left out with a curvature given by name",
        lambda: leave_one_out(wrap(), (X, y), curvature="ggn"),
        SettingError,
        r"curvature must be an object such as GaussNewton\(\).*'ggn'",
    ),
    refused(
        "A row alone determines a parameter and is left out",
        lambda: leave_one_out(wrap(made(lambda: nn.Linear(4, 1)), l2=0.0), (ALONE, y)),
        NumericalError,
        r"leverage one: without it the model is not determined; add a penalty",
    ),
    refused(
        "More rows are to be left out by refits than there are",
        lambda: compare_with_refits(wrap(), (X, y), lambda _: wrap(), count=21),
        SettingError,
        r"count must be a whole number from 2 to 20.*got 21",
    ),
    refused(
        "More groups are to be left out by refits than there are",
        lambda: compare_with_refits(wrap(), rue.Data(X, y, group=np.arange(20) // 4), lambda _: wrap()),
        SettingError,
        r"count must be a whole number from 2 to 5.*got 20",
    ),
    refused(
        "A refit returns a module that is not wrapped",
        lambda: compare_with_refits(wrap(), (X, y), lambda _: linear()),
        ModelError,
        r"refit needs a wrapped model, got Linear; give it rue.wrap\(net",
    ),
    refused(
        "A refit has other outputs",
        lambda: compare_with_refits(wrap(loss=squared), (X, y), lambda _: wrap(linear(2), loss=squared)),
        ModelError,
        r"predicts \(20, 2\) where the first one predicts \(20,\); train the same architecture",
    ),
    refused(
        "A penalty is chosen and training returns a module that is not wrapped",
        lambda: chosen(lambda _: linear()),
        ModelError,
        r"train\(0.1\), needs a wrapped model, got Linear; give it rue.wrap\(net",
    ),
    refused(
        "A penalty is chosen and training returns nothing",
        lambda: chosen(lambda _: None),
        ModelError,
        r"train\(0.1\), needs a wrapped model, got NoneType; give it rue.wrap\(net",
    ),
    refused(
        "A penalty is chosen from one value",
        lambda: chosen(lambda l2: wrap(l2=l2), [1.0]),
        SettingError,
        r"values has 1 entries, expected at least two",
    ),
    refused(
        "A penalty is chosen from no values",
        lambda: chosen(lambda l2: wrap(l2=l2), []),
        SettingError,
        r"values has 0 entries, expected at least two",
    ),
    refused(
        "A penalty is chosen from negative values",
        lambda: chosen(lambda l2: wrap(l2=l2), [-1.0, 1.0]),
        SettingError,
        r"values must be finite and at least 0.*\[-1.0, 1.0\]",
    ),
    refused(
        "A penalty is chosen from values that repeat",
        lambda: chosen(lambda l2: wrap(l2=l2), [1.0, 0.1, 1]),
        SettingError,
        r"values has 1 duplicates in \[0.1, 1.0, 1.0\]; give each value once",
    ),
    refused(
        "A penalty is chosen from one number",
        lambda: chosen(lambda l2: wrap(l2=l2), 1.0),
        SettingError,
        r"values must be numbers, such as \[0.1, 1.0, 10.0\], got 1.0",
    ),
    refused(
        "A penalty is chosen by an unknown criterion",
        lambda: chosen(lambda l2: wrap(l2=l2), criterion="bic"),
        SettingError,
        r'criterion must be "leave-one-out" or "evidence", got \'bic\'',
    ),
    refused(
        "A penalty is chosen and the value never reaches rue.wrap",
        lambda: chosen(lambda _: wrap()),
        ModelError,
        r"models of 0.1 and 1 were wrapped with the same penalty; pass the value on",
    ),
    refused(
        "A penalty is chosen among models of different losses",
        lambda: chosen(lambda l2: wrap(l2=l2, loss=squared if l2 == 1 else "squared_error")),
        ModelError,
        r"\('squared_error', 1\) and \('squared', 1\) as loss.*only the penalty may differ",
    ),
    refused(
        "A penalty is chosen and the models were trained on other features",
        lambda: chosen(lambda l2: wrap(made(lambda: nn.Linear(5, 1)), l2=l2)),
        ModelError,
        r"could not take inputs of \(20, 3\) float64.*give data as you gave it",
    ),
    refused(
        "The evidence is asked of a model without a penalty",
        lambda: chosen(lambda l2: wrap(l2={"weight": l2}), criterion="evidence"),
        SettingError,
        r"1 of 4 parameters have no penalty.*give every parameter an l2 above 0",
    ),
    refused(
        "The evidence is asked for a penalty that mixes parameters",
        lambda: chosen(mixed, criterion="evidence"),
        SettingError,
        r'needs a penalty whose curvature is diagonal.*use criterion="leave-one-out"',
    ),
    refused(
        "A temperature is asked of probabilities of one class",
        lambda: temperature(X[:, :1], labels),
        ShapeError,
        r"logits have shape \(20, 1\), expected \(c, k\)",
    ),
    refused(
        "A temperature is asked of logits that are infinite",
        lambda: temperature(with_value(X, -INF), labels),
        DataError,
        r"1 of 20 rows of logits are NaN or infinite; give logits, not log\(0\)",
    ),
    refused(
        "A temperature is asked of no rows",
        lambda: temperature(X[:0], labels[:0]),
        DataError,
        r"there are no logits.*hold rows out",
    ),
    refused(
        "A temperature is asked with labels of other rows",
        lambda: temperature(X, labels[1:]),
        ShapeError,
        r"labels have shape \(19,\), expected one class per row of logits \(20,\)",
    ),
    refused(
        "A temperature is asked with labels that start at one",
        lambda: temperature(X, labels + 2),
        DataError,
        r"labels must be the whole numbers 0 to 2.*encode them",
    ),
    refused(
        "A temperature is asked with labels that are words",
        lambda: temperature(X, ["yes", "no"] * 10),
        DataError,
        r"labels must be the whole numbers 0 to 2.*encode them",
    ),
    refused(
        "A temperature is asked of rows that are all classified right",
        lambda: temperature(X, X.argmax(1)),
        DataError,
        r"all 20 held-out rows are classified right.*hold more rows out",
    ),
    refused(
        "A temperature is asked of logits that are worse than a coin",
        lambda: temperature(X, X.argmin(1)),
        DataError,
        r"no larger than the others' on average.*check that logits and labels are of the same rows",
    ),
]


def held_out(score: float = 0.0) -> rue.Audit:
    """Twenty rows audited, the last with the score given."""
    from dataclasses import replace

    audit = fit().audit(X)
    return replace(audit, score=np.append(audit.score[:-1], score))


WRONG = rue.policy.Exceeds(1.0)

DECISIONS = [
    refused(
        "A score to compare with a threshold is NaN",
        lambda: rue.Policy.by_share(held_out(NAN), share=0.2),
        DataError,
        r"score is nan at row 19 \(1 of 20 rows\).*leave out such rows",
    ),
    refused(
        "A policy is chosen on scores instead of an audit",
        lambda: rue.Policy.by_share(held_out().score, share=0.2),
        InputError,
        r"ndarray is no audit; pass what auditor.audit\(X\) returns",
    ),
    refused(
        "A policy is given the targets of other rows",
        lambda: rue.Policy.by_risk(held_out(), y[:10], WRONG, risk=0.1),
        ShapeError,
        r"targets have shape \(10,\), the audit 20 rows",
    ),
    refused(
        "A target of a held-out row is not known",
        lambda: rue.Policy.by_risk(held_out(), [NAN] * 20, WRONG, risk=0.1),
        DataError,
        r"NaN or infinite in 20 of 20 rows; hold out rows with known targets",
    ),
    refused(
        "A risk is given in per cent",
        lambda: rue.Policy.by_risk(held_out(), y, WRONG, risk=5),
        SettingError,
        r"risk is 5, expected strictly between 0 and 1; write 5 % as 0.05",
    ),
    refused(
        "Fewer reviews are allowed than held-out rows can tell apart",
        lambda: rue.Policy.by_share(held_out(), share=0.01),
        SettingError,
        r"share of 0.01 cannot be kept with 20 held-out rows.*allow at least 0.048 or hold out more rows",
    ),
    refused(
        "A review costs more than an error",
        lambda: rue.Policy.by_cost(held_out(), y, WRONG, error=1.0, review=10.0),
        SettingError,
        r"an error costs 1 and a review 10.*accept everything",
    ),
    refused(
        "A tolerance is negative",
        lambda: rue.policy.Exceeds(-1.0),
        SettingError,
        r"tolerance is -1.0, expected at least 0; give the largest",
    ),
]

ZERO = torch.nn.Linear(X.shape[1], 1).to(X)
torch.nn.init.zeros_(ZERO.weight)
torch.nn.init.zeros_(ZERO.bias)

CALIBRATION = [
    refused(
        "A calibrated audit is asked for another loss than squared error",
        lambda: rue.CalibratedRUE().fit(wrap(loss=lambda f, t: (f[:, 0] - t).square()), (X, y)),
        ModelError,
        r'residuals of loss="squared_error".*use ClassifierRUE for classes, and LinearRUE',
    ),
    refused(
        "A model without any residuals is calibrated",
        lambda: rue.CalibratedRUE().fit(rue.wrap(ZERO, loss="squared_error", l2=1.0), (X, torch.zeros(len(X)))),
        NumericalError,
        r"no residuals to calibrate by; use LinearRUE",
    ),
    refused(
        "Tails are named wrongly",
        lambda: rue.CalibratedRUE(tails="heavy"),
        SettingError,
        r'tails must be "student".*got \'heavy\'',
    ),
    refused(
        "An interval is asked for by a rule the audit does not have",
        lambda: fit().audit(X).interval(0.9, by="split conformal"),
        SettingError,
        r"no interval by 'split conformal'.*choose from distribution",
    ),
    refused(
        "Intervals by group are asked for without held-out groups",
        lambda: fit().audit(X).interval(0.9, group=[0] * len(X)),
        SettingError,
        r"know no groups; calibrate the auditor",
    ),
    refused(
        "An auditor without a predictive distribution is calibrated",
        lambda: rue.KernelDensity().fit(wrap(), (X, y)).calibrate(X, y),
        InputError,
        r"no predictive distribution.*use loss=",
    ),
    refused(
        "An auditor is fitted again",
        lambda: fit().fit(X, y),
        InputError,
        r"fitted already.*use it as it is",
    ),
]

ESTIMATORS = [
    refused(
        "A quantile loss is asked for by name",
        lambda: wrap(loss="quantile"),
        ModelError,
        r"no second derivative, the nearest loss that has one is 'huber'",
    ),
    refused(
        "Resampling is asked of nearest neighbours, which have no parameters",
        lambda: rue.LinearRUE().fit(rue.wrap(KNeighborsRegressor().fit(X, y)), (X, y)),
        ModelError,
        r"known by its predictions alone.*use rue.audit, CalibratedRUE\(\)",
    ),
    refused(
        "Clusters are wrapped, which are no predictions",
        lambda: rue.wrap(KMeans(2, n_init=1, random_state=0).fit(X)),
        ModelError,
        r"KMeans has no parameters that could be read",
    ),
    refused(
        "Nearest neighbours are wrapped before they are fitted",
        lambda: rue.wrap(KNeighborsRegressor()),
        ModelError,
        r"not fitted; call fit",
    ),
    refused(
        "A classifier of one's own does not say its classes",
        lambda: rue.wrap(type("Own", (), {"predict": None, "predict_proba": None, "fit": None})()),
        ModelError,
        r"cannot wrap Own; give .* any object whose predict\(X\) returns a number",
    ),
    refused(
        "A penalty is stated for a model that is known by its predictions",
        lambda: rue.wrap(KNeighborsRegressor().fit(X, y), l2=1.0),
        SettingError,
        r"known by its predictions alone.*leave l2 out",
    ),
    refused(
        "A model's own predict fails on the inputs",
        lambda: rue.audit(KNeighborsRegressor().fit(X, y), train=(X, y), inputs=X[:, :1]),
        DataError,
        r"KNeighborsRegressor failed on these inputs.*give them as in training",
    ),
    refused(
        "Copies in folds are asked for, and nothing says how they are trained",
        lambda: rue.audit(linear(), train=(X, y), inputs=X, loss="squared_error", left_out=rue.left_out.Folds(3)),
        SettingError,
        r"nothing says how; give refit=",
    ),
    refused(
        "refit is no function",
        lambda: rue.audit(Own(), train=(X, y), inputs=X, refit=3),
        SettingError,
        r"refit is 3, expected a function from row numbers",
    ),
    refused(
        "refit forgets to return the model",
        lambda: rue.audit(Own(), train=(X, y), inputs=X, refit=lambda _: None),
        ModelError,
        r"refit returned None, expected the trained model",
    ),
    refused(
        "A model of one's own predicts words",
        lambda: rue.audit(SimpleNamespace(predict=lambda X: ["yes"] * len(X)), train=(X, y), inputs=X),
        ModelError,
        r"predicts <U3 where numbers were expected; a classifier has predict_proba and classes_",
    ),
    refused(
        "One fold is asked for",
        lambda: rue.left_out.Folds(1),
        SettingError,
        r"at least 2, got 1",
    ),
    refused(
        "An estimator is wrapped before it is fitted", lambda: rue.wrap(Ridge()), ModelError, r"not fitted; call fit"
    ),
    refused(
        "A loss is said for an estimator that knows its own",
        lambda: rue.wrap(Ridge().fit(X, y), loss="huber"),
        SettingError,
        r"knows the loss and penalty.*leave loss and l2 out",
    ),
    refused(
        "A selection of parameters is asked of an estimator",
        lambda: rue.wrap(Ridge().fit(X, y), select="*"),
        SettingError,
        r"describe a torch.nn.Module.*leave them out",
    ),
    refused(
        "A forest is audited as if it minimised something",
        lambda: rue.LinearRUE().fit(rue.wrap(RandomForestRegressor(3, random_state=0).fit(X, y)), (X, y)),
        ModelError,
        r"ForestRUE",
    ),
    refused(
        "A forest is audited with other rows than it was grown on",
        lambda: rue.ForestRUE().fit(rue.wrap(RandomForestRegressor(3, random_state=0).fit(X, y)), (X, y.flip(0))),
        DataError,
        r"not the rows it was grown on",
    ),
    refused(
        "A model file of an unknown kind is wrapped",
        lambda: rue.wrap("model.onnx"),
        ModelError,
        r"known are .pt2, .safetensors",
    ),
    refused(
        "A pickle is wrapped, which would run what is in it",
        lambda: rue.wrap("model.pkl"),
        ModelError,
        r"runs whatever code is inside.*trust_code=True",
    ),
    refused(
        "A classifier that ends in a softmax is given the loss of logits",
        lambda: fit(nn.Sequential(linear(2), nn.Softmax(-1)), (X, labels), loss="cross_entropy"),
        ModelError,
        r"probabilities, and the loss wants logits",
    ),
    refused(
        "Labels are counted from one",
        lambda: fit(linear(2), (X, labels + 1), loss="cross_entropy"),
        DataError,
        r"not the whole numbers 0 to 1",
    ),
    refused(
        "An interval is asked of a classifier",
        lambda: fit(linear(2), (X, labels), loss="cross_entropy").audit(X_new).interval(0.9),
        InputError,
        r"prediction_set",
    ),
    refused(
        "One label is given for several audited rows",
        lambda: fit(linear(2), (X, labels), loss="cross_entropy").audit(X_new).log_prob([1]),
        ShapeError,
        r"1 labels for 5 rows",
    ),
    refused(
        "Times of survival come without events",
        lambda: fit(linear(), (X, y.abs()), loss="cox"),
        ShapeError,
        r"expected two columns \(n, 2\)",
    ),
]

WHY = [
    refused(
        "A method without influences is asked why",
        lambda: audit(method=rue.KernelDensity()).explain(0),
        InputError,
        r"no training row's influence.*LinearRUE, CalibratedRUE",
    ),
    refused(
        "A row is explained that was not audited",
        lambda: audit().explain(500),
        SettingError,
        r"row is 500, expected 0 to \d+, one of the \d+ audited rows",
    ),
    refused(
        "An output is explained that the model does not have",
        lambda: audit().explain(0, output=3),
        SettingError,
        r"output is 3, expected 0 to 0, one of the model's 1 outputs",
    ),
    refused(
        "Rows are left out that were never there",
        lambda: audit().explain(0).without([99]),
        InputError,
        r"units must be numbers from 0 to 19, as in explanation.order; got \[99\]",
    ),
]

EXPLAINED = SimpleNamespace(
    of="the prediction",
    kernel=np.ones(5),
    residual=np.ones(5),
    unit=np.arange(5),
    contribution=np.ones(5),
    change=np.ones(5),
    label=np.arange(5),
)

FIGURES = [
    refused(
        "Members are asked of a method in closed form",
        lambda: rue.LinearRUE().fit(wrap(), (X, y)).members(X_new),
        InputError,
        r"LinearRUE draws no members.*fit rue.RUE instead",
    ),
    refused(
        "A kernel is drawn along a feature of other rows",
        lambda: rue.plots.kernel(EXPLAINED, X[:, 0]),
        ShapeError,
        r"x has shape \(20,\), expected one value for each of the n = 5 training rows.*pass a column",
    ),
    refused(
        "An influence map gets a table instead of a column",
        lambda: rue.plots.influence_map(EXPLAINED, np.ones(5), np.ones((5, 2))),
        ShapeError,
        r"y has shape \(5, 2\), expected one value for each.*pass a column",
    ),
    refused(
        "Thirds of scores are drawn for other rows than the intervals",
        lambda: rue.plots.coverage_by_tercile(np.ones(5), np.zeros(5), np.ones(5), np.ones(4)),
        InputError,
        r"score has 4 rows and y has 5.*pass the same rows",
    ),
    refused(
        "Two rows are cut into thirds",
        lambda: rue.plots.coverage_by_tercile(np.ones(2), np.zeros(2), np.ones(2), np.ones(2)),
        InputError,
        r"there are 2 rows, expected at least one for each third; pass more rows",
    ),
    refused(
        "Spread and error are drawn in more bins than rows allow",
        lambda: rue.plots.spread_and_error(np.ones(5), np.ones(5)),
        InputError,
        r"bins is 8 for 5 rows.*use fewer bins",
    ),
    refused(
        "A score is drawn along one feature of several rows",
        lambda: rue.plots.score_along(fit(), X_new, 0, [0.0, 1.0]),
        ShapeError,
        r"row has shape \(5, 3\), expected one input \(p,\); pass one row",
    ),
    refused(
        "A score is drawn along a feature the row does not have",
        lambda: rue.plots.score_along(fit(), X_new[0], 3, [0.0, 1.0]),
        InputError,
        r"feature is 3, expected 0 to 2; pass the number of a column",
    ),
    refused(
        "A feature of an array is named",
        lambda: rue.plots.score_along(fit(), X_new[0], "age", [0.0, 1.0]),
        InputError,
        r"array without names; pass a column number or a frame",
    ),
    refused(
        "A feature is named that the data frame does not have",
        lambda: rue.plots.score_along(fit(), pd.DataFrame({"age": [50], "dose": [1], "sex": [0]}), "bmi", [0.0, 1.0]),
        InputError,
        r"feature is 'bmi', expected one of age, dose, sex; name a column",
    ),
    refused(
        "Members of several outputs are drawn",
        lambda: rue.plots.members_spread(
            rue.RUE(members=2).fit(wrap(linear(2)), (X, torch.stack([y, y], dim=1))), X_new
        ),
        ShapeError,
        r"the members predict 2 outputs, expected one to draw; draw one of",
    ),
    refused(
        "Members are drawn along a feature of other rows",
        lambda: rue.plots.members_spread(rue.RUE(members=2).fit(wrap(), (X, y)), X_new, x=X[:, 0]),
        InputError,
        r"x has 20 rows and inputs have 5, expected as many; pass the same rows",
    ),
    refused(
        "Members are drawn for more inputs than strips can be told apart",
        lambda: rue.plots.members_spread(rue.RUE(members=2).fit(wrap(), (X, y)), X.repeat(3, 1)),
        InputError,
        r"there are 60 inputs, expected at most 40 strips; pass fewer rows",
    ),
]

REPORTS = [
    refused(
        "A report is made of a method that is not fitted",
        lambda: rue.report(rue.LinearRUE(), X_new),
        InputError,
        r"made of a fitted auditor, got LinearRUE; use",
    ),
    refused(
        "A report is given the targets of other rows",
        lambda: rue.report(fit(), X_new, y),
        ShapeError,
        r"targets have shape \(20,\) and 5 rows were audited; give one target for each, or none",
    ),
    refused(
        "Some targets of a report are not known",
        lambda: rue.report(fit(), X_new, [1.0, NAN, 2.0, 3.0, 4.0]),
        DataError,
        r"1 of 5 targets are not known.*report the rows with known targets, or all of them without targets",
    ),
    refused(
        "The groups of a report are those of other rows",
        lambda: rue.report(fit(), X_new, group={"site": ["a", "b"]}),
        ShapeError,
        r"group 'site' has shape \(2,\) and 5 rows were audited; give one label for each",
    ),
    refused(
        "The level of a report is given in per cent",
        lambda: rue.report(fit(), X_new, level=90),
        SettingError,
        r"level is 90, expected strictly between 0 and 1; write 90 % as 0.9",
    ),
    refused(
        "A report is compared with a file that is none",
        lambda: rue.report(fit(), X_new, previous={"title": "an audit"}),
        InputError,
        r"previous is no report.*give the JSON that report.save wrote",
    ),
    refused(
        "A report is compared with a damaged one",
        lambda: rue.report(fit(), X_new, previous={"schema": "rue-report/1", "sections": [7]}),
        InputError,
        r"previous is a damaged report.*give the JSON as report.save wrote it",
    ),
    refused(
        "The rows of a report are shuffled",
        lambda: rue.report(fit(), DataLoader(TensorDataset(X_new), shuffle=True)),
        DataError,
        r"in another order, when they are read again; audit arrays, or a loader that does not shuffle",
    ),
]

CHECKS = [
    refused(
        "A check asks for a model that is trained again, and gets one that is trained",
        lambda: fit(linear()).check(refit=linear()),
        SettingError,
        r"refit must be a function from row numbers",
    ),
    refused(
        "One refit is asked for",
        lambda: fit(linear()).check(refit=lambda _: linear(), refits=1),
        SettingError,
        r"refits must be a whole number of at least 2, got 1",
    ),
    refused(
        "The seed of a check is a fraction",
        lambda: fit(linear()).check(seed=0.5),
        SettingError,
        r"seed must be a whole number",
    ),
    refused(
        "A training callable forgets to return the model",
        lambda: fit(linear()).check(X_new, refit=lambda _: None),
        ModelError,
        r"refit returned None",
    ),
    refused(
        "A training callable returns a model with other outputs",
        lambda: fit(linear()).check(X_new, refit=lambda _: linear(2)),
        ModelError,
        r"train the same architecture",
    ),
    refused(
        "Refits are asked for where the training rows come from a loader",
        lambda: fit(linear(), DataLoader(TensorDataset(X, y), batch_size=5)).check(refit=lambda _: linear()),
        SettingError,
        r"give inputs, auditor\.check\(inputs, refit=\.\.\.\)",
    ),
    refused(
        "A check is looked up that was not made",
        lambda: fit(linear()).check()["duplicates"],
        SettingError,
        r"was not made: no audited rows were given",
    ),
]

HONEST = [
    refused(
        "A source of left-out predictions is given as a class, not as an object",
        lambda: rue.CalibratedRUE().fit(wrap(linear()), (X, y), left_out=rue.left_out.Mixture),
        SettingError,
        r"such as left_out=rue\.left_out\.Mixture\(\)",
    ),
    refused(
        "Validation rows without targets",
        lambda: rue.CalibratedRUE().fit(wrap(linear()), (X, y), validation=X),
        DataError,
        r"expected a pair \(X, y\)",
    ),
    refused(
        "A single validation row",
        lambda: rue.CalibratedRUE().fit(wrap(linear()), (X, y), validation=(X[:1], y[:1])),
        DataError,
        r"leave validation= away",
    ),
]

SECTIONS = {
    "Losses": LOSSES,
    "Modules": MODULES,
    "Settings": SETTINGS,
    "Solvers": SOLVES,
    "Data": DATA,
    "Audits": AUDITS,
    "Subtle ones": SUBTLE,
    "Training": TRAINING,
    "Data sets": DATASETS,
    "Left-out rows": LEFT_OUT,
    "Decisions": DECISIONS,
    "Calibration": CALIBRATION,
    "Estimators": ESTIMATORS,
    "Explanations": WHY,
    "Figures": FIGURES,
    "Reports": REPORTS,
    "Checks": CHECKS,
    "Honesty": HONEST,
}
