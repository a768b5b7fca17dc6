"""Monte Carlo dropout (Gal & Ghahramani 2016): a network trained with dropout that predicts with dropout, too."""

import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.core.concepts import Inputs
from rue.core.derivatives import member_outputs
from rue.core.errors import DataError, ModelError, SettingError
from rue.core.model import Model
from rue.core.nested import map_leaves
from rue.core.resample import generator
from rue.core.stored import storable
from rue.methods.ensemble import SampledMembers, check_members
from rue.methods.integrated.architecture import flat, initialised, module_of, with_linear_layers, wrapped_module
from rue.methods.integrated.training import Adam, BatchObjective, TrainingSets, fitting_many, stack, train
from rue.models.torch.module import ModuleCore, module_core

GRID = 100  # so many values of the noise are tried before the best is refined


@dataclass(frozen=True)
class MCDropout:
    """Dropout before every linear layer, in training and in prediction; rate and noise by held-out likelihood.

    Each rate is tried on the training rows less `held_out` of them, which also give the noise; the best is trained
    again on all. Architecture, loss and penalty are the wrapped model's. A member is one thinned network, the
    same for all rows. The prediction is the members' mean; `score` is their standard deviation.
    """

    members: int = 200
    seed: int = 0
    training: Adam = field(default_factory=lambda: Adam(epochs=400))
    rates: tuple[float, ...] = (0.005, 0.01, 0.05, 0.1)
    held_out: float = 0.2

    def __post_init__(self) -> None:
        check_members(self.members)
        if not isinstance(self.rates, tuple) or not self.rates or not all(0 < rate < 1 for rate in self.rates):
            raise SettingError(f"rates must be a tuple of numbers between 0 and 1, got {self.rates!r}")
        if not 0 < self.held_out < 1:
            raise SettingError(f"held_out must lie between 0 and 1, got {self.held_out!r}")

    def fit(self, model: Model, data: Any) -> Auditor:
        """Choose the rate and the noise, then train on all rows."""
        return self.fit_many([model], [data])[0]

    def fit_many(self, models: Sequence[Model], data: Sequence[Any]) -> list[Auditor]:
        """The same for several training sets of one size and models of one kind, in batched trainings.

        The i-th has the seed `seed + i`; its result does not depend on those beside it.
        """
        with fitting_many(self, models, data) as fits:
            plan = Thinned.of(fits[0].model)
            sets, weight = stack(fits, self.seed)
            chosen = self._choose(plan, sets, weight)
            thetas = self._train(plan, sets, weight, [choice.rate for choice in chosen])
            auditors = []
            for fit, theta, choice, seed in zip(fits, thetas, chosen, sets.seeds, strict=True):
                members = SampledMembers(plan.members(theta, choice.rate, self.members, seed))
                assess = ThinnedMembers(members, choice.noise)
                facts = {"rate": choice.rate, "held_out_nll": choice.nll}
                auditors.append(fit.auditor(assess, facts, noise=False, predictor=assess.mean, drawn=assess))
            return auditors

    def _choose(self, plan: "Thinned", sets: TrainingSets, weight: Tensor) -> "list[Choice]":
        """For each training set, the rate and the noise that make its held-out rows most likely."""
        kept = max(1, sets.n - max(1, round(self.held_out * sets.n)))
        order = torch.stack([torch.randperm(sets.n, generator=generator(seed)) for seed in sets.seeds])
        every = [(i, rate) for i in range(len(order)) for rate in self.rates]  # one training set for each rate
        again = torch.tensor([i for i, _ in every])[:, None]
        used, unseen = order[again[:, 0], :kept], order[:, kept:]
        inputs, targets = (map_leaves(lambda leaf: leaf[again, used], tree) for tree in (sets.inputs, sets.targets))
        inner = TrainingSets(inputs, targets, [sets.seeds[i] for i, _ in every])
        of_fewer = float(weight[0].sum()) * kept / sets.n  # the total weight of the rows used; it scales the penalty
        plan = replace(plan, model=plan.model.bind(map_leaves(operator.itemgetter(0), inputs), of_fewer))
        thetas = self._train(plan, inner, weight[again, used], [rate for _, rate in every])
        choices: list[list[Choice]] = [[] for _ in sets.seeds]
        for (i, rate), theta in zip(every, thetas, strict=True):
            members = plan.members(theta, rate, self.members, sets.seeds[i])
            here = map_leaves(operator.itemgetter((i, unseen[i])), sets.inputs)
            outputs = member_outputs(plan.model, members, here).double()
            choices[i].append(Choice.of(rate, outputs, sets.targets[i, unseen[i]].double(), weight[i, unseen[i]]))
        return [min(tried, key=lambda choice: choice.nll) for tried in choices]

    def _train(self, plan: "Thinned", sets: TrainingSets, weight: Tensor, rates: Sequence[float]) -> Tensor:
        """One network for each training set, with its rate: (g, d)."""
        theta = plan.model.theta
        starts = torch.stack([flat(initialised(plan.unused, seed)) for seed in sets.seeds]).to(theta)
        rate = torch.tensor(rates, dtype=torch.float64).to(theta)[:, None].expand(len(rates), sets.n)
        own = replace(sets, inputs=(sets.inputs, rate), draws=sum(plan.widths))
        return train(plan.objective(sets.n), starts[:, None], own, weight[:, None], self.training)[:, 0]


