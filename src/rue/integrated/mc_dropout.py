"""Monte Carlo dropout (Gal & Ghahramani 2016): a network trained with dropout, and thinned at random to predict."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear

from rue.auditor import Auditor
from rue.concepts import Assessment, Inputs, Model
from rue.derivatives import member_outputs
from rue.errors import ModelError, SettingError
from rue.integrated.architecture import flat, initialised, module_of, with_linear_layers
from rue.integrated.training import Adam, TrainingSets, stack, train
from rue.methods.ensemble import check_members
from rue.methods.fitting import fitting
from rue.models.parameters import Layout
from rue.randomness import generator, untouched


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
        if not self.rates or not all(0 < rate < 1 for rate in self.rates) or not 0 < self.held_out < 1:
            raise SettingError(f"rates and held_out must lie between 0 and 1, got {self.rates} and {self.held_out}")

    def fit(self, model: Model, data: Any) -> Auditor:
        """Choose the rate and the noise, then train on all rows."""
        return self.fit_many([model], [data])[0]

    def fit_many(self, models: Sequence[Model], data: Sequence[Any]) -> list[Auditor]:
        """The same for several training sets of one size and models of one kind, in batched trainings."""
        with ExitStack() as contexts:
            fits = [contexts.enter_context(fitting(self, *pair)) for pair in zip(models, data, strict=True)]
            plan = Thinned.of(fits[0].model)
            sets, weight = stack([fit.data for fit in fits], self.seed)
            chosen = self._choose(plan, sets, weight)
            thetas = self._train(plan, sets, weight, [choice.rate for choice in chosen])
            auditors = []
            for fit, theta, choice, seed in zip(fits, thetas, chosen, sets.seeds, strict=True):
                assess = ThinnedMembers(plan.members(theta, choice.rate, self.members, seed), choice.noise)
                facts = {"rate": choice.rate, "held_out_nll": choice.nll}
                auditors.append(fit.auditor(assess, facts, noise=False, predictor=assess.mean))
            return auditors

    def _choose(self, plan: "Thinned", sets: TrainingSets, weight: Tensor) -> "list[Choice]":
        """The rate of each training set whose held-out rows are the most likely, with the noise that makes them so."""
        kept = sets.n - max(1, round(self.held_out * sets.n))
        order = torch.stack([torch.randperm(sets.n, generator=generator(seed)) for seed in sets.seeds])
        each = torch.arange(len(order))[:, None]
        seen, unseen = order[:, :kept], order[:, kept:]
        every = [(i, rate) for i in range(len(order)) for rate in self.rates]  # one training set for each rate
        again = torch.tensor([i for i, _ in every])
        inner = TrainingSets(
            sets.inputs[each, seen][again], sets.targets[each, seen][again], [sets.seeds[i] for i, _ in every]
        )
        thetas = self._train(plan, inner, weight[each, seen][again], [rate for _, rate in every])
        choices: list[list[Choice]] = [[] for _ in sets.seeds]
        for (i, rate), theta in zip(every, thetas, strict=True):
            members = plan.members(theta, rate, self.members, sets.seeds[i])
            outputs = member_outputs(plan.model, members, sets.inputs[i, unseen[i]]).double()
            choices[i].append(Choice.of(rate, outputs, sets.targets[i, unseen[i]].double()))
        return [min(found, key=lambda choice: choice.nll) for found in choices]

    def _train(self, plan: "Thinned", sets: TrainingSets, weight: Tensor, rates: Sequence[float]) -> Tensor:
        """One network for each training set, with its rate: (g, d)."""
        starts = torch.stack([flat(initialised(plan.module, seed)) for seed in sets.seeds]).to(weight.device)
        rate = torch.tensor(rates).to(sets.inputs)[:, None].expand(len(rates), sets.n)
        own = TrainingSets((sets.inputs, rate), sets.targets, sets.seeds)
        with untouched():
            torch.manual_seed(self.seed)
            found = train(plan.objective(sets.n), starts[:, None].to(sets.inputs), own, weight[:, None], self.training)
        return found[:, 0]


@dataclass(frozen=True)
class Choice:
    """A rate, the noise covariance (k, k) beside it, and the NLL of held-out rows."""

    rate: float
    noise: Tensor
    nll: float

    @classmethod
    def of(cls, rate: float, outputs: Tensor, targets: Tensor) -> "Choice":
        """The noise of each output that makes targets (c, k) most likely around members' outputs (b, c, k)."""
        from scipy.optimize import minimize_scalar

        square = (targets - outputs.mean(0)).square()
        spread = outputs.var(0)
        found = []
        for error, own in zip(square.T, spread.T, strict=True):

            def nll(log_noise: float, error: Tensor = error, own: Tensor = own) -> float:
                total = own + torch.tensor(log_noise).double().exp().to(own)
                return float((0.5 * (error / total + total.log())).mean())

            scale = float(error.mean().clamp_min(1e-12).log())
            found.append(minimize_scalar(nll, bounds=(scale - 10, scale + 1), method="bounded"))
        noise = torch.tensor([float(best.x) for best in found], dtype=torch.float64).exp().to(outputs.device)
        return cls(rate, torch.diag(noise), sum(float(best.fun) for best in found))


