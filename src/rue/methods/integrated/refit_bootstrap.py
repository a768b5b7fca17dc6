"""The bootstrap itself: networks trained again on resampled rows, which is what RUE approximates."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.auditing.meaning import Meaning, SpreadMeaning
from rue.core.concepts import Inputs, Resampler
from rue.core.errors import DataError, SettingError
from rue.core.model import Model
from rue.core.resample import Multinomial, generator
from rue.core.stored import storable
from rue.methods.ensemble import SampledMembers, check_members
from rue.methods.fitting import Fitting
from rue.methods.integrated.architecture import initialised, module_of, wrapped_module
from rue.methods.integrated.training import Adam, fitting_many, objective_of, stack, train

MEANING = Meaning(
    spread=SpreadMeaning(
        "Members'",
        "The spread of the members: networks trained again, each on resampled training rows.",
        "What other settings of the training would do.",
        "The spread is that of networks that {method} trained again on resampled rows; the predictions are those of "
        "the wrapped module. Other settings of the training are no part of it.",
    )
)


@dataclass(frozen=True)
class RefitBootstrap:
    """b networks trained on the wrapped model's own objective with resampled weights of the rows.

    All refits share one start and one order of the rows, so that they differ by the training data alone:
    `start="fresh"` draws new initial parameters with the seed, `start="trained"` goes on from the wrapped ones.
    The prediction is the wrapped model's; `score` is the refits' standard deviation.
    """

    members: int = 50
    seed: int = 0
    training: Adam = field(default_factory=Adam)
    start: Literal["fresh", "trained"] = "fresh"
    resampler: Resampler = field(default_factory=Multinomial)
    workers: int = -1  # processes, for models that cannot be batched: joblib's n_jobs
    meaning: ClassVar[Meaning] = MEANING

    def __post_init__(self) -> None:
        check_members(self.members)
        if self.start not in ("fresh", "trained"):
            raise SettingError(f'start must be "fresh" or "trained", got {self.start!r}')
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers == 0:
            raise SettingError(f"workers must be a number of processes, or -1 for all cores, got {self.workers!r}")

    def fit(self, model: Model, data: Any) -> Auditor:
        """Train the members."""
        return self.fit_many([model], [data])[0]

    def fit_many(self, models: Sequence[Model], data: Sequence[Any]) -> list[Auditor]:
        """The same for several training sets of one size and models of one kind, in one batched training.

        The i-th has the seed `seed + i`.
        """
        with fitting_many(self, models, data) as fits:
            thetas = self._refit(fits)
            return [
                fit.auditor(members, {}, drawn=members)
                for fit, members in zip(fits, self._members(fits, thetas), strict=True)
            ]

    def _members(self, fits: Sequence[Fitting], thetas: Tensor) -> "list[RefitMembers]":
        factors = [self.resampler.member_factor(fit.data.units) for fit in fits]
        return [RefitMembers(SampledMembers(own, factor)) for own, factor in zip(thetas, factors, strict=True)]

    def _refit(self, fits: Sequence[Fitting]) -> Tensor:
        sets, weight = stack(fits, self.seed)
        drawn = [
            self.resampler.draw(fit.data.units, self.members, generator(seed))[:, fit.data.unit]
            for fit, seed in zip(fits, sets.seeds, strict=True)
        ]
        if len({len(own) for own in drawn}) > 1:
            counts = [fit.data.units for fit in fits]
            raise DataError(f"{self.resampler} draws another number of members for {counts} units: fit these apart")
        starts = [self._start(fit.model, seed) for fit, seed in zip(fits, sets.seeds, strict=True)]
        weights = weight[:, None] * torch.stack(drawn).to(weight)  # (g, b, n)
        start = torch.stack(starts)[:, None].repeat(1, weights.shape[1], 1)
        objective = objective_of(fits[0].model, sets.n)
        return train(objective, start, sets, weights, self.training, workers=self.workers)

    def _start(self, model: Model, seed: int) -> Tensor:
        if self.start == "trained":
            return model.theta
        core = wrapped_module(model)
        parameters = dict(initialised(module_of(core), seed).named_parameters())
        parts = [parameters[name].detach().reshape(-1) for name in core.layout.names]
        return torch.cat(parts).to(model.theta)


@storable
@dataclass(frozen=True)
class RefitMembers:
    """Trained members. That their mean differs from the prediction is expected, so there is no warning about it."""

    ensemble: SampledMembers

    @property
    def count(self) -> int:
        """The number of members, b."""
        return self.ensemble.count

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """The members' spread."""
        return self.ensemble(model, inputs)._replace(members=None)

    def members(self, model: Model, inputs: Inputs) -> Tensor:
        """Each member's outputs, (b, c, k)."""
        return self.ensemble.members(model, inputs)