@storable
@dataclass(frozen=True)
class Choice:
    """A rate, the noise covariance (k, k) beside it, and the mean NLL of held-out rows."""

    rate: float
    noise: Tensor
    nll: float

    @classmethod
    def of(cls, rate: float, outputs: Tensor, targets: Tensor, weight: Tensor) -> "Choice":
        """Fit the noise of each output to targets (c, k), weighted by (c,), around the members' outputs (b, c, k)."""
        if float(weight.sum()) <= 0:
            raise DataError(f"the weights of all {len(weight)} held-out rows are zero; raise held_out")
        square = (targets - outputs.mean(0)).square()
        fits = [
            _likeliest(error, own, weight / weight.sum()) for error, own in zip(square.T, outputs.var(0).T, strict=True)
        ]
        noise = torch.tensor([best for best, _ in fits], dtype=torch.float64, device=outputs.device)
        return cls(rate, torch.diag(noise), sum(nll for _, nll in fits))


def _likeliest(error: Tensor, spread: Tensor, share: Tensor) -> tuple[float, float]:
    """The ν that minimises the mean NLL of squared errors (c,) under variances spread + ν, and that NLL."""
    from scipy.optimize import minimize_scalar

    def nll(log_noise: Any) -> Tensor:
        total = spread + torch.as_tensor(log_noise, dtype=torch.float64).to(spread).exp()[..., None]
        return 0.5 * (share * (error / total + total.log() + math.log(2 * math.pi))).sum(-1)

    largest = float(error.max().clamp_min(1e-12).log())  # from there on the NLL only grows
    smallest = float((share * error).sum().clamp_min(1e-12).log()) - 10
    grid = torch.linspace(smallest, largest, GRID, dtype=torch.float64)
    best = int(nll(grid).argmin())  # a grid, because there may be several minima
    bounds = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, GRID - 1)])
    minimum = minimize_scalar(lambda at: float(nll(at)), bounds=bounds, method="bounded", options={"xatol": 1e-8})
    return math.exp(float(minimum.x)), float(minimum.fun)


