"""Deep ensembles (Lakshminarayanan et al. 2017): networks that predict mean and variance, trained independently."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad
from torch.nn.functional import softplus

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.core.concepts import Inputs
from rue.core.derivatives import member_outputs
from rue.core.errors import DataError, ModelError, SettingError
from rue.core.model import Model
from rue.core.nested import leaves, map_leaves
from rue.core.resample import untouched
from rue.core.stored import storable
from rue.methods.ensemble import check_members
from rue.methods.fitting import Fitting
from rue.methods.integrated.architecture import flat, initialised, module_of, with_linear_layers, wrapped_module
from rue.methods.integrated.training import Adam, TrainingSets, fitting_many, stack, train
from rue.models.admission import shapes
from rue.models.torch.module import ModuleCore, module_core

FLOOR = 1e-6  # the least predicted variance, as in the publication


@dataclass(frozen=True)
class DeepEnsemble:
    """b networks of the wrapped architecture with a second head for the variance, trained on the Gaussian NLL.

    Only the architecture is taken from the wrapped model. `adversarial` is the step of the fast gradient sign
    method as a share of each input's range (0.01 in the publication; 0 is without). `l2` is the coefficient of
    ½‖θ‖² beside the summed loss. The prediction is the mixture's mean; `score` is the std of the members' means.
    """

    members: int = 5
    seed: int = 0
    training: Adam = field(default_factory=lambda: Adam(epochs=40, batch=100, learning_rate=0.01))
    adversarial: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        check_members(self.members)
        if not (0 <= self.adversarial < math.inf and 0 <= self.l2 < math.inf):
            raise SettingError(f"adversarial and l2 must be at least 0, got {self.adversarial} and {self.l2}")

    def fit(self, model: Model, data: Any) -> Auditor:
        """Train the members."""
        return self.fit_many([model], [data])[0]

    def fit_many(self, models: Sequence[Model], data: Sequence[Any]) -> list[Auditor]:
        """The same for several training sets of one size and models of one kind, in one batched training.

        The i-th has the seed `seed + i`.
        """
        with fitting_many(self, models, data) as fits:
            heads = two_headed(fits[0].model)
            thetas = self._train(heads, fits)
            assessors = [MemberMixture(heads, own) for own in thetas]
            return [
                fit.auditor(assess, {"d": thetas.shape[-1]}, noise=False, predictor=assess.mean, drawn=assess)
                for fit, assess in zip(fits, assessors, strict=True)
            ]

    def _train(self, heads: "Heads", fits: Sequence[Fitting]) -> Tensor:
        """Every member is a training set of its own, with its own start and order: (g, b, d)."""
        sets, weight = stack(fits, self.seed)
        heads.check(map_leaves(lambda leaf: leaf[0, :2], sets.inputs), sets.targets.shape[-1])
        each = torch.arange(len(fits)).repeat_interleave(self.members)
        seeds = [self.members * seed + j for seed in sets.seeds for j in range(self.members)]
        x = map_leaves(lambda leaf: leaf[each], sets.inputs)
        module = module_of(heads.model)
        starts = torch.stack([flat(initialised(module, seed)) for seed in seeds]).to(heads.model.theta)
        own = TrainingSets((x, self._reach(x)) if self.adversarial else (x,), sets.targets[each], seeds)
        thetas = train(self._objective(heads, sets.n), starts[:, None], own, weight[each][:, None], self.training)
        return thetas.reshape(len(fits), self.members, -1)

    def _reach(self, x: Any) -> Tensor:
        """How far the adversarial step moves each input, for each training set: as x, (g, n, ...)."""
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise DataError(
                f"an adversarial step moves inputs along a gradient, which {shapes(x)} do not have; use adversarial=0"
            )
        return self.adversarial * (x.amax(1, keepdim=True) - x.amin(1, keepdim=True)).expand_as(x)

    def _objective(self, heads: "Heads", n: int) -> Any:
        def nll(theta: Tensor, x: Inputs, y: Tensor, weights: Tensor) -> Tensor:
            mean, variance = heads(theta, x)
            return (weights[:, None] * 0.5 * (variance.log() + (y - mean).square() / variance)).sum(1).mean()

        def objective(theta: Tensor, inputs: Any, y: Tensor, weights: Tensor) -> Tensor:
            x, *reach = inputs
            loss = nll(theta, x, y, weights)
            if reach:
                worse = x + reach[0] * grad(nll, argnums=1)(theta, x, y, weights).sign()
                loss = 0.5 * (loss + nll(theta, worse.detach(), y, weights))
            return loss + self.l2 / (2 * n) * theta.square().sum()

        return objective


@storable
@dataclass(frozen=True)
class Heads:
    """The wrapped architecture with twice the outputs (c, 2k), which are read as means and variances, (c, k) each."""

    wrapped: Model

    @cached_property
    def model(self) -> ModuleCore:
        """The network, made when first needed; its own parameters are never used."""

        def make(layer: nn.Linear, is_last: bool) -> nn.Linear:
            if not is_last:
                return layer
            return nn.Linear(layer.in_features, 2 * layer.out_features, bias=layer.bias is not None).to(layer.weight)

        with untouched():
            module = with_linear_layers(module_of(wrapped_module(self.wrapped)), make).requires_grad_(True)
        return module_core(module, "squared_error", None, None, "sum", None)

    def __call__(self, theta: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Means and variances."""
        return self.halves(self.model.predict(theta, inputs))

    def halves(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (..., 2k) as means and variances, (..., k) each."""
        mean, raw = outputs.chunk(2, dim=-1)
        return mean, softplus(raw) + FLOOR

    def check(self, rows: Inputs, k: int) -> None:
        """Refuse a module whose outputs do not come from the layer that was doubled."""
        try:
            with torch.no_grad():
                result = f"returned {tuple(self.model.predict(self.model.theta, rows).shape)}"
        except (RuntimeError, ValueError, IndexError) as error:
            result = f"failed ({error})"
        count = len(leaves(rows)[0])
        if result != f"returned {(count, 2 * k)}":
            raise ModelError(
                f"with twice the outputs in its last nn.Linear the module {result}, expected ({count}, {2 * k}) for "
                f"{count} rows; make the module's last nn.Linear give its outputs, one column each"
            )


def two_headed(model: Model) -> Heads:
    """The network of two heads; refuses a model of anything but a squared error."""
    if not model.family.gaussian:
        raise ModelError(
            'the heads are Gaussian and stand for a squared error; wrap the model with loss="squared_error"'
        )
    return Heads(model)


@storable
@dataclass(frozen=True)
class MemberMixture:
    """Members (b, d) of equal weight: the spread of their means, and the mean of their variances."""

    heads: Heads = field(repr=False)
    thetas: Tensor = field(repr=False)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:  # noqa: ARG002  the members have their own
        """The mixture's first two moments."""
        means, variances = self.heads.halves(member_outputs(self.heads.model, self.thetas, inputs).double())
        centred = means - means.mean(0)
        covariance = torch.einsum("bci,bcj->cij", centred, centred) / len(means)
        return Assessment(means.mean(0), covariance, torch.diag_embed(variances.mean(0)))

    @property
    def count(self) -> int:
        """The number of members, b."""
        return len(self.thetas)

    def members(self, model: Model, inputs: Inputs) -> Tensor:  # noqa: ARG002  as above
        """Each member's means, (b, c, k)."""
        return self.heads.halves(member_outputs(self.heads.model, self.thetas, inputs).double())[0]

    def mean(self, model: Model, inputs: Inputs) -> Tensor:
        """The mixture's mean (c, k)."""
        return self(model, inputs).prediction