@dataclass(frozen=True)
class Thinned:
    """The wrapped architecture with dropout before every linear layer."""

    model: Model = field(repr=False)
    module: nn.Module = field(repr=False)
    layers: tuple[str, ...]
    layout: Layout = field(repr=False)

    @classmethod
    def of(cls, model: Model) -> "Thinned":
        """Put dropout into a copy of the wrapped module."""
        if not model.gaussian:
            raise ModelError('the noise is Gaussian and stands for a squared error; wrap with loss="squared_error"')
        module = with_linear_layers(module_of(model), lambda layer, _: ThinnedLinear.of(layer))
        layers = tuple(name for name, part in module.named_modules() if isinstance(part, ThinnedLinear))
        parameters = dict(module.named_parameters())
        if tuple(parameters) != tuple(model.describe()["parameters"]):
            raise ModelError(
                "dropout trains every parameter, but some of this model are held fixed; wrap without select"
            )
        return cls(model, module, layers, Layout(tuple(parameters), tuple(p.shape for p in parameters.values())))

    def objective(self, n: int) -> Any:
        """The wrapped model's objective under dropout, each batch with the rate of its training set."""

        def objective(theta: Tensor, inputs: tuple[Tensor, Tensor], targets: Tensor, weights: Tensor) -> Tensor:
            x, rate = inputs
            state = {**self.layout.split(theta), **{f"{name}.rate".lstrip("."): rate[0] for name in self.layers}}
            outputs = functional_call(self.module, state, (x,))
            return (weights * self.model.loss(outputs, targets)).mean() + self.model.penalty(theta) / n

        return objective

    def members(self, theta: Tensor, rate: float, count: int, seed: int) -> Tensor:
        """`count` networks (count, d), each with random inputs of every linear layer cut off for good."""
        random = generator(seed)
        parts = {name: part.expand(count, *part.shape) for name, part in self.layout.split(theta).items()}
        for layer in self.layers:
            name = f"{layer}.weight".lstrip(".")
            kept = torch.rand(count, parts[name].shape[-1], generator=random) >= rate
            parts[name] = parts[name] * (kept / (1 - rate)).to(theta)[:, None, :]
        return torch.cat([part.reshape(count, -1) for part in parts.values()], dim=1)


class ThinnedLinear(nn.Linear):
    """A linear layer whose inputs are dropped at a rate that is a tensor, so that networks in a batch may differ."""

    rate: Tensor

    @classmethod
    def of(cls, layer: nn.Linear) -> "ThinnedLinear":
        """As large as another."""
        made = cls(layer.in_features, layer.out_features, bias=layer.bias is not None).to(layer.weight)
        made.register_buffer("rate", torch.zeros((), dtype=layer.weight.dtype))
        return made

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name nn.Linear gave it
        """Drop inputs, rescale the rest, multiply."""
        kept = torch.rand_like(input) >= self.rate
        return linear(input * kept / (1 - self.rate), self.weight, self.bias)


@dataclass(frozen=True)
class ThinnedMembers:
    """Thinned networks (b, d) and the noise (k, k) beside them."""

    thetas: Tensor = field(repr=False)
    noise: Tensor = field(repr=False)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Mean and spread of the members."""
        outputs = member_outputs(model, self.thetas, inputs).double()
        centred = outputs - outputs.mean(0)
        covariance = torch.einsum("bci,bcj->cij", centred, centred) / (len(outputs) - 1)
        return Assessment(outputs.mean(0), covariance, self.noise.expand(len(covariance), -1, -1))

    def mean(self, model: Model, inputs: Inputs) -> Tensor:
        """The members' mean (c, k)."""
        return self(model, inputs).prediction