@storable
@dataclass(frozen=True)
class Thinned:
    """The wrapped architecture with dropout before every linear layer."""

    model: Model = field(repr=False)
    thinned: ModuleCore = field(repr=False)
    unused: nn.Module = field(repr=False)  # its module before any call, since a call may change it
    layers: tuple[str, ...]
    widths: tuple[int, ...]  # inputs of each layer

    @classmethod
    def of(cls, model: Model) -> "Thinned":
        """Put dropout into a copy of the wrapped module."""
        if not model.family.gaussian:
            raise ModelError('the noise is Gaussian and stands for a squared error; wrap with loss="squared_error"')
        core = wrapped_module(model)
        module = with_linear_layers(module_of(core), lambda layer, _: ThinnedLinear.of(layer)).requires_grad_(True)
        layers = {name: part for name, part in module.named_modules() if isinstance(part, ThinnedLinear)}
        owners = Counter(id(weight) for part in module.modules() for weight in part.parameters(recurse=False))
        tied = [name for name, part in layers.items() if owners[id(part.weight)] > 1]
        if tied:
            raise ModelError(
                f"layer {tied[0]!r} shares its weight with another, so that its inputs cannot be dropped alone; give "
                "each layer its own weight, or use DeepEnsemble"
            )
        thinned = module_core(module, "squared_error", None, None, "sum", None)
        if thinned.layout.names != core.layout.names:
            raise ModelError(
                "dropout trains every parameter, but some of this model are held fixed; wrap it without select and "
                "with requires_grad=True everywhere"
            )
        return cls(model, thinned, module, tuple(layers), tuple(part.in_features for part in layers.values()))

    def objective(self, n: int) -> BatchObjective:
        """The wrapped model's objective under dropout, each batch with the rate of its training set."""

        def objective(theta: Tensor, inputs: Any, targets: Any, weights: Tensor) -> Tensor:
            (x, rate), uniform = inputs
            scale = (uniform >= rate[0]) / (1 - rate[0])  # (c, inputs of all layers)
            parts = zip(self.layers, scale.split(self.widths, dim=1), strict=True)
            own = {f"{name}.scale".lstrip("."): part for name, part in parts}
            outputs = replace(self.thinned, fixed={**self.thinned.fixed, **own}).predict(theta, x)
            return (weights * self.model.loss(outputs, targets)).mean() + self.model.penalty(theta) / n

        return objective

    def members(self, theta: Tensor, rate: float, count: int, seed: int) -> Tensor:
        """`count` networks (count, d); each has random inputs of every linear layer set to zero."""
        random = generator(seed)
        parts = {name: part.expand(count, *part.shape) for name, part in self.thinned.layout.split(theta).items()}
        for layer in self.layers:
            name = f"{layer}.weight".lstrip(".")
            kept = torch.rand(count, parts[name].shape[-1], generator=random) >= rate
            parts[name] = parts[name] * (kept.to(theta) / (1 - rate))[:, None, :]
        return torch.cat([part.reshape(count, -1) for part in parts.values()], dim=1)


class ThinnedLinear(nn.Linear):
    """A linear layer whose inputs are scaled for each row: by zero where they are dropped."""

    scale: Tensor

    @classmethod
    def of(cls, layer: nn.Linear) -> "ThinnedLinear":
        """A layer that shares the parameters of another, so that tied ones stay tied."""
        thinned = cls(layer.in_features, layer.out_features, bias=layer.bias is not None)
        thinned.weight, thinned.bias = layer.weight, layer.bias
        thinned.register_buffer("scale", torch.ones(1, layer.in_features).to(layer.weight))
        return thinned

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name nn.Linear gave it
        """Scale inputs (c, ..., p) by (c, p), then multiply."""
        rows = self.scale.repeat_interleave(len(input) // len(self.scale), dim=0)  # a row may be several input rows
        return linear(input * rows.reshape(len(input), *[1] * (input.dim() - 2), -1), self.weight, self.bias)


@storable
@dataclass(frozen=True)
class ThinnedMembers:
    """Thinned networks, and the noise covariance (k, k)."""

    ensemble: SampledMembers
    noise: Tensor = field(repr=False)

    @property
    def count(self) -> int:
        """The number of members, b."""
        return self.ensemble.count

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Mean and spread of the members."""
        mean, covariance = self.ensemble.moments(model, inputs)
        return Assessment(mean, covariance, self.noise.expand(len(covariance), -1, -1))

    def mean(self, model: Model, inputs: Inputs) -> Tensor:
        """The members' mean (c, k)."""
        return self.ensemble.moments(model, inputs)[0]

    def members(self, model: Model, inputs: Inputs) -> Tensor:
        """Each member's outputs, (b, c, k)."""
        return self.ensemble.members(model, inputs)
